package image_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

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

// listing is all that a mount shows: every byte, and every other thing that can be asked for.
func listing(t testing.TB, m *os.File) string {
	t.Helper()
	script := `find . -printf '%P %y %m %U:%G %n %T@ %l ' -a \( -type d -printf 'dir\n' -o -printf '%s\n' \) | sort
		find . -type f -print0 | sort -z | xargs -0 -r sha256sum
`
	c := exec.Command("sh", "-c", "cd "+at(m, ".")+" && "+script)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func mountedListing(t testing.TB, s *image.Store, d enplace.Digest) string {
	t.Helper()
	return listing(t, stack(t, image.StackOptions{UserNS: -1, Layers: []*image.Layer{acquire(t, s, d)}}))
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
		if got, want := refers(t, s, c.Digest), slices.Sorted(slices.Values([]enplace.Digest{a.Digest, b.Digest})); !slices.Equal(got, want) {
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
