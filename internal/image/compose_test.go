package image_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"enplace"
	"enplace/internal/image"
)

// filled gives n bytes that are recognised, and differ from block to block.
func filled(what string, n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%s %d\n", what, i)
	}
	return b.Bytes()[:n]
}

func pack(t testing.TB, s *image.Store, src fs.FS) image.Info {
	t.Helper()
	info, err := s.Pack(t.Context(), src)
	must(t, err)
	return info
}

func compose(t testing.TB, s *image.Store, dir string, parts ...image.Part) image.Info {
	t.Helper()
	info, err := s.Compose(t.Context(), parts, dir, image.DirOptions{})
	must(t, err)
	return info
}

func refers(t testing.TB, s *image.Store, d enplace.Digest) []enplace.Digest {
	t.Helper()
	refers, err := s.Refers(t.Context(), d)
	must(t, err)
	return refers
}

func below(dir string) func(string) bool {
	return func(p string) bool { return strings.HasPrefix(p, dir+"/") }
}

// wheels are two trees that share folders and an empty file, with files of all sizes that lie differently in an image.
func wheels() (one, two fstest.MapFS) {
	one, two = fstest.MapFS{}, fstest.MapFS{}
	for name, tree := range map[string]fstest.MapFS{"one": one, "two": two} {
		for _, size := range []int{0, 1, 31, 2000, 4000, 4064, 4065, 4096, 4097, 8192, 100_000, 3<<20 + 17} {
			tree[fmt.Sprintf("lib/%s/f%d", name, size)] = &fstest.MapFile{Data: filled(name, size), Mode: 0o644, Sys: &image.Stat{UID: 7, GID: 70000}}
		}
		tree["lib"] = &fstest.MapFile{Mode: fs.ModeDir | 0o751}
		tree["lib/shared/__init__.py"] = &fstest.MapFile{Mode: 0o644}
		tree["lib/shared/LICENSE"] = &fstest.MapFile{Data: filled("licence", 3000), Mode: 0o644}
		tree["bin/"+name] = &fstest.MapFile{Data: filled(name, 9000), Mode: fs.ModeSetuid | 0o755}
		tree["lib/"+name+"/caps"] = &fstest.MapFile{Data: filled(name, 20_000), Mode: 0o755, Sys: &image.Stat{Xattrs: map[string][]byte{"user.of": []byte(name), "user.x": []byte("12")}}}
		tree["lib/"+name+"/link"] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Sys: &image.Stat{Link: "f31"}}
	}
	return one, two
}

func merged(trees ...fstest.MapFS) fstest.MapFS {
	all := fstest.MapFS{}
	for _, tree := range trees {
		maps.Copy(all, tree)
	}
	return all
}

// listing is all that a mount shows: every byte, and every other thing that can be asked for. Link counts of folders are left
// out on request: overlayfs has none.
func listing(t testing.TB, m *os.File, links bool) string {
	t.Helper()
	var b strings.Builder
	root := at(m, ".")
	must(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil {
			err = unix.Lstat(p, &st)
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		must(t, err)
		fmt.Fprintf(&b, "%s %o %d:%d %d %d", name, st.Mode, st.Uid, st.Gid, st.Rdev, st.Mtim.Sec)
		switch d.Type() {
		case fs.ModeSymlink:
			target, _ := os.Readlink(p)
			b.WriteString(" " + target)
		case 0:
			fmt.Fprintf(&b, " %d %d %s", st.Nlink, st.Size, enplace.DigestOf([]byte(readAll(t, p))))
		case fs.ModeDir:
			if links {
				fmt.Fprintf(&b, " %d", st.Nlink)
			}
		}
		for _, attr := range []string{"user.of", "user.x"} {
			value := make([]byte, 64)
			if n, err := unix.Lgetxattr(p, attr, value); err == nil {
				fmt.Fprintf(&b, " %s=%s", attr, value[:n])
			}
		}
		b.WriteString("\n")
		return nil
	}))
	return b.String()
}

func mountedListing(t testing.TB, s *image.Store, d enplace.Digest) string {
	t.Helper()
	return listing(t, stack(t, image.StackOptions{UserNS: -1, Layers: []*image.Layer{acquire(t, s, d)}}), true)
}

