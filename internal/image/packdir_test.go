package image_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"enplace"
	"enplace/internal/image"
)

func lstat(t *testing.T, img fs.FS, p string) (fs.FileMode, *image.Stat) {
	t.Helper()
	fi, err := fs.Lstat(img, p)
	must(t, err)
	return fi.Mode(), fi.Sys().(*image.Stat)
}

func readImage(t *testing.T, s *image.Store, d enplace.Digest) fs.FS {
	t.Helper()
	img, closer, err := s.FS(t.Context(), d)
	must(t, err)
	t.Cleanup(func() { closer.Close() })
	return img
}

func TestOwnersAreShifted(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s, _ := open(t)
	src := t.TempDir()
	const base = 200_000
	for name, id := range map[string]int{"root": base, "last": base + 65535, "above": base + 65536, "below": base - 1, "host": 0} {
		write(t, src, map[string]string{name: ""})
		must(t, os.Chown(filepath.Join(src, name), id, id))
	}
	must(t, os.Chown(src, base, base))
	img := readImage(t, s, packDir(t, s, src, image.DirOptions{IDBase: base}).Digest)
	for name, want := range map[string]uint32{".": 0, "root": 0, "last": 65535, "above": 65534, "below": 65534, "host": 65534} {
		if _, st := lstat(t, img, name); st.UID != want || st.GID != want {
			t.Errorf("%s belongs to %d:%d, want %d", name, st.UID, st.GID, want)
		}
	}
	img = readImage(t, s, packDir(t, s, src, image.DirOptions{}).Digest)
	if _, st := lstat(t, img, "last"); st.UID != base+65535 {
		t.Errorf("without a base, last belongs to %d", st.UID)
	}
}

func TestAttributesKeptAndDropped(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s, _ := open(t)
	src := t.TempDir()
	write(t, src, map[string]string{"f": "", "own": "", "other": "", "opaque/": "", "odd/": ""})
	const base = 200_000
	v2 := make([]byte, 20)
	binary.LittleEndian.PutUint32(v2, 0x02000001)
	binary.LittleEndian.PutUint32(v2[4:], 1<<10)
	v3 := func(root uint32) []byte {
		b := bytes.Clone(v2)
		binary.LittleEndian.PutUint32(b, 0x03000001)
		return binary.LittleEndian.AppendUint32(b, root)
	}
	big := strings.Repeat("v", 3000)
	for _, x := range [][3]string{
		{"f", "user.note", "value"}, {"f", "user.big", big}, {"f", "trusted.other", "secret"},
		{"f", "trusted.overlay.origin", "handle"},
		{"own", "security.capability", string(v3(base))}, {"other", "security.capability", string(v3(base + 70000))},
		{"opaque", "trusted.overlay.opaque", "y"}, {"opaque", "trusted.overlay.impure", "y"}, {"odd", "trusted.overlay.opaque", "x"},
	} {
		if err := unix.Setxattr(filepath.Join(src, x[0]), x[1], []byte(x[2]), 0); err != nil {
			t.Fatalf("setting %s of %s: %v", x[1], x[0], err)
		}
	}
	img := readImage(t, s, packDir(t, s, src, image.DirOptions{IDBase: base}).Digest)
	for name, want := range map[string]map[string]string{
		"f":      {"user.note": "value", "user.big": big},
		"own":    {"security.capability": string(v2)},
		"other":  nil,
		"opaque": {"trusted.overlay.opaque": "y"},
		"odd":    nil,
	} {
		_, st := lstat(t, img, name)
		if len(st.Xattrs) != len(want) {
			t.Errorf("%s has %q", name, st.Xattrs)
		}
		for k, v := range want {
			if string(st.Xattrs[k]) != v {
				t.Errorf("%s of %s is %q, want %q", k, name, st.Xattrs[k], v)
			}
		}
	}
}

