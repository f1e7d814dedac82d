package oci

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"enplace"
	"enplace/internal/base/basetest"
	"enplace/internal/egress"
	"enplace/internal/sandbox"
)

// durable starts a sandbox on a durable volume of the same name.
func (h *house) durable(t testing.TB, name string, edit func(*sandbox.Spec)) sandbox.Sandbox {
	t.Helper()
	s := h.Spec(name)
	s.Durable = name
	if edit != nil {
		edit(&s)
	}
	return h.Start(t, s)
}

// run runs a script that must succeed, and gives its output.
func run(t testing.TB, b sandbox.Sandbox, script string) string {
	t.Helper()
	var out bytes.Buffer
	exit, err := b.Exec(context.Background(), sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Env: sandbox.BaseEnv(), Dir: "/", Stdout: &out, Stderr: &out})
	if err != nil || exit.Code != 0 {
		t.Fatalf("%q: %+v, %v: %s", script, exit, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

func end(t testing.TB, b sandbox.Sandbox) {
	t.Helper()
	if err := b.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// image gives the file of a durable volume.
func (h *house) image(name string) string {
	return filepath.Join(h.oci.durables.folder(name), volumeImage)
}

// A durable sandbox whose process 1 dies keeps what was written, and can be started again.
func TestDurableOutlivesProcess1(t *testing.T) {
	h := newHouse(t, runtimeRunc, nil)
	b := h.durable(t, "dies", nil)
	run(t, b, "echo text > /root/file; (sleep 60 &) > /dev/null")
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
	if !cleanlyUnmounted(h.image("dies")) {
		t.Error("the volume was not unmounted cleanly")
	}
	if got := run(t, h.durable(t, "dies", nil), "cat /root/file"); got != "text" {
		t.Errorf("got %q", got)
	}
}

// What was synced inside is there after a crash of the host: the volume is as the disk had it at that moment.
func TestDurableAfterACrashOfTheHost(t *testing.T) {
	h := newHouse(t, runtimeRunc, nil)
	b := h.durable(t, "crash", nil)
	run(t, b, "mkdir /root/new && echo text | dd of=/root/new/file conv=fsync 2>/dev/null && mv /etc/passwd /etc/passwd2 && dd if=/etc/passwd2 of=/etc/x conv=fsync 2>/dev/null")
	crashed := filepath.Join(t.TempDir(), "crashed.img")
	if err := copySparse(h.image("crash"), crashed); err != nil {
		t.Fatal(err)
	}
	run(t, b, "echo later > /root/later")
	end(t, b)
	if cleanlyUnmounted(crashed) || !cleanlyUnmounted(h.image("crash")) {
		t.Fatal("the test proves nothing: the copy is clean")
	}
	if err := os.Rename(crashed, h.image("crash")); err != nil {
		t.Fatal(err)
	}
	b = h.durable(t, "crash", nil)
	if got := run(t, b, "cat /root/new/file /etc/passwd2; ls /etc/passwd /root/later 2>/dev/null || true"); got != "text\nroot:x:0:0::/root:/bin/sh" {
		t.Errorf("got %q", got)
	}
	end(t, b)
	if !cleanlyUnmounted(h.image("crash")) {
		t.Error("the volume was not unmounted cleanly")
	}
}

// A volume that cannot be mended without deciding something is left as it is, and said to be damaged.
func TestDamagedDurableIsLeftAlone(t *testing.T) {
	h := newHouse(t, runtimeRunc, nil)
	edit := func(s *sandbox.Spec) { s.Limits.DiskMiB = 64 }
	end(t, h.durable(t, "damaged", edit))
	image, record := h.image("damaged"), filepath.Join(h.oci.durables.folder("damaged"), durableRecord)
	for name, damage := range map[string]func() error{
		"unreadable file system": func() error { return os.WriteFile(image, bytes.Repeat([]byte("noise"), 1<<20), 0o600) },
		"no file system":         func() error { return os.Remove(image) },
		"unreadable record":      func() error { return os.WriteFile(record, []byte("{"), 0o600) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(image)
		s := h.Spec("damaged")
		s.Durable = "damaged"
		edit(&s)
		_, err := h.Runtime.Start(t.Context(), s)
		if enplace.KindOf(err) != enplace.KindUnavailable || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := os.ReadFile(image); !bytes.Equal(before, after) {
			t.Errorf("%s: the volume was changed", name)
		}
		if sizes, err := h.Runtime.Durables(t.Context()); err != nil || len(sizes) != 1 {
			t.Errorf("%s: volumes %v, %v", name, sizes, err)
		}
	}
}

// While the kernel has a volume mounted, nobody mounts it again: that would destroy it.
func TestDurableThatLingersIsNotMountedTwice(t *testing.T) {
	h := newHouse(t, runtimeRunc, nil)
	end(t, h.durable(t, "lingers", nil))
	mount, device, err := mountImage(h.image("lingers"), volumeAttrs, false)
	if err != nil {
		t.Fatal(err)
	}
	h.oci.durables.lingering["lingers"] = device
	s := h.Spec("lingers")
	s.Durable = "lingers"
	if _, err := h.Runtime.Start(t.Context(), s); enplace.KindOf(err) != enplace.KindConflict {
		t.Errorf("got %v", err)
	}
	mount.Close()
	if err := loopFreed(t.Context(), device, h.image("lingers")); err != nil {
		t.Fatal(err)
	}
	h.Start(t, s)
}

// A computer takes little of the disk before anything is written to it, however much it may write, and gives back what it removes.
func TestDurableTakesLittleDisk(t *testing.T) {
	h := newHouse(t, runtimeRunc, nil)
	size := func(b sandbox.Sandbox) int64 {
		end(t, b)
		sizes, err := h.Runtime.Durables(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return sizes["little"]
	}
	start := func() sandbox.Sandbox {
		return h.durable(t, "little", func(s *sandbox.Spec) { s.Limits = enplace.DefaultComputerLimits })
	}
	fresh := size(start())
	t.Logf("after a start and a stop: %d KiB", fresh>>10)
	if fresh > 1<<20 {
		t.Errorf("a fresh volume takes %d KiB", fresh>>10)
	}
	b := start()
	run(t, b, "dd if=/dev/zero of=/root/big bs=1M count=64; dd if=/dev/zero of=/tmp/big bs=1M count=64; sync; rm /root/big")
	if used := size(b); used > fresh+4<<20 {
		t.Errorf("what was removed is not given back: %d KiB", used>>10)
	}
}

// Folders in /tmp that are deeper than the server can have files open keep no sandbox from ending and starting.
func TestDurableRemovesDeepFolders(t *testing.T) {
	h := newHouse(t, runtimeRunc, nil)
	b := h.durable(t, "deep", nil)
	run(t, b, "cd /tmp; probe deep 3000")
	c := b.(*container)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	err := removeFolders(t.Context(), c.volume.dir, volumeTmp)
	if err := errors.Join(err, unix.Setrlimit(unix.RLIMIT_NOFILE, &was)); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(c.volume.dir, volumeTmp)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// What the real package manager installs lasts, with users of its own and the capabilities of files.
func TestDurableKeepsDebianPackages(t *testing.T) {
	needRoot(t)
	images, base := basetest.Open(t)
	h := newHouse(t, runtimeRunc, func(c *Config) {
		c.Images, c.CABundle = images, "/etc/ssl/certs/ca-certificates.crt"
		c.Egress = egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHosts: []string{"deb.debian.org"},
			Logger: slog.New(slog.DiscardHandler)})
	})
	h.Base = []enplace.Digest{base.Digest}
	edit := func(s *sandbox.Spec) {
		s.Limits = enplace.DefaultComputerLimits
		s.Egress = enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: []string{"deb.debian.org"}}
	}
	b := h.durable(t, "debian", edit)
	run(t, b, "apt-get update && apt-get install -y --no-install-recommends jq iputils-ping libcap2-bin acl && setcap cap_net_raw+p /usr/bin/ping && useradd -m worker && su worker -c 'echo mine > ~/file && mkdir ~/.cache && setfacl -m u:www-data:r ~/file'")
	look := "jq --version && getcap /usr/bin/ping && getfacl -p /home/worker/file && stat -c '%U %G %a %n' /home/worker /home/worker/file /usr/bin/jq /etc/shadow && cat /home/worker/file && dpkg --audit"
	before := run(t, b, look)
	for range 2 {
		end(t, b)
		b = h.durable(t, "debian", edit)
		if after := run(t, b, look); after != before || !strings.Contains(after, "worker worker") || !strings.Contains(after, "user:www-data:r--") {
			t.Errorf("after a stop:\n%s\nbefore it:\n%s", after, before)
		}
	}
	run(t, b, "apt-get purge -y jq && ! which jq && su worker -c 'rm ~/file && echo again > ~/file'")
}

// BenchmarkStartDurable measures the start of a stopped computer, to the end of its first command.
func BenchmarkStartDurable(b *testing.B) {
	h := newHouse(b, runtimeRunc, nil)
	s := h.Spec("bench")
	s.Durable, s.Limits = "bench", enplace.DefaultComputerLimits
	stops := time.Duration(0)
	box := h.Start(b, s)
	end(b, box)
	for b.Loop() {
		box, err := h.Runtime.Start(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		run(b, box, "true")
		b.StopTimer()
		began := time.Now()
		end(b, box)
		stops += time.Since(began)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/start")
	b.ReportMetric(float64(stops.Microseconds())/float64(b.N)/1000, "ms/stop")
}