func TestComposedIsAsPackedTogether(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(t *testing.T, s *image.Store) {
		one, two := wheels()
		a, b, plain := pack(t, s, one), pack(t, s, two), pack(t, s, merged(one, two))
		c := compose(t, s, "", image.Part{Image: a.Digest}, image.Part{Image: b.Digest})
		if again := compose(t, s, "", image.Part{Image: a.Digest}, image.Part{Image: b.Digest}); again != c {
			t.Errorf("composed twice it is %+v and %+v", c, again)
		}
		if got, want := mountedListing(t, s, c.Digest), mountedListing(t, s, plain.Digest); got != want {
			t.Errorf("composed it is\n%s\nand packed\n%s", got, want)
		}
		if got, want := refers(t, s, c.Digest), sortedDigests(a, b); !slices.Equal(got, want) {
			t.Errorf("it refers to %q, want %q", got, want)
		}
		if c.Files != plain.Files || c.Own > plain.Bytes/10 || c.Bytes < plain.Bytes-64<<10 || c.Bytes > plain.Bytes+64<<10 {
			t.Errorf("it measures %+v, and packed together %+v", c, plain)
		}
		if got, err := s.Stat(c.Digest); err != nil || got != c {
			t.Errorf("Stat gave %+v, %v; want %+v", got, err, c)
		}
		img, closer, err := s.FS(t.Context(), c.Digest)
		must(t, err)
		defer closer.Close()
		if again := pack(t, s, img); again != plain {
			t.Errorf("what is read of it was packed as %+v, want %+v", again, plain)
		}
	})
}

// What packages were installed, changed and removed over others is what overlayfs shows of it.
func TestComposedIsWhatOverlayfsShows(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(t *testing.T, s *image.Store) {
		one, two := wheels()
		a, b := pack(t, s, one), pack(t, s, two)
		c := compose(t, s, "", image.Part{Image: a.Digest}, image.Part{Image: b.Digest})
		dir := t.TempDir()
		write(t, dir, map[string]string{"upper/": "", "work/": ""})
		upper := filepath.Join(dir, "upper")
		rw := stack(t, image.StackOptions{
			UserNS: -1, Layers: []*image.Layer{acquire(t, s, a.Digest), acquire(t, s, c.Digest)}, Upper: upper, Work: filepath.Join(dir, "work"), Volatile: true,
		})
		must(t, os.Remove(at(rw, "lib/one/f100000")))
		must(t, os.RemoveAll(at(rw, "lib/two")))
		must(t, os.RemoveAll(at(rw, "lib/shared")))
		must(t, os.RemoveAll(at(rw, "bin/two")))
		must(t, os.Chmod(at(rw, "lib"), 0o700))
		write(t, at(rw, "."), map[string]string{
			"lib/shared/new": "opaque", "bin/two/x": "a folder in the place of a file", "lib/one/f31": "changed", "lib/new/big": string(filled("new", 10_000)),
		})
		over := compose(t, s, upper, image.Part{Image: c.Digest})
		ro := stack(t, image.StackOptions{UserNS: -1, Layers: []*image.Layer{acquire(t, s, over.Digest)}})
		if got, want := listing(t, ro, false), withoutTimes(listing(t, rw, false)); withoutTimes(got) != want {
			t.Errorf("composed it is\n%s\nand overlayfs shows\n%s", withoutTimes(got), want)
		}
		if got, want := refers(t, s, over.Digest), sortedDigests(a); !slices.Equal(got, want) { // and not the composed one, nor what nothing is left of
			t.Errorf("it refers to %q, want %q", got, want)
		}

		// Its own bytes are referred to as any image's are.
		other := pack(t, s, fstest.MapFS{"lib/third/f": {Data: filled("third", 50_000)}})
		again := compose(t, s, "", image.Part{Image: other.Digest}, image.Part{Image: over.Digest, Keep: below("lib/new")})
		if got, want := refers(t, s, again.Digest), sortedDigests(other, over); !slices.Equal(got, want) {
			t.Errorf("composed again it refers to %q, want %q", got, want)
		}
		want := pack(t, s, fstest.MapFS{
			"lib": {Mode: fs.ModeDir | 0o700}, "lib/third/f": {Data: filled("third", 50_000)}, "lib/new/big": {Data: filled("new", 10_000), Mode: 0o644},
		})
		if got, want := mountedListing(t, s, again.Digest), mountedListing(t, s, want.Digest); got != want {
			t.Errorf("composed again it is\n%s\nwant\n%s", got, want)
		}
	})
}

// withoutTimes leaves out what an image does not keep.
func withoutTimes(listing string) string {
	var b strings.Builder
	for line := range strings.Lines(listing) {
		b.WriteString(strings.Join(slices.Delete(strings.Fields(line), 4, 5), " ") + "\n")
	}
	return b.String()
}

func sortedDigests(infos ...image.Info) (digests []enplace.Digest) {
	for _, info := range infos {
		digests = append(digests, info.Digest)
	}
	slices.Sort(digests)
	return digests
}

