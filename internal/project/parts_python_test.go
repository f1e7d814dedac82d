package project

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"enplace"
	"enplace/internal/build"
	"enplace/internal/image"
	"enplace/internal/transcript"
)

const site = ".venv/lib/python3.13/site-packages"

// wheel is a package of one module as uv leaves it, in a tree below a project's folder.
func wheel(name string) fstest.MapFS {
	tree := fstest.MapFS{}
	record := ""
	for path, text := range map[string]string{
		name + "/__init__.py": "x = 1\n", name + "-1.dist-info/METADATA": "Name: " + name, "../../../bin/" + name: "#!/env/x/.venv/bin/python\n",
	} {
		sum := sha256.Sum256([]byte(text))
		record += fmt.Sprintf("%s,sha256=%s,%d\n", path, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
		tree[filepath.Join(site, path)] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	record += name + "-1.dist-info/RECORD,,\n"
	tree[site+"/"+name+"-1.dist-info/RECORD"] = &fstest.MapFile{Data: []byte(record), Mode: 0o644}
	tree[site+"/"+name+"/__pycache__/__init__.cpython-313.pyc"] = &fstest.MapFile{Data: []byte("compiled"), Mode: 0o644}
	return tree
}

func freshWheel(name string) freshPart {
	return freshPart{able: true, pythonPart: pythonPart{
		Package: enplace.ResolvedPackage{Manager: enplace.Pip, Name: name, Version: "1"}, Site: site, Info: name + "-1.dist-info", Wheels: "w",
	}}
}

func newReuse(t *testing.T) *reuse {
	t.Helper()
	images, err := image.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { images.Close() })
	log, err := transcript.Create(filepath.Join(t.TempDir(), "log"), 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	venv, err := images.Pack(t.Context(), fstest.MapFS{".venv/pyvenv.cfg": {Data: []byte("home = /usr/bin\n"), Mode: 0o644}, site + "/pip/__init__.py": {Mode: 0o644}})
	if err != nil {
		t.Fatal(err)
	}
	p := &plan{s: &Service{cfg: Config{Images: images, Logger: slog.New(slog.DiscardHandler)}}, run: &build.Run{Log: log}, emptyVenv: venv.Digest}
	return &reuse{plan: p, got: installedPython{Site: site, Tag: "cpython-313"}}
}

// A package that is not, file by file, what its wheel says is no part, nor is one that shares a file with another, and a file that
// nobody has leaves none at all: what one package's code did to another one goes when the first is removed.
func TestTamperedPackagesAreNoParts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tamper func(tree fstest.MapFS)
		parts  string
	}{
		"nothing": {func(fstest.MapFS) {}, "good victim"},
		"content": {func(tree fstest.MapFS) { tree[site+"/victim/__init__.py"].Data = []byte("evil") }, "good"},
		"removed": {func(tree fstest.MapFS) { delete(tree, site+"/victim/__init__.py") }, "good"},
		"link": {func(tree fstest.MapFS) {
			tree[site+"/victim/__init__.py"] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte("/etc/passwd")}
		}, "good"},
		"a file that no package has": {func(tree fstest.MapFS) {
			tree[site+"/evil.pth"] = &fstest.MapFile{Data: []byte("import evil"), Mode: 0o644}
		}, "none"},
		"bytecode of another's module": {func(tree fstest.MapFS) {
			record := tree[site+"/good-1.dist-info/RECORD"]
			record.Data = append(record.Data, "victim/__pycache__/__init__.cpython-313.pyc,,\n"...)
		}, ""},
		"a file outside": {func(tree fstest.MapFS) {
			record := tree[site+"/victim-1.dist-info/RECORD"]
			record.Data = append(record.Data, "../../../../main.py,,\n"...)
		}, "good"},
		"a file of the empty environment": {func(tree fstest.MapFS) {
			record := tree[site+"/victim-1.dist-info/RECORD"]
			record.Data = append(record.Data, "pip/__init__.py,,\n"...)
		}, "good"},
		"no hash": {func(tree fstest.MapFS) {
			record := tree[site+"/victim-1.dist-info/RECORD"]
			record.Data = append([]byte("victim/__init__.py,,\n"), record.Data...)
			tree[site+"/victim/more.py"] = &fstest.MapFile{Mode: 0o644}
			record.Data = append(record.Data, "victim/more.py,,\n"...)
		}, "good"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReuse(t)
			tree := fstest.MapFS{".venv/pyvenv.cfg": {Mode: 0o644}, site + "/pip/__init__.py": {Mode: 0o644}}
			maps.Copy(tree, wheel("good"))
			maps.Copy(tree, wheel("victim"))
			c.tamper(tree)
			layer, err := r.s.cfg.Images.Pack(t.Context(), tree)
			if err != nil {
				t.Fatal(err)
			}
			parts, err := r.verify(t.Context(), layer.Digest, nil, []freshPart{freshWheel("good"), freshWheel("victim")})
			var names []string
			for _, part := range parts {
				names = append(names, part.Package.Name)
				if len(part.Paths) != 5 || part.Image != layer.Digest {
					t.Errorf("%+v", part)
				}
			}
			got := strings.Join(names, " ")
			if err != nil {
				got = "none"
			}
			if got != c.parts {
				t.Errorf("parts %q (%v), want %q", got, err, c.parts)
			}
		})
	}
}

