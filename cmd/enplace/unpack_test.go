package main

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"enplace"
)

// tarball makes a tar of entries "name", whose content is their name, and links "name -> target".
func tarball(t *testing.T, entries ...string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e, Size: int64(len(e)), Mode: 0o6755}
		if name, target, ok := strings.Cut(e, " -> "); ok {
			h = &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(e)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// tree lists what is below a folder, links with their targets.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if target, err := os.Readlink(path); err == nil {
			name += " -> " + target
		}
		out = append(out, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUnpackKeepsToItsFolder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		entries []string
		want    []string
		skipped int
	}{
		{"plain", []string{"a", "sub/b", "sub/deep/c"}, []string{"a", "sub/b", "sub/deep/c"}, 0},
		{"names that lead out", []string{"../up", "/abs", "a/../../x", "./dot", "ok"}, []string{"ok"}, 4},
		{"links inside", []string{"sub/b", "l -> sub", "sub/up -> ../a", "a"}, []string{"a", "l -> sub", "sub/b", "sub/up -> ../a"}, 0},
		{"links out", []string{"l -> /etc", "m -> ../x", "sub/n -> ../../x"}, nil, 3},
		{"out by way of another link", []string{"a/b/up -> ../..", "y -> a/b/up/..", "z -> nothing/../../x"}, []string{"a/b/up -> ../.."}, 2},
		{"a file in place of a file", []string{"a", "a"}, []string{"a"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			parent := t.TempDir()
			dir := filepath.Join(parent, "out")
			got, err := unpack(tarball(t, c.entries...), dir, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if have := tree(t, parent); len(have) != len(c.want) {
				t.Errorf("there are %q", have)
			}
			if have := tree(t, dir); !slices.Equal(have, c.want) {
				t.Errorf("there are %q, and should be %q", have, c.want)
			}
			if len(got.skipped) != c.skipped {
				t.Errorf("left out: %q", got.skipped)
			}
		})
	}
}

func TestUnpackWritesThroughNoLink(t *testing.T) {
	t.Parallel()
	for _, entries := range [][]string{
		{"link/passwd"},              // a link to a folder outside, that stood there before
		{"inside/passwd"},            // and one to a folder inside
		{"l -> real", "l/x", "real"}, // one of the archive's own: links come last, so l is a folder by then
	} {
		dir := t.TempDir()
		outside := t.TempDir()
		for name, target := range map[string]string{"link": outside, "inside": "kept"} {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(filepath.Join(dir, "kept"), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := unpack(tarball(t, entries...), dir, 1<<20); err == nil {
			t.Errorf("%q: no error", entries)
		}
		if left := append(tree(t, outside), tree(t, filepath.Join(dir, "kept"))...); len(left) > 0 {
			t.Errorf("%q: wrote %q", entries, left)
		}
	}
}

func TestUnpackReplacesALinkAndNotItsTarget(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, "name")); err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(tarball(t, "name"), dir, 1<<20); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(target); err != nil || string(b) != "kept" {
		t.Errorf("the target holds %q %v", b, err)
	}
	fi, err := os.Lstat(filepath.Join(dir, "name"))
	if err != nil || fi.Mode() != 0o755 {
		t.Errorf("it is %v %v", fi.Mode(), err)
	}
}

func TestUnpackTellsOverFromEqual(t *testing.T) {
	t.Parallel()
	if got, err := unpack(tarball(t, "1234", "5678"), t.TempDir(), 8); err != nil || got.bytes != 8 {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := unpack(tarball(t, "1234", "56789"), t.TempDir(), 8); enplace.KindOf(err) != enplace.KindTooLarge {
		t.Error(err)
	}
	cut := tarball(t, "1234", "5678").Bytes()
	if _, err := unpack(bytes.NewReader(cut[:514]), t.TempDir(), 8); err == nil {
		t.Error("a tar that was cut counts as whole")
	}
}