func TestWhiteoutsOfComposed(t *testing.T) {
	t.Parallel()
	inEveryMode(t, func(t *testing.T, s *image.Store) {
		part := pack(t, s, fstest.MapFS{"kept/f": {Data: filled("k", 9000)}, "left/f": {Data: filled("l", 9000)}, "gone": {Data: filled("g", 9000)}})
		low := pack(t, s, fstest.MapFS{"below": {Data: []byte("b")}, "stays": {Data: []byte("s")}})
		dir := t.TempDir()
		write(t, dir, map[string]string{"left/": ""})
		for _, p := range []string{"gone", "left/f", "below"} {
			must(t, unix.Mknod(filepath.Join(dir, p), unix.S_IFCHR, 0))
		}
		c := compose(t, s, dir, image.Part{Image: part.Digest, Keep: below("kept")})
		img := readImage(t, s, c.Digest)
		for p, want := range map[string]bool{"kept/f": true, "left": true, "left/f": false, "gone": false, "below": true} {
			if _, err := fs.Lstat(img, p); (err == nil) != want {
				t.Errorf("%s: %v, want it there: %v", p, err, want)
			}
		}
		ro := stack(t, image.StackOptions{UserNS: -1, Layers: []*image.Layer{acquire(t, s, low.Digest), acquire(t, s, c.Digest)}})
		for p, want := range map[string]bool{"kept/f": true, "below": false, "stays": true} {
			if _, err := os.Lstat(at(ro, p)); (err == nil) != want {
				t.Errorf("stacked, %s: %v, want it there: %v", p, err, want)
			}
		}
	})
}

func TestComposedStackInUserNamespace(t *testing.T) {
	inEveryMode(t, func(t *testing.T, s *image.Store) {
		ns, pid := userNS(t, 300_000)
		part := pack(t, s, fstest.MapFS{"d/f": {Data: filled("f", 9000), Mode: 0o600}, "d/g": {Data: filled("g", 9000), Mode: 0o600, Sys: &image.Stat{UID: 1000, GID: 1000}}})
		top := pack(t, s, fstest.MapFS{"h": {Data: []byte("x")}})
		layers := []*image.Layer{acquire(t, s, compose(t, s, "", image.Part{Image: part.Digest}).Digest), acquire(t, s, top.Digest)}
		for n := 1; n <= 2; n++ {
			m := stack(t, image.StackOptions{Layers: layers[:n], UserNS: int(ns.Fd())})
			got := asRoot(t, pid, m, "head -n 1 d/f; stat -c '%n %u:%g' d/f d/g; touch d/new 2>&1; true")
			if want := "f 0\nd/f 0:0\nd/g 1000:1000\n"; !strings.HasPrefix(got, want) || !strings.Contains(got, "Read-only file system") {
				t.Errorf("a stack of %d: inside it says\n%s", n, got)
			}
		}
	})
}

func TestComposeOfNothing(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	if got, want := compose(t, s, ""), pack(t, s, fstest.MapFS{}); got != want {
		t.Errorf("of nothing it is %+v, want %+v", got, want)
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"-a/b": "c", "d": string(filled("d", 9000))})
	want := packDir(t, s, dir, image.DirOptions{})
	if got := compose(t, s, dir); got != want || len(refers(t, s, got.Digest)) != 0 {
		t.Errorf("of a directory alone it is %+v, want %+v", got, want)
	}
}

// A directory that has nothing but folders of a whole part gives that part itself, without reading it through.
func TestComposeThatChangesNothing(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	base := pack(t, s, fstest.MapFS{"one/file": {Data: filled("one", 9000), Mode: 0o644}})
	over := t.TempDir()
	must(t, os.Chmod(over, 0o755))
	must(t, os.MkdirAll(filepath.Join(over, "one"), 0o755))
	if got := compose(t, s, over, image.Part{Image: base.Digest}); got != base {
		t.Errorf("got %+v, want %+v", got, base)
	}
	for name, change := range map[string]func() error{
		"mode":   func() error { return os.Chmod(filepath.Join(over, "one"), 0o700) },
		"folder": func() error { return os.Mkdir(filepath.Join(over, "other"), 0o755) },
	} {
		must(t, change())
		if got := compose(t, s, over, image.Part{Image: base.Digest}); got.Digest == base.Digest {
			t.Errorf("%s: nothing has changed", name)
		}
	}
}

