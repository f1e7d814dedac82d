package oci

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"enplace"
	"enplace/internal/egress"
	"enplace/internal/image"
	"enplace/internal/sandbox"
	"enplace/internal/sandbox/sandboxtest"
)

// house is a runtime in a directory of its own.
type house struct {
	sandboxtest.Harness
	oci    *Runtime
	config Config
}

// guestFolder is where the programs for inside are built, once for all tests.
var guestFolder = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		panic(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		panic(err)
	}
	return dir
})

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDirVariable); dir != "" {
		crash(dir)
	}
	if os.Getuid() == 0 {
		if err := OwnMounts(); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	os.RemoveAll(guestFolder())
	os.Exit(code)
}

func needRoot(t testing.TB) {
	if os.Getuid() != 0 {
		sandboxtest.Absent(t, "sandboxes need root")
	}
}

func newHouse(t testing.TB, program string, edit func(*Config)) *house {
	t.Helper()
	needRoot(t)
	if _, err := exec.LookPath(program); err != nil {
		sandboxtest.Absent(t, "%s is not installed", program)
	}
	guest := guestFolder()
	if _, err := os.Stat(filepath.Join(guest, shimProgram)); err != nil {
		sandboxtest.BuildGuest(t, guest)
	}
	images, err := image.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { images.Close() })
	base := sandboxtest.Base(t, images)
	config := testConfig(t.TempDir(), program, guest, images)
	if edit != nil {
		edit(&config)
	}
	r := open(t, config)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Errorf("closing: %v", err)
		}
		nothingLeft(t, r)
	})
	return &house{sandboxtest.Harness{Runtime: r, Images: images, Base: base}, r, config}
}

// testConfig has no warm sandboxes unless they are asked for.
func testConfig(dir, program, guest string, images *image.Store) Config {
	bundle := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(bundle, []byte("--- a certificate ---\n"), 0o644); err != nil {
		panic(err)
	}
	return Config{Dir: filepath.Join(dir, "sandbox"), Runtime: program, Guest: guest, Images: images, CABundle: bundle, PoolMax: -1,
		Egress: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Logger: slog.New(slog.DiscardHandler)})}
}