// What lies in more images than one may refer to, or cannot be put together, is installed from scratch.
func TestPartsThatCannotBeLaid(t *testing.T) {
	t.Parallel()
	r := newReuse(t)
	var last pythonParts
	for i := range 49 {
		tree := wheel(fmt.Sprintf("p%d", i))
		tree[fmt.Sprintf("%s/p%d/data", site, i)] = &fstest.MapFile{Data: []byte(strings.Repeat("x", 9000)), Mode: 0o644}
		info, err := r.s.cfg.Images.Pack(t.Context(), tree)
		if err != nil {
			t.Fatal(err)
		}
		part := freshWheel(fmt.Sprintf("p%d", i)).pythonPart
		part.Image, part.Paths = info.Digest, []string{fmt.Sprintf("%s/p%d/data", site, i)}
		last.Parts = append(last.Parts, part)
	}
	if _, err := r.compose(t.Context(), last.Parts); !errors.Is(err, image.ErrTooManyParts) {
		t.Errorf("49 images: %v", err)
	}
	if d, err := r.lay(t.Context(), last); err != nil || d != r.emptyVenv || len(r.laid) != 0 {
		t.Errorf("49 images: %s, %v", d, err)
	}
	last.Parts = last.Parts[:48]
	if d, err := r.lay(t.Context(), last); err != nil || d == r.emptyVenv || len(r.laid) != 48 {
		t.Errorf("48 images: %s, %d laid, %v", d, len(r.laid), err)
	}
}

func TestLockWantsAndAgrees(t *testing.T) {
	t.Parallel()
	file := func(hash string) lockedFile {
		return lockedFile{URL: "https://files/x-1-py3-none-any.whl", Hashes: map[string]string{"sha256": hash}}
	}
	pkg := lockedPackage{Name: "x", Version: "1", Wheels: []lockedFile{file("aa"), file("bb")}}
	part := pythonPart{Package: enplace.ResolvedPackage{Name: "x", Version: "1"}, Wheels: pkg.wheels()}
	changed := func(f func(*lockedPackage)) lockedPackage {
		p := pkg
		f(&p)
		return p
	}
	for name, c := range map[string]struct {
		pkg  lockedPackage
		want bool
	}{
		"the same":           {pkg, true},
		"in another order":   {changed(func(p *lockedPackage) { p.Wheels = []lockedFile{file("bb"), file("aa")} }), true},
		"another version":    {changed(func(p *lockedPackage) { p.Version = "2" }), false},
		"another wheel":      {changed(func(p *lockedPackage) { p.Wheels = []lockedFile{file("aa")} }), false},
		"another index":      {changed(func(p *lockedPackage) { p.Index = "https://other/simple" }), false},
		"for some platforms": {changed(func(p *lockedPackage) { p.Marker = "sys_platform == 'win32'" }), false},
		"source alone":       {changed(func(p *lockedPackage) { p.Wheels = nil }), false},
	} {
		if got := (pythonLock{"x": c.pkg}).wants(part); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if pythonLock(nil).wants(part) || !pythonLock(nil).agrees(pythonLock{"x": pkg}) {
		t.Error("no lock")
	}
	if (pythonLock{"x": pkg}).agrees(pythonLock{"x": {Version: "2"}}) || !(pythonLock{"x": pkg}).agrees(pythonLock{"y": {Version: "2"}}) {
		t.Error("two locks")
	}
}
