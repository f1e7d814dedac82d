package image_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"enplace"
	"enplace/internal/image"
)

// at gives a path below a detached mount.
func at(m *os.File, p string) string { return fmt.Sprintf("/proc/%d/fd/%d/%s", os.Getpid(), m.Fd(), p) }

func acquire(t testing.TB, s *image.Store, d enplace.Digest) *image.Layer {
	t.Helper()
	l, err := s.Acquire(t.Context(), d)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func stack(t testing.TB, o image.StackOptions) *os.File {
	t.Helper()
	m, err := image.Stack(o)
	must(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// inEveryMode runs a test with each way of mounting that the host has.
func inEveryMode(t *testing.T, test func(t *testing.T, s *image.Store)) {
	needRoot(t)
	for _, mode := range image.Modes {
		for _, attached := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, attached=%v", mode, attached), func(t *testing.T) {
				s, _ := open(t)
				image.Force(s, mode, attached)
				info, err := s.Pack(t.Context(), fstest.MapFS{})
				must(t, err)
				l, err := s.Acquire(t.Context(), info.Digest)
				if err != nil {
					if os.Getenv("CI") != "" {
						t.Fatal(err)
					}
					t.Skipf("this host cannot mount so: %v", err)
				}
				l.Close()
				test(t, s)
			})
		}
	}
}

func TestStackShowsTheHighest(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(t *testing.T, s *image.Store) {
		low, high := t.TempDir(), t.TempDir()
		write(t, low, map[string]string{"stays": "low", "gone": "low", "both": "low", "dir/old": "low", "merged/low": "low", "bin/sub/": ""})
		write(t, high, map[string]string{"both": "high", "dir/new": "high", "merged/high": "high"})
		must(t, os.Chmod(filepath.Join(high, "merged"), 0o751))
		must(t, unix.Mknod(filepath.Join(high, "gone"), unix.S_IFCHR, 0))
		must(t, unix.Setxattr(filepath.Join(high, "dir"), "trusted.overlay.opaque", []byte("y"), 0))
		must(t, os.Chown(filepath.Join(low, "stays"), 5, 6))
		must(t, os.Symlink("stays", filepath.Join(low, "link")))

		m := stack(t, image.StackOptions{UserNS: -1, Layers: []*image.Layer{
			acquire(t, s, packDir(t, s, low, image.DirOptions{}).Digest),
			acquire(t, s, packDir(t, s, high, image.DirOptions{}).Digest),
		}})
		var got []string
		entries, err := os.ReadDir(at(m, "."))
		must(t, err)
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if want := []string{"bin", "both", "dir", "link", "merged", "stays"}; !slices.Equal(got, want) {
			t.Errorf("the stack has %q, want %q", got, want)
		}
		if got := readAll(t, at(m, "both")) + readAll(t, at(m, "link")); got != "highlow" {
			t.Errorf("read %q", got)
		}
		if _, err := os.Lstat(at(m, "dir/old")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("an opaque folder shows what is below it (%v)", err)
		}
		if readAll(t, at(m, "merged/low"))+readAll(t, at(m, "merged/high")) != "lowhigh" {
			t.Error("the folders were not merged")
		}
		var st unix.Stat_t
		must(t, unix.Stat(at(m, "merged"), &st))
		if st.Mode&0o7777 != 0o751 {
			t.Errorf("the merged folder has mode %o", st.Mode)
		}
		must(t, unix.Stat(at(m, "stays"), &st))
		if st.Uid != 5 || st.Gid != 6 {
			t.Errorf("owner %d:%d", st.Uid, st.Gid)
		}
		for _, p := range []string{"new", "bin/new", "bin/sub/new"} {
			if err := os.WriteFile(at(m, p), nil, 0o644); !errors.Is(err, unix.EROFS) {
				t.Errorf("writing %s: %v", p, err)
			}
		}
		var fsst unix.Statfs_t
		must(t, unix.Fstatfs(int(m.Fd()), &fsst))
		if want := int64(unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV); fsst.Flags&want != want {
			t.Errorf("mount flags %#x", fsst.Flags)
		}
	})
}

func TestUpperIsPackedAndStackedAgain(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(t *testing.T, s *image.Store) {
		low, dir := t.TempDir(), t.TempDir()
		write(t, low, map[string]string{"a": "1", "b": "2", "dir/x": "3", "dir/y": "4", "moved/z": "5"})
		write(t, dir, map[string]string{"upper/": "", "work/": ""})
		base := acquire(t, s, packDir(t, s, low, image.DirOptions{}).Digest)
		upper := filepath.Join(dir, "upper")
		rw := stack(t, image.StackOptions{UserNS: -1, Layers: []*image.Layer{base}, Upper: upper, Work: filepath.Join(dir, "work"), Volatile: true})
		must(t, os.Remove(at(rw, "a")))
		must(t, os.RemoveAll(at(rw, "dir")))
		write(t, at(rw, "."), map[string]string{"b": "changed", "dir/new": "6"})
		must(t, exec.Command("mv", at(rw, "moved"), at(rw, "elsewhere")).Run())

		top := acquire(t, s, packDir(t, s, upper, image.DirOptions{}).Digest)
		ro := stack(t, image.StackOptions{UserNS: -1, Layers: []*image.Layer{base, top}})
		want, err := exec.Command("find", at(rw, "."), "-printf", "%P %y %m %U:%G\\n").Output()
		must(t, err)
		got, err := exec.Command("find", at(ro, "."), "-printf", "%P %y %m %U:%G\\n").Output()
		must(t, err)
		if sorted(got) != sorted(want) {
			t.Errorf("stacked again there is\n%s\nand it was\n%s", got, want)
		}
		if readAll(t, at(ro, "b"))+readAll(t, at(ro, "elsewhere/z")) != "changed5" {
			t.Error("the content differs")
		}
	})
}