func TestPartsInConflict(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	big, small := filled("x", 9000), filled("x", 3000)
	base := fstest.MapFS{"a/big": {Data: big}, "a/small": {Data: small}, "a/link": {Mode: fs.ModeSymlink | 0o777, Data: []byte("big")}}
	one := pack(t, s, base)
	composed := compose(t, s, "", image.Part{Image: one.Digest})
	for name, c := range map[string]struct {
		other image.Info
		fits  bool
	}{
		"the same image":            {one, true},
		"the same bytes, composed":  {composed, true},
		"equal, small":              {pack(t, s, fstest.MapFS{"a/small": {Data: small}, "b": {}}), true},
		"an equal link":             {pack(t, s, fstest.MapFS{"a/link": {Mode: fs.ModeSymlink | 0o777, Data: []byte("big")}}), true},
		"equal, large, elsewhere":   {pack(t, s, fstest.MapFS{"0": {Data: big}, "a/big": {Data: big}}), false},
		"another of the same size":  {pack(t, s, fstest.MapFS{"a/small": {Data: filled("y", 3000)}}), false},
		"another mode":              {pack(t, s, fstest.MapFS{"a/small": {Data: small, Mode: 0o755}}), false},
		"another owner":             {pack(t, s, fstest.MapFS{"a/small": {Data: small, Sys: &image.Stat{UID: 1}}}), false},
		"another attribute":         {pack(t, s, fstest.MapFS{"a/small": {Data: small, Sys: &image.Stat{Xattrs: map[string][]byte{"user.a": nil}}}}), false},
		"another link":              {pack(t, s, fstest.MapFS{"a/link": {Mode: fs.ModeSymlink | 0o777, Data: []byte("small")}}), false},
		"a folder against a file":   {pack(t, s, fstest.MapFS{"a/big/x": {}}), false},
		"a file against a folder":   {pack(t, s, fstest.MapFS{"a": {}}), false},
		"a whiteout against a file": {pack(t, s, fstest.MapFS{"a/big": {Mode: fs.ModeDevice | fs.ModeCharDevice}}), false},
	} {
		before := len(imageFiles(t, dir))
		_, err := s.Compose(t.Context(), []image.Part{{Image: one.Digest}, {Image: c.other.Digest}}, "", image.DirOptions{})
		if c.fits != (err == nil) || !c.fits && !errors.Is(err, image.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
		if after := len(imageFiles(t, dir)); !c.fits && after != before {
			t.Errorf("%s left %d files", name, after-before)
		}
	}
	apart := compose(t, s, "", image.Part{Image: one.Digest, Keep: func(p string) bool { return p != "a/big" }},
		image.Part{Image: pack(t, s, fstest.MapFS{"a/big": {Data: filled("z", 9000)}}).Digest})
	if got, err := fs.ReadFile(readImage(t, s, apart.Digest), "a/big"); err != nil || !bytes.Equal(got, filled("z", 9000)) {
		t.Errorf("a file that one part does not keep: %v", err)
	}
}

func TestTooManyParts(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	var parts []image.Part
	for i := range 48 {
		src := fstest.MapFS{fmt.Sprint(i): {Data: filled(fmt.Sprint(i), 9000)}}
		parts = append(parts, image.Part{Image: pack(t, s, src).Digest})
	}
	small := image.Part{Image: pack(t, s, fstest.MapFS{"small": {Data: []byte("copied")}}).Digest}
	c := compose(t, s, "", append(parts, small)...)
	if n := len(refers(t, s, c.Digest)); n != 48 {
		t.Errorf("it refers to %d images, want 48", n)
	}
	if os.Getuid() == 0 {
		m := stack(t, image.StackOptions{UserNS: -1, Layers: []*image.Layer{acquire(t, s, c.Digest)}})
		for i := range 48 {
			if readAll(t, at(m, fmt.Sprint(i))) != string(filled(fmt.Sprint(i), 9000)) {
				t.Errorf("the file of image %d differs", i)
			}
		}
	}
	parts = append(parts, image.Part{Image: pack(t, s, fstest.MapFS{"one more": {Data: filled("m", 9000)}}).Digest})
	if _, err := s.Compose(t.Context(), parts, "", image.DirOptions{}); !errors.Is(err, image.ErrTooManyParts) {
		t.Errorf("of 49: %v", err)
	}
	if _, err := s.Compose(t.Context(), []image.Part{{Image: enplace.DigestOf(nil)}}, "", image.DirOptions{}); !errors.Is(err, image.ErrNotFound) {
		t.Errorf("of an image that is not there: %v", err)
	}
}

func TestLimitsOfComposed(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	src := fstest.MapFS{"big": {Data: filled("b", 1<<20+1)}, "d/small": {Data: filled("s", 100)}}
	part := image.Part{Image: pack(t, s, src).Digest}
	c := compose(t, s, "", part)
	must(t, os.Remove(filepath.Join(dir, "sha256", c.Digest.Hex())))
	for _, limit := range []struct {
		bytes int64
		files int
		fits  bool
	}{{c.Bytes, c.Files, true}, {c.Bytes - 1, c.Files, false}, {c.Bytes, c.Files - 1, false}} {
		s.MaxBytes, s.MaxFiles = limit.bytes, limit.files
		_, err := s.Compose(t.Context(), []image.Part{part}, "", image.DirOptions{})
		if limit.fits != (err == nil) || !limit.fits && enplace.KindOf(err) != enplace.KindTooLarge {
			t.Errorf("%d bytes and %d entries, limits %d and %d: %v", c.Bytes, c.Files, limit.bytes, limit.files, err)
		}
	}
}