func open(t testing.TB, c Config) *Runtime {
	t.Helper()
	r, err := New(context.Background(), c)
	if enplace.KindOf(err) == enplace.KindUnavailable {
		sandboxtest.Absent(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// nothingLeft looks for whatever sandboxes leave on the host when they are not cleared away.
func nothingLeft(t testing.TB, r *Runtime) {
	t.Helper()
	if mounts, err := mountsBelow(r.dir); err != nil || len(mounts) > 0 {
		t.Errorf("left mounted: %v, %v", mounts, err)
	}
	loops, _ := filepath.Glob("/sys/block/loop*")
	for _, l := range loops {
		if f := loopFile(l); strings.HasPrefix(f, r.dir+"/") {
			t.Errorf("left: %s over %s", l, f)
		}
	}
	for _, dir := range []string{sandboxesDir, runtimeDir} {
		if left, err := filepath.Glob(filepath.Join(r.dir, dir, "*")); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
	r.ids.mu.Lock()
	defer r.ids.mu.Unlock()
	if len(r.ids.used) > 0 {
		t.Errorf("left: ranges %v", r.ids.used)
	}
}

func TestConformanceRunc(t *testing.T) { sandboxtest.Run(t, newHouse(t, runtimeRunc, nil).Harness) }

func TestConformanceCrun(t *testing.T) { runOptional(t, runtimeCrun) }

// runOptional runs the suite for a runtime that is not needed, where it is there.
func runOptional(t *testing.T, program string) {
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed, and need not be", program)
	}
	h := newHouse(t, program, nil).Harness
	h.Optional = true
	sandboxtest.Run(t, h)
}

// A sandbox from the pool must be as good as one made for its owner.
func TestConformanceWarm(t *testing.T) {
	sandboxtest.Run(t, newHouse(t, runtimeRunc, func(c *Config) { c.PoolMax = 2 }).Harness)
}

// Kernels before 6.15 cannot clone detached mounts, so volumes are attached there.
func TestConformanceAttachedVolumes(t *testing.T) {
	h := newHouse(t, runtimeRunc, nil)
	h.oci.volumes.detached = false
	sandboxtest.Run(t, h.Harness)
}

// A host without loop devices, or without mkfs, has no limit on disk, and all else.
func TestConformancePlainDirectories(t *testing.T) {
	h := newHouse(t, runtimeRunc, nil)
	h.oci.volumes.limited = false
	if h.Runtime.Abilities().Disk {
		t.Fatal("still says that it limits disk")
	}
	for _, id := range []string{"kept", "kept-again"} {
		s := h.Spec(id)
		s.Keep = true
		b := h.Start(t, s)
		if _, err := b.Exec(t.Context(), sandbox.Command{Argv: []string{"/bin/touch", "/task/file"}, Dir: "/"}); err != nil {
			t.Fatal(err)
		}
		if err := b.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		w, err := h.Runtime.Work(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Root.Lstat("file"); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A sandbox whose process 1 dies closes Done and leaves nothing, and its work is kept if that was asked for.
func TestDiesByItself(t *testing.T) {
	h := newHouse(t, runtimeRunc, nil)
	s := h.Spec("dies")
	s.Keep = true
	b := h.Start(t, s)
	if _, err := b.Exec(t.Context(), sandbox.Command{Argv: []string{"/bin/touch", "/task/file"}, Dir: "/"}); err != nil {
		t.Fatal(err)
	}
	process, err := b.(*container).process.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var killed error
	err = process.Control(func(fd uintptr) { killed = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
	if err := errors.Join(err, killed); err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.Done():
	case <-time.After(time.Minute):
		t.Fatal("Done is open")
	}
	nothingLeft(t, h.oci)
	w, err := h.Runtime.Work(t.Context(), "dies")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Root.Lstat("file"); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// Files that sandboxes share must be open to a sandbox's root, who is nobody; the error says which is not.
func TestSharedFilesMustBeOpen(t *testing.T) {
	needRoot(t)
	c := testConfig(t.TempDir(), runtimeRunc, os.Args[0], nil)
	if err := os.Chmod(c.CABundle, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(t.Context(), c)
	if enplace.KindOf(err) != enplace.KindUnavailable || !strings.Contains(err.Error(), c.CABundle) {
		t.Errorf("got %v", err)
	}
}

// A server with a tight umask still makes roots that everybody inside can use.
func TestTightUmask(t *testing.T) {
	h := newHouse(t, runtimeRunc, nil)
	defer unix.Umask(unix.Umask(0o077))
	s := h.Spec("umask")
	s.Mounts = []sandbox.Mount{{Path: "/opt/deep/place", Writable: true}}
	b := h.Start(t, s)
	var out bytes.Buffer
	_, err := b.Exec(t.Context(), sandbox.Command{Argv: []string{"/bin/stat", "-c", "%n %a", "/", "/task", "/opt", "/opt/deep", "/opt/deep/place", "/etc/hosts"},
		Dir: "/", Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if want := "/ 755\n/task 755\n/opt 755\n/opt/deep 755\n/opt/deep/place 755\n/etc/hosts 644\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// What a guest that does not come up says is in the error, and nothing is left of the attempt.
func TestGuestThatFails(t *testing.T) {
	broken := t.TempDir()
	for _, name := range []string{guestProgram, shimProgram} {
		sandboxtest.Build(t, "enplace/internal/sandbox/sandboxtest/probe", filepath.Join(broken, name))
	}
	h := newHouse(t, runtimeRunc, func(c *Config) { c.Guest = broken })
	_, err := h.Runtime.Start(t.Context(), h.Spec("broken"))
	if err == nil || !strings.Contains(err.Error(), "no attempt") {
		t.Errorf("got %v", err)
	}
	nothingLeft(t, h.oci)
}

// A cache that a crash left in the middle of writing is thrown away.
func TestUncleanCacheIsMadeAnew(t *testing.T) {
	h := newHouse(t, runtimeRunc, nil)
	s := h.Spec("unclean")
	s.Mounts = []sandbox.Mount{{Path: "/cache", Cache: "unclean", CacheMiB: 64}}
	run := func(argv ...string) string {
		b := h.Start(t, s)
		var out bytes.Buffer
		if _, err := b.Exec(t.Context(), sandbox.Command{Argv: argv, Dir: "/", Stdout: &out}); err != nil {
			t.Fatal(err)
		}
		if err := b.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	run("/bin/touch", "/cache/file")
	if out := run("/bin/ls", "/cache"); !strings.Contains(out, "file") {
		t.Fatalf("the cache did not last: %q", out)
	}
	f, err := os.OpenFile(h.oci.caches.image("unclean"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0, 0}, 1024+0x3a); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if out := run("/bin/ls", "/cache"); strings.Contains(out, "file") {
		t.Errorf("the cache was used unclean: %q", out)
	}
}

func TestIDRanges(t *testing.T) {
	r := newIDRanges(1<<20, 3*idsPerSandbox)
	seen := map[uint32]bool{}
	for range 3 {
		base, err := r.take()
		if err != nil || base < 1<<20 || base%idsPerSandbox != 0 || seen[base] {
			t.Fatalf("got %d, %v after %v", base, err, seen)
		}
		seen[base] = true
	}
	if _, err := r.take(); enplace.KindOf(err) != enplace.KindBusy {
		t.Errorf("a fourth of three: %v", err)
	}
	r.release(1<<20 + idsPerSandbox)
	if base, err := r.take(); err != nil || base != 1<<20+idsPerSandbox {
		t.Errorf("got %d, %v", base, err)
	}
}

func TestFolder(t *testing.T) {
	for _, c := range []struct {
		path  string
		depth int
		want  string
	}{
		{"top", 1, ""}, {"a/f", 1, "a"}, {"a/b/f", 1, "a"}, {"a/b/f", 2, "a/b"}, {"a/f", 2, "a"}, {"a/f", 0, ""},
	} {
		if got := folder(c.path, c.depth); got != c.want {
			t.Errorf("folder(%q, %d) = %q, want %q", c.path, c.depth, got, c.want)
		}
	}
}