func sorted(out []byte) string {
	lines := strings.Split(string(out), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// userNS gives a user namespace in which 0 to 65535 are the host's ids from base, with a process in it that enter starts
// programs beside.
func userNS(t *testing.T, base int) (ns *os.File, pid int) {
	t.Helper()
	c := exec.Command("sleep", "1000")
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: base, Size: 65536}}
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: mapping, GidMappings: mapping, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig is about the thread
	if err := c.Start(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no user namespaces here: %v", err)
		}
		t.Skipf("no user namespaces here: %v", err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait(); runtime.UnlockOSThread() })
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", c.Process.Pid))
	must(t, err)
	t.Cleanup(func() { ns.Close() })
	return ns, c.Process.Pid
}

// asRoot runs a shell command as root of a user namespace, in a folder given as descriptor 3.
func asRoot(t *testing.T, pid int, dir *os.File, script string) string {
	t.Helper()
	c := exec.Command("nsenter", "--user", "--target", fmt.Sprint(pid), "--setuid", "0", "--setgid", "0", "sh", "-c", "cd /proc/self/fd/3 && "+script)
	c.ExtraFiles = []*os.File{dir}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

func TestIDMappedStackInUserNamespace(t *testing.T) {
	inEveryMode(t, func(t *testing.T, s *image.Store) {
		const base = 300_000
		ns, pid := userNS(t, base)
		low, high := t.TempDir(), t.TempDir()
		write(t, low, map[string]string{"f": "secret", "d/e/g": "deep"})
		write(t, high, map[string]string{"h": "x"})
		must(t, os.Chmod(filepath.Join(low, "f"), 0o600))
		must(t, os.Chown(filepath.Join(low, "d/e/g"), 1000, 1000))
		layers := []*image.Layer{
			acquire(t, s, packDir(t, s, low, image.DirOptions{}).Digest),
			acquire(t, s, packDir(t, s, high, image.DirOptions{}).Digest),
		}
		for n := 1; n <= 2; n++ {
			m := stack(t, image.StackOptions{Layers: layers[:n], UserNS: int(ns.Fd())})
			got := asRoot(t, pid, m, "id -u; cat f; echo; stat -c '%n %u:%g' f d/e/g; touch d/e/new 2>&1; touch new 2>&1; true")
			if want := "0\nsecret\nf 0:0\nd/e/g 1000:1000\n"; !strings.HasPrefix(got, want) || strings.Count(got, "Read-only file system") != 2 {
				t.Errorf("a stack of %d: inside it says\n%s", n, got)
			}
		}

		dir := t.TempDir()
		write(t, dir, map[string]string{"upper/": "", "work/": ""})
		upper := filepath.Join(dir, "upper")
		must(t, os.Chown(upper, base, base))
		m := stack(t, image.StackOptions{Layers: layers, UserNS: int(ns.Fd()), Upper: upper, Work: filepath.Join(dir, "work")})
		asRoot(t, pid, m, "echo more >>f && rm h && chown 1000:1000 d && touch d/e/own")
		info := packDir(t, s, upper, image.DirOptions{IDBase: base})
		img := readImage(t, s, info.Digest)
		for p, want := range map[string]uint32{".": 0, "f": 0, "d": 1000, "d/e/own": 0} {
			if _, st := lstat(t, img, p); st.UID != want || st.GID != want {
				t.Errorf("%s was packed as %d:%d, want %d", p, st.UID, st.GID, want)
			}
		}
		if mode, _ := lstat(t, img, "h"); mode&os.ModeCharDevice == 0 {
			t.Errorf("the removed file is %v, want a whiteout", mode)
		}
	})
}

func TestAttachDoesNotFollowLinks(t *testing.T) {
	needRoot(t)
	s, _ := open(t)
	info, err := s.Pack(t.Context(), fstest.MapFS{"f": {Data: []byte("image")}})
	must(t, err)
	m := stack(t, image.StackOptions{UserNS: -1, Layers: []*image.Layer{acquire(t, s, info.Digest)}})
	root, out := t.TempDir(), t.TempDir()
	write(t, root, map[string]string{"env/slug/": ""})
	must(t, os.Symlink(out, filepath.Join(root, "link")))
	inMountNamespace(t, func() {
		dir, err := os.Open(root)
		must(t, err)
		defer dir.Close()
		for _, rel := range []string{"link", "env/../../x", "/env/slug", "link/."} {
			if err := image.AttachAt(int(m.Fd()), int(dir.Fd()), rel); err == nil {
				t.Errorf("attached at %q", rel)
			}
		}
		must(t, image.AttachAt(int(m.Fd()), int(dir.Fd()), "env/slug"))
		if readAll(t, filepath.Join(root, "env/slug/f")) != "image" {
			t.Error("the mount is not there")
		}
	})
}

// inMountNamespace runs f on a thread with a mount namespace of its own; the thread ends with it, and so do its mounts.
func inMountNamespace(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

func TestNothingStaysMounted(t *testing.T) {
	needRoot(t)
	s, dir := open(t)
	image.Force(s, image.Modes[0], true)
	var layers []*image.Layer
	for _, content := range []string{"a", "b"} {
		info, err := s.Pack(t.Context(), fstest.MapFS{"f": {Data: []byte(content)}})
		must(t, err)
		layers = append(layers, acquire(t, s, info.Digest))
	}
	m := stack(t, image.StackOptions{UserNS: -1, Layers: layers})
	if n := mountsBelow(t, dir); n != 3 { // mnt/ and the two layers
		t.Errorf("while attached there are %d mounts", n)
	}
	must(t, image.Killed(s))
	next, err := image.Open(dir)
	must(t, err)
	defer next.Close()
	if n := mountsBelow(t, dir); n != 0 {
		t.Errorf("%d mounts survived Open", n)
	}
	if readAll(t, at(m, "f")) != "b" {
		t.Error("the stack broke")
	}
}

// An image that is wanted again while its idle mount goes must not lose the new one to the old one's end.
func TestImageWantedAgainStaysAttached(t *testing.T) {
	needRoot(t)
	s, dir := open(t)
	image.Force(s, image.Modes[0], true)
	info, err := s.Pack(t.Context(), fstest.MapFS{"f": {Data: []byte("a")}})
	must(t, err)
	first := acquire(t, s, info.Digest)
	stack(t, image.StackOptions{UserNS: -1, Layers: []*image.Layer{first}})
	first.Close()
	unmount := image.Drop(s, info.Digest)
	stack(t, image.StackOptions{UserNS: -1, Layers: []*image.Layer{acquire(t, s, info.Digest)}})
	must(t, unmount())
	if n := mountsBelow(t, dir); n != 2 { // mnt/ and the layer
		t.Errorf("%d mounts are left", n)
	}
	stack(t, image.StackOptions{UserNS: -1, Layers: []*image.Layer{acquire(t, s, info.Digest)}})
}

func mountsBelow(t *testing.T, dir string) (n int) {
	t.Helper()
	for line := range strings.Lines(readAll(t, "/proc/thread-self/mountinfo")) {
		if strings.Contains(line, " "+dir) {
			n++
		}
	}
	return n
}

func TestConcurrentUse(t *testing.T) {
	needRoot(t)
	s, _ := open(t)
	var digests []enplace.Digest
	for i := range 20 { // more than stay mounted while idle
		info, err := s.Pack(t.Context(), fstest.MapFS{"f": {Data: fmt.Append(nil, i)}})
		must(t, err)
		digests = append(digests, info.Digest)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range digests {
				top := (i*7 + g) % len(digests)
				if err := useOnce(t.Context(), s, digests[i], digests[top], fmt.Sprint(top)); err != nil && i != top {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			if n, _, err := s.Collect(t.Context(), func(enplace.Digest) bool { return false }); n != 0 || err != nil {
				t.Errorf("collected %d fresh images, %v", n, err)
			}
		}
	})
	wg.Wait()
}

func useOnce(ctx context.Context, s *image.Store, low, high enplace.Digest, want string) error {
	l, err := s.Acquire(ctx, low)
	if err != nil {
		return err
	}
	defer l.Close()
	h, err := s.Acquire(ctx, high)
	if err != nil {
		return err
	}
	defer h.Close()
	m, err := image.Stack(image.StackOptions{Layers: []*image.Layer{l, h}, UserNS: -1})
	if err != nil {
		return err
	}
	defer m.Close()
	if got, err := os.ReadFile(at(m, "f")); err != nil || string(got) != want {
		return fmt.Errorf("read %q, %v; want %q", got, err, want)
	}
	return nil
}

func BenchmarkAcquireStack3(b *testing.B) {
	needRoot(b)
	s, _ := open(b)
	var digests []enplace.Digest
	for i := range 3 {
		info, err := s.Pack(b.Context(), fstest.MapFS{fmt.Sprint(i): {Data: make([]byte, 1<<20)}})
		must(b, err)
		digests = append(digests, info.Digest)
	}
	for b.Loop() {
		var layers []*image.Layer
		for _, d := range digests {
			l, err := s.Acquire(b.Context(), d)
			must(b, err)
			layers = append(layers, l)
		}
		m, err := image.Stack(image.StackOptions{UserNS: -1, Layers: layers})
		must(b, err)
		m.Close()
		for _, l := range layers {
			l.Close()
		}
	}
}
