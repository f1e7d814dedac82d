package base

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func newRootfs(t testing.TB) (*rootfs, string) {
	t.Helper()
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := openRootfs(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r, dir
}

func archive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		content := h.Uname // the tests keep a file's content there
		h.Uname = ""
		h.Size = int64(len(content))
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Uname: content}
}

func dir(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name} }

func symlink(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

func hardlink(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}
}

// What a hostile archive may try stays inside the root, or is refused; nothing outside is ever touched.
func TestHostileArchives(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entries []tar.Header
		refused bool
		inside  string // a file that must be in the root with the content "evil"
	}{
		"climbing name":                  {entries: []tar.Header{file("../outside/victim", "evil")}, refused: true},
		"climbing name in the middle":    {entries: []tar.Header{file("a/../../outside/victim", "evil")}, refused: true},
		"absolute name":                  {entries: []tar.Header{file("/etc/passwd", "evil")}, inside: "etc/passwd"},
		"through an absolute link":       {entries: []tar.Header{dir("outside"), symlink("l", "/outside"), file("l/victim", "evil")}, inside: "outside/victim"},
		"through a climbing link":        {entries: []tar.Header{dir("outside"), symlink("l", "../../../outside"), file("l/victim", "evil")}, inside: "outside/victim"},
		"through a chain of links":       {entries: []tar.Header{symlink("a", ".."), symlink("b", "a/.."), file("b/victim", "evil")}, inside: "victim"},
		"over a link":                    {entries: []tar.Header{symlink("v", "../outside/victim"), file("v", "evil")}, inside: "v"},
		"directory over a link":          {entries: []tar.Header{symlink("v", "../outside"), dir("v"), file("v/victim", "evil")}, inside: "v/victim"},
		"hard link out":                  {entries: []tar.Header{hardlink("v", "../outside/victim")}, refused: true},
		"hard link to an absolute path":  {entries: []tar.Header{hardlink("v", "/etc/hostname")}, refused: true},
		"hard link through a link":       {entries: []tar.Header{symlink("l", "/"), file("victim", "evil"), hardlink("h", "l/victim"), file("h", "evil")}, inside: "victim"},
		"hard link to a link, then file": {entries: []tar.Header{symlink("l", "../outside/victim"), hardlink("h", "l"), file("h", "evil")}, inside: "h"},
		"below a dangling link":          {entries: []tar.Header{symlink("l", "/nowhere"), file("l/victim", "evil")}, refused: true},
		"below a file":                   {entries: []tar.Header{file("f", "x"), file("f/victim", "evil")}, refused: true},
		"link loop":                      {entries: []tar.Header{symlink("a", "b"), symlink("b", "a"), file("a/victim", "evil")}, refused: true},
		"file over a directory":          {entries: []tar.Header{file("d/x", "x"), file("d", "evil")}, inside: "d"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, root := newRootfs(t)
			victim := filepath.Join(filepath.Dir(root), "outside", "victim")
			write(t, victim, "kept")
			err := eachEntry(context.Background(), bytes.NewReader(archive(t, c.entries...)), r.apply)
			if (err != nil) != c.refused {
				t.Errorf("refused %v, want %v", err, c.refused)
			}
			if got, err := os.ReadFile(victim); err != nil || string(got) != "kept" {
				t.Errorf("outside: %q %v", got, err)
			}
			if c.inside != "" {
				if got, err := os.ReadFile(filepath.Join(root, c.inside)); err != nil || string(got) != "evil" {
					t.Errorf("inside: %q %v", got, err)
				}
			}
		})
	}
}

