package image_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"enplace"
	"enplace/internal/image"
)

func open(t testing.TB) (*image.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := image.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, dir
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("needs root")
	}
	t.Skip("needs root, to mount and to make device nodes")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes files from path to content; a path that ends in a slash is a folder.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(p, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.WriteFile(p, []byte(content), 0o644))
	}
}

func packDir(t testing.TB, s *image.Store, dir string, o image.DirOptions) image.Info {
	t.Helper()
	info, err := s.PackDir(t.Context(), dir, o)
	must(t, err)
	return info
}

func imageFiles(t testing.TB, dir string) (names []string) {
	t.Helper()
	for _, sub := range []string{"sha256", "tmp"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		must(t, err)
		for _, e := range entries {
			names = append(names, sub+"/"+e.Name())
		}
	}
	return names
}

func TestSameTreeSameDigest(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	names := []string{"b/two", "a/one", "c", "b/a/deep", ".hidden", "-dash", "z/"}
	var infos []image.Info
	for round := range 2 {
		src := t.TempDir()
		for i := range names {
			name := names[i]
			if round == 1 { // the other order, other inodes, other times
				name = names[len(names)-1-i]
			}
			write(t, src, map[string]string{name: "content of " + name})
		}
		when := time.Now().Add(-time.Duration(round) * 1000 * time.Hour)
		must(t, os.Chtimes(filepath.Join(src, "c"), when, when))
		infos = append(infos, packDir(t, s, src, image.DirOptions{}))
	}
	if infos[0] != infos[1] {
		t.Errorf("the same tree gave %+v and %+v", infos[0], infos[1])
	}
	if infos[0].Files != 10 {
		t.Errorf("counted %d entries, want 10", infos[0].Files)
	}
	if files := imageFiles(t, dir); len(files) != 1 {
		t.Errorf("left %q, want one image", files)
	}
	got, err := s.Stat(infos[0].Digest)
	if err != nil || got != infos[0] {
		t.Errorf("Stat gave %+v, %v; want %+v", got, err, infos[0])
	}
}

// Digests are part of cache keys: when an upgrade of the writer changes this one, every step of every build runs once more.
func TestDigestIsPinned(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	info, err := s.Pack(t.Context(), fstest.MapFS{
		"bin/tool": {Data: bytes.Repeat([]byte("tool"), 3000), Mode: 0o755},
		"etc/conf": {Data: []byte("a=1\n"), Mode: 0o644, Sys: &image.Stat{UID: 7, GID: 70000, Xattrs: map[string][]byte{"user.x": []byte("y"), "user.a": []byte("b")}}},
		"lib":      {Mode: fs.ModeSymlink | 0o777, Sys: &image.Stat{Link: "usr/lib"}},
		"old":      {Mode: fs.ModeDevice | fs.ModeCharDevice, Sys: &image.Stat{}},
	})
	must(t, err)
	if want := enplace.Digest("sha256:ebb9759e7b2415d7b7d149747bca46f8c172245a6104c85410d26f5c511d64ec"); info.Digest != want {
		t.Errorf("the digest is %s, and was %s", info.Digest, want)
	}
	composed := compose(t, s, "", image.Part{Image: info.Digest})
	if want := enplace.Digest("sha256:6622c22e2094e4257aa166391075b1e32966aeb437be8d783eab63118924fd35"); composed.Digest != want {
		t.Errorf("the digest of a composed image is %s, and was %s", composed.Digest, want)
	}
}