func TestHostileDirectory(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s, _ := open(t)
	src := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("of the host"), 0o600))
	write(t, src, map[string]string{"d/inside": "x", "bad\xff\nname": "bytes"})
	must(t, os.Symlink(secret, filepath.Join(src, "link")))
	must(t, os.Symlink(filepath.Dir(secret), filepath.Join(src, "linkdir")))
	must(t, os.Symlink(".", filepath.Join(src, "loop")))
	must(t, unix.Mkfifo(filepath.Join(src, "fifo"), 0o600))
	must(t, unix.Mknod(filepath.Join(src, "whiteout"), unix.S_IFCHR, 0))
	must(t, unix.Mknod(filepath.Join(src, "disk"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 0))))
	must(t, unix.Mknod(filepath.Join(src, "tty"), unix.S_IFCHR|0o600, int(unix.Mkdev(5, 0))))
	l, err := net.Listen("unix", filepath.Join(src, "sock"))
	must(t, err)
	defer l.Close()
	must(t, os.Link(filepath.Join(src, "d/inside"), filepath.Join(src, "hardlink")))

	info := packDir(t, s, src, image.DirOptions{})
	img := readImage(t, s, info.Digest)
	for _, p := range []string{"disk", "tty", "sock", "linkdir/secret"} {
		if _, err := fs.Lstat(img, p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was packed (%v)", p, err)
		}
	}
	for p, want := range map[string]fs.FileMode{
		"fifo": fs.ModeNamedPipe, "whiteout": fs.ModeDevice | fs.ModeCharDevice, "link": fs.ModeSymlink, "linkdir": fs.ModeSymlink,
	} {
		if mode, _ := lstat(t, img, p); mode.Type() != want {
			t.Errorf("%s is %v", p, mode)
		}
	}
	if _, st := lstat(t, img, "link"); st.Link != secret {
		t.Errorf("the link points to %q", st.Link)
	}
	for p, want := range map[string]string{"bad\xff\nname": "bytes", "hardlink": "x", "d/inside": "x"} {
		f, err := img.Open(p)
		must(t, err)
		b := make([]byte, 10)
		n, _ := f.Read(b)
		if string(b[:n]) != want {
			t.Errorf("%q holds %q", p, b[:n])
		}
	}
}

func TestHolesAndHardLinksCountInFull(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	src := t.TempDir()
	f, err := os.Create(filepath.Join(src, "sparse"))
	must(t, err)
	must(t, f.Truncate(1<<40))
	must(t, f.Close())
	if _, err := s.PackDir(t.Context(), src, image.DirOptions{}); enplace.KindOf(err) != enplace.KindTooLarge {
		t.Errorf("a hole of 1 TiB gave %v", err)
	}
	must(t, os.Truncate(filepath.Join(src, "sparse"), 1<<30))
	for i := range 20 {
		must(t, os.Link(filepath.Join(src, "sparse"), filepath.Join(src, fmt.Sprint(i))))
	}
	if _, err := s.PackDir(t.Context(), src, image.DirOptions{}); enplace.KindOf(err) != enplace.KindTooLarge {
		t.Errorf("21 links to 1 GiB gave %v", err)
	}
	if files := imageFiles(t, dir); len(files) != 0 {
		t.Errorf("left %q", files)
	}
}

func TestExclude(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	src := t.TempDir()
	write(t, src, map[string]string{"keep/a": "1", "drop/b/c": "2", "keep/drop": "3"})
	info := packDir(t, s, src, image.DirOptions{Exclude: func(p string) bool { return p == "drop" || p == "keep/drop" }})
	want := t.TempDir()
	write(t, want, map[string]string{"keep/a": "1"})
	if got := packDir(t, s, want, image.DirOptions{}); got != info {
		t.Errorf("got %+v, want %+v", info, got)
	}
}

func TestTooDeepIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	src := t.TempDir()
	fd, err := unix.Open(src, unix.O_DIRECTORY|unix.O_RDONLY, 0)
	must(t, err)
	name := strings.Repeat("d", 200)
	for range 25 {
		must(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_DIRECTORY|unix.O_RDONLY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	if _, err := s.PackDir(t.Context(), src, image.DirOptions{}); enplace.KindOf(err) != enplace.KindInvalid {
		t.Errorf("a path of 5,000 bytes gave %v", err)
	}
}

func TestManyFilesTakeOneDescriptor(t *testing.T) {
	s, _ := open(t)
	src, err := os.MkdirTemp("/dev/shm", "many-") // some disks take a millisecond to make a file
	if err != nil {
		src = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(src) })
	const dirs, each = 20, 1000
	for d := range dirs {
		sub := filepath.Join(src, fmt.Sprint(d))
		must(t, os.Mkdir(sub, 0o755))
		for f := range each {
			must(t, os.WriteFile(filepath.Join(sub, fmt.Sprint(f)), []byte("x"), 0o644))
		}
	}
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	low := old
	low.Cur = 64
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	info := packDir(t, s, src, image.DirOptions{})
	if info.Files != dirs+dirs*each {
		t.Errorf("packed %d entries", info.Files)
	}
}