func TestOwnersModesAndDevices(t *testing.T) {
	t.Parallel()
	r, root := newRootfs(t)
	caps := "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	entries := archive(t,
		tar.Header{Typeflag: tar.TypeReg, Name: "suid", Mode: 0o4755, Uid: 33, Gid: 44},
		tar.Header{Typeflag: tar.TypeReg, Name: "far", Mode: 0o600, Uid: 70_000, Gid: 1},
		tar.Header{Typeflag: tar.TypeChar, Name: "mem", Devmajor: 1, Devminor: 1},
		tar.Header{Typeflag: tar.TypeFifo, Name: "pipe", Mode: 0o640},
		tar.Header{Typeflag: tar.TypeReg, Name: "ping", Format: tar.FormatPAX, PAXRecords: map[string]string{
			"SCHILY.xattr.security.capability": caps, "SCHILY.xattr.trusted.overlay.opaque": "y"}})
	if err := eachEntry(context.Background(), bytes.NewReader(entries), r.apply); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		mode os.FileMode
		uid  int
	}{"suid": {os.ModeSetuid | 0o755, 33}, "far": {0o600, nobody}, "pipe": {os.ModeNamedPipe | 0o640, 0}} {
		fi, err := os.Lstat(filepath.Join(root, name))
		if err != nil || fi.Mode() != want.mode || owner(fi) != want.uid {
			t.Errorf("%s: %v %v", name, fi, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(root, "mem")); err == nil {
		t.Error("a device node was made")
	}
	if got := xattrs(t, filepath.Join(root, "ping")); len(got) != 1 || got["security.capability"] != caps {
		t.Errorf("attributes %q", got)
	}
	if w := strings.Join(r.warnings(), "; "); !strings.Contains(w, "1 device") || !strings.Contains(w, "1 entries belong to ids") {
		t.Errorf("warnings %q", w)
	}
}

func TestRootLimit(t *testing.T) {
	t.Parallel()
	for size, refused := range map[int]bool{1000: false, 1001: true} {
		r, _ := newRootfs(t)
		r.maxBytes = 1000
		err := eachEntry(context.Background(), bytes.NewReader(archive(t, file("a", strings.Repeat("x", 400)), file("b", strings.Repeat("x", size-400)))), r.apply)
		if (err != nil) != refused {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// A whiteout counts for the layers below its own, wherever it stands in the layer.
func TestWhiteouts(t *testing.T) {
	t.Parallel()
	lower := []tar.Header{file("keep", "lower"), file("gone", "lower"), file("tree/a/b", "lower"), file("dir/old", "lower"),
		file("dir/sub/old", "lower"), symlink("link", "/dir"), symlink("absolute", "/outside")}
	for name, c := range map[string]struct {
		upper      []tar.Header
		gone, kept []string
		refused    bool
	}{
		"file and tree":      {upper: []tar.Header{file(".wh.gone", ""), file(".wh.tree", "")}, gone: []string{"gone", "tree"}, kept: []string{"keep"}},
		"after its own file": {upper: []tar.Header{file("gone", "upper"), file(".wh.gone", "")}, kept: []string{"gone"}},
		"opaque before": {upper: []tar.Header{file("dir/.wh..wh..opq", ""), file("dir/new", "upper")},
			gone: []string{"dir/old", "dir/sub"}, kept: []string{"dir/new"}},
		"opaque after": {upper: []tar.Header{file("dir/new", "upper"), file("dir/sub/new", "upper"), file("dir/.wh..wh..opq", "")},
			gone: []string{"dir/old", "dir/sub/old"}, kept: []string{"dir/new", "dir/sub/new"}},
		"through a link":          {upper: []tar.Header{file("link/.wh.old", "")}, gone: []string{"dir/old"}, kept: []string{"link"}},
		"the link itself":         {upper: []tar.Header{file(".wh.link", "")}, gone: []string{"link"}, kept: []string{"dir/old"}},
		"link out":                {upper: []tar.Header{file("absolute/.wh.victim", "")}},
		"of nothing":              {upper: []tar.Header{file(".wh.never", ""), file("never/.wh..wh..opq", "")}},
		"of the parent":           {upper: []tar.Header{file("dir/.wh...", "")}, refused: true},
		"of itself":               {upper: []tar.Header{file("dir/.wh.", "")}, refused: true},
		"of a climbing directory": {upper: []tar.Header{file("../outside/.wh.victim", "")}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, root := newRootfs(t)
			victim := filepath.Join(filepath.Dir(root), "outside", "victim")
			write(t, victim, "kept")
			var err error
			for _, entries := range [][]tar.Header{lower, c.upper} {
				l := &layer{root: r, own: map[string]bool{}}
				err = eachEntry(context.Background(), bytes.NewReader(archive(t, entries...)), l.apply)
			}
			if (err != nil) != c.refused {
				t.Errorf("refused %v, want %v", err, c.refused)
			}
			for _, p := range c.gone {
				if _, err := os.Lstat(filepath.Join(root, p)); err == nil {
					t.Errorf("%s is still there", p)
				}
			}
			for _, p := range append(c.kept, "../outside/victim") {
				if _, err := os.Lstat(filepath.Join(root, p)); err != nil {
					t.Error(err)
				}
			}
			if found, _ := filepath.Glob(filepath.Join(root, ".wh*")); len(found) > 0 {
				t.Errorf("left %v", found)
			}
		})
	}
}