func TestConcurrentPacksOfOneTree(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	src := fstest.MapFS{}
	for i := range 200 {
		src[fmt.Sprintf("d%d/f%d", i%7, i)] = &fstest.MapFile{Data: bytes.Repeat([]byte{byte(i)}, i*50), Mode: 0o644}
	}
	infos := make([]image.Info, 8)
	var wg sync.WaitGroup
	for i := range infos {
		wg.Go(func() {
			var err error
			if infos[i], err = s.Pack(t.Context(), src); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, info := range infos {
		if info != infos[0] {
			t.Errorf("got %+v and %+v", info, infos[0])
		}
	}
	if files := imageFiles(t, dir); len(files) != 1 {
		t.Errorf("left %q, want one image", files)
	}
	must(t, s.Verify(t.Context(), infos[0].Digest))
}

func TestReadBackWithoutMounting(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	big := make([]byte, 5<<20+123)
	rand.Read(big)
	long := strings.Repeat("n", 255)
	src := fstest.MapFS{
		"empty":         {Mode: 0o600},
		"dir":           {Mode: fs.ModeDir | 0o1777 | fs.ModeSticky, Sys: &image.Stat{UID: 70000, GID: 8}},
		"dir/big":       {Data: big, Mode: 0o444},
		"ü/日本語 – 名":     {Data: []byte("unicode"), Mode: 0o644},
		"names/" + long: {Data: []byte("long"), Mode: fs.ModeSetuid | 0o755, Sys: &image.Stat{UID: 1, GID: 2, Xattrs: map[string][]byte{"user.a": []byte("b")}}},
		"link":          {Mode: fs.ModeSymlink | 0o777, Sys: &image.Stat{Link: "dir/big"}},
		"plainlink":     {Mode: fs.ModeSymlink | 0o777, Data: []byte("../out")},
		"gone":          {Mode: fs.ModeDevice | fs.ModeCharDevice, Sys: &image.Stat{}},
		"null":          {Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666, Sys: &image.Stat{Rdev: unix.Mkdev(300, 70000)}},
		"fifo":          {Mode: fs.ModeNamedPipe | 0o600},
		"socket":        {Mode: fs.ModeSocket | 0o600},
	}
	info, err := s.Pack(t.Context(), src)
	must(t, err)
	img, closer, err := s.FS(t.Context(), info.Digest)
	must(t, err)
	defer closer.Close()

	for _, want := range []struct {
		path string
		mode fs.FileMode
		stat image.Stat
	}{
		{".", fs.ModeDir | 0o755, image.Stat{}},
		{"ü", fs.ModeDir | 0o755, image.Stat{}}, // made up by MapFS, as 0555
		{"dir", fs.ModeDir | fs.ModeSticky | 0o777, image.Stat{UID: 70000, GID: 8}},
		{"dir/big", 0o444, image.Stat{}},
		{"names/" + long, fs.ModeSetuid | 0o755, *src["names/"+long].Sys.(*image.Stat)},
		{"link", fs.ModeSymlink | 0o777, image.Stat{Link: "dir/big"}},
		{"plainlink", fs.ModeSymlink | 0o777, image.Stat{Link: "../out"}},
		{"gone", fs.ModeDevice | fs.ModeCharDevice, image.Stat{}},
		{"null", fs.ModeDevice | fs.ModeCharDevice | 0o666, image.Stat{Rdev: unix.Mkdev(300, 70000)}},
		{"fifo", fs.ModeNamedPipe | 0o600, image.Stat{}},
	} {
		fi, err := fs.Lstat(img, want.path)
		if err != nil {
			t.Errorf("%s: %v", want.path, err)
			continue
		}
		if got := fmt.Sprint(*fi.Sys().(*image.Stat)); fi.Mode() != want.mode || got != fmt.Sprint(want.stat) {
			t.Errorf("%s is %v %s, want %v %v", want.path, fi.Mode(), got, want.mode, want.stat)
		}
		if !fi.ModTime().Equal(time.Date(1980, 1, 2, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%s has time %v", want.path, fi.ModTime())
		}
	}
	if _, err := fs.Lstat(img, "socket"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is there: %v", err)
	}
	if got, err := fs.ReadFile(img, "link"); err != nil || !bytes.Equal(got, big) {
		t.Errorf("a file of 5 MiB read through a link differs (%v)", err)
	}
	again, err := s.Pack(t.Context(), img)
	if err != nil || again != info {
		t.Errorf("packing the image's own files gave %+v, %v; want %+v", again, err, info)
	}
}

// go-erofs fails on an image whose last inode ends where the file does.
func TestLastInodeAtTheEndOfTheImage(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	src := fstest.MapFS{}
	for i := range 173 { // 32 bytes for the root, 2,622 for its names, 173 × 32: two blocks, to the byte
		src[fmt.Sprintf("%03d", i)] = &fstest.MapFile{}
	}
	info, err := s.Pack(t.Context(), src)
	must(t, err)
	img, closer, err := s.FS(t.Context(), info.Digest)
	must(t, err)
	defer closer.Close()
	must(t, fs.WalkDir(img, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			_, err = d.Info()
		}
		return err
	}))
}

func TestEmptyTree(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	info := packDir(t, s, t.TempDir(), image.DirOptions{})
	if info.Files != 0 || info.Bytes == 0 {
		t.Errorf("got %+v", info)
	}
}

func TestUnknownDigest(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for _, d := range []enplace.Digest{"", "sha256:../../etc/passwd", enplace.DigestOf([]byte("x"))} {
		if _, err := s.Stat(d); !errors.Is(err, image.ErrNotFound) {
			t.Errorf("Stat(%q): %v", d, err)
		}
		if err := s.Verify(t.Context(), d); !errors.Is(err, image.ErrNotFound) {
			t.Errorf("Verify(%q): %v", d, err)
		}
		if _, err := s.Acquire(t.Context(), d); !errors.Is(err, image.ErrNotFound) {
			t.Errorf("Acquire(%q): %v", d, err)
		}
		if _, _, err := s.FS(t.Context(), d); !errors.Is(err, image.ErrNotFound) {
			t.Errorf("FS(%q): %v", d, err)
		}
	}
}

func TestFlippedBitIsRefused(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	src := fstest.MapFS{"f": {Data: bytes.Repeat([]byte("x"), 100_000)}}
	info, err := s.Pack(t.Context(), src)
	must(t, err)
	must(t, s.Verify(t.Context(), info.Digest))

	flip(t, filepath.Join(dir, "sha256", info.Digest.Hex()), 50_000)
	for name, use := range map[string]func() error{
		"Verify":  func() error { return s.Verify(t.Context(), info.Digest) },
		"Acquire": func() error { _, err := s.Acquire(t.Context(), info.Digest); return err },
		"FS":      func() error { _, _, err := s.FS(t.Context(), info.Digest); return err },
	} {
		var e *enplace.Error
		if err := use(); !errors.As(err, &e) || e.Kind != enplace.KindUnavailable || !strings.Contains(e.Message, string(info.Digest)) {
			t.Errorf("%s of a damaged image gave %v", name, err)
		}
	}
	again, err := s.Pack(t.Context(), src)
	if err != nil || again != info {
		t.Errorf("packing it anew gave %+v, %v", again, err)
	}
	if err := s.Verify(t.Context(), info.Digest); err != nil {
		t.Errorf("packing it anew did not mend it: %v", err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	src := fstest.MapFS{"a": {Data: make([]byte, 9000)}, "b": {Data: make([]byte, 100)}, "c/d": {}}
	info, err := s.Pack(t.Context(), src)
	must(t, err)
	must(t, os.Remove(filepath.Join(dir, "sha256", info.Digest.Hex())))

	for _, c := range []struct {
		bytes int64
		files int
		fits  bool
	}{
		{info.Bytes, info.Files, true},
		{info.Bytes - 1, info.Files, false},
		{info.Bytes, info.Files - 1, false},
		{9000, 100, false},
	} {
		s.MaxBytes, s.MaxFiles = c.bytes, c.files
		_, err := s.Pack(t.Context(), src)
		if c.fits != (err == nil) || !c.fits && enplace.KindOf(err) != enplace.KindTooLarge {
			t.Errorf("an image of %d bytes and %d entries, limits %d and %d: %v", info.Bytes, info.Files, c.bytes, c.files, err)
		}
	}
	if files := imageFiles(t, dir); len(files) != 1 {
		t.Errorf("left %q, want one image", files)
	}
}

func TestFullDiskIsSaidAndLeavesNothing(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	s, err := image.Open(dir)
	must(t, err)
	defer s.Close()
	src := fstest.MapFS{"a": {Data: bytes.Repeat([]byte("x"), 1<<20)}}
	if _, err := s.Pack(t.Context(), src); enplace.KindOf(err) != enplace.KindUnavailable {
		t.Error(err)
	}
	if left := imageFiles(t, dir); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// `enplace base show` beside a server that was packing took the file away under it, and the build failed.
func TestOpenBesideAnotherLeavesWhatItWrites(t *testing.T) {
	t.Parallel()
	first, dir := open(t)
	opening := openingFS{MapFS: fstest.MapFS{"a": {Data: []byte("x")}}, opened: func() {
		second, err := image.Open(dir)
		must(t, err)
		must(t, second.Close())
	}}
	if _, err := first.Pack(t.Context(), opening); err != nil {
		t.Error(err)
	}
	left := filepath.Join(dir, "tmp", "left")
	must(t, os.WriteFile(left, nil, 0o600))
	must(t, image.Killed(first))
	third, err := image.Open(dir)
	must(t, err)
	defer third.Close()
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a killed process left is still there: %v", err)
	}
}

// openingFS calls opened before it opens a file.
type openingFS struct {
	fstest.MapFS
	opened func()
}

func (o openingFS) Open(name string) (fs.File, error) {
	if name == "a" {
		o.opened()
	}
	return o.MapFS.Open(name)
}

func TestCancelledPackLeavesNothing(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	src := cancelFS{fstest.MapFS{"a": {Data: []byte("x")}, "b": {Data: make([]byte, 1<<20)}}, cancel}
	if _, err := s.Pack(ctx, src); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if files := imageFiles(t, dir); len(files) != 0 {
		t.Errorf("left %q", files)
	}
}

// cancelFS cancels when a file's bytes are asked for.
type cancelFS struct {
	fstest.MapFS
	cancel func()
}

func (c cancelFS) Open(name string) (fs.File, error) {
	if name == "b" {
		c.cancel()
	}
	return c.MapFS.Open(name)
}

func readAll(t testing.TB, p string) string {
	t.Helper()
	f, err := os.Open(p)
	must(t, err)
	defer f.Close()
	b, err := io.ReadAll(f)
	must(t, err)
	return string(b)
}
