package realtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"enplace"
)

// sdist is a source archive of PyPI.
type sdist struct{ name, file, sha256 string }

// fetch gets an archive from the index, checked against its hash. Absent means that the index cannot be reached.
func (s sdist) fetch(t *testing.T) []byte {
	t.Helper()
	index := os.Getenv("ENPLACE_TEST_PYPI")
	if index == "" {
		index = "https://pypi.org/simple/"
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, index+s.name+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/vnd.pypi.simple.v1+json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		absent(t, "the package index cannot be reached: "+err.Error())
	}
	defer resp.Body.Close()
	var page struct {
		Files []struct{ Filename, URL string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		t.Fatalf("the page of %s: %v", s.name, err)
	}
	for _, f := range page.Files {
		if f.Filename != s.file {
			continue
		}
		at, err := url.Parse(f.URL)
		if err != nil {
			t.Fatal(err)
		}
		return s.download(t, resp.Request.URL.ResolveReference(at).String())
	}
	t.Fatalf("the index has no %s", s.file)
	return nil
}

func (s sdist) download(t *testing.T, from string) []byte {
	t.Helper()
	resp, err := http.Get(from)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != s.sha256 {
		t.Fatalf("%s has the SHA-256 %x", s.file, sum)
	}
	return data
}

func absent(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// project makes an environment of an archive and builds it.
func project(t *testing.T, s sdist, in enplace.CreateEnvironment) (*env, enplace.Manifest, string) {
	t.Helper()
	archive := s.fetch(t)
	e := newEnv(t, in, nil)
	report, err := e.srv.Client.Import(t.Context(), e.ID, bytes.NewReader(archive), false)
	if err != nil {
		t.Fatal(err)
	}
	if report.Imported == 0 || report.Unwrapped == "" {
		t.Errorf("import: %+v", report)
	}
	b, log := e.build()
	return e, e.manifest(b), log
}

// resolved finds a package in a manifest.
func resolved(t *testing.T, m enplace.Manifest, manager enplace.Manager, name string) enplace.ResolvedPackage {
	t.Helper()
	i := slices.IndexFunc(m.Packages, func(p enplace.ResolvedPackage) bool { return p.Manager == manager && p.Name == name })
	if i < 0 {
		t.Fatalf("%s %s is not in the manifest", manager, name)
	}
	return m.Packages[i]
}

// everyHash fails the test when a package that came from a registry has no hash or no source.
func everyHash(t *testing.T, m enplace.Manifest) {
	t.Helper()
	lacking := 0
	for _, p := range m.Packages {
		if strings.HasPrefix(p.Source, "file:") || p.Source == "base" { // of the tree or of the base, which the manifest names
			continue
		}
		if p.Hash == "" || p.Source == "" {
			if lacking++; lacking > 5 {
				t.Fatal("and more")
			}
			t.Errorf("%s %s %s: hash %q, source %q", p.Manager, p.Name, p.Version, p.Hash, p.Source)
		}
	}
}

// Flask: dependencies locked by uv.lock, and its own tests.
func TestProjectWithUVLock(t *testing.T) {
	t.Parallel()
	e, m, log := project(t, sdist{"flask", "flask-3.1.3.tar.gz", "0ef0e52b8a9cd932855379197dd8f94047b359ca0a78695144304cb45f87c9eb"}, enplace.CreateEnvironment{Name: "Flask"})
	want(t, log, "rule: uv.lock, by uv sync")
	lock := resolved(t, m, enplace.Pip, "werkzeug")
	if lock.Version != "3.1.5" || lock.Hash == "" || lock.Source != "https://pypi.org/simple" {
		t.Errorf("werkzeug is not the locked one: %+v", lock)
	}
	if resolved(t, m, enplace.Pip, "flask").Version != "3.1.3" {
		t.Error("the project itself is not in the manifest")
	}
	everyHash(t, m)
	task := e.task()
	want(t, e.run(task, "flask --version"), "Flask 3.1.3", "Werkzeug 3.1.5", "Python "+m.Interpreters["python"])
	want(t, e.run(task, "cd $PROJECT_ROOT && python3 -m pytest -q tests"), " passed")
	want(t, e.run(task, "python3 -c 'import flask; print(flask.__cached__, flask.__file__)'"), "/env/flask/.venv/lib/python3", ".pyc")
}

// Bandit: loose requirements, setup.py, a version that its tool would ask of git.
func TestProjectWithRequirements(t *testing.T) {
	t.Parallel()
	e, m, log := project(t, sdist{"bandit", "bandit-1.9.4.tar.gz", "b589e5de2afe70bd4d53fa0c1da6199f4085af666fde00e8a034f152a52cd628"}, enplace.CreateEnvironment{Name: "Bandit"})
	want(t, log, "rule: requirements.txt, by uv pip install")
	if v := resolved(t, m, enplace.Pip, "bandit").Version; v != "1.9.4" {
		t.Errorf("the project has version %s", v)
	}
	everyHash(t, m)
	task := e.task()
	want(t, e.run(task, "bandit --version"), "bandit 1.9.4")
	code, out := e.try(task, `printf 'import pickle\nprint(eval(input()))\n' > x.py && bandit -q -f json x.py`)
	if code != 1 { // it found something
		t.Errorf("status %d", code)
	}
	want(t, out, `"test_id": "B307"`)
}

// Furo: Python and Node in one tree, the Node packages locked by package-lock.json. Its own build downloads a Node.js, which no
// registry has, so only its dependencies can be there.
func TestProjectWithPythonAndNode(t *testing.T) {
	t.Parallel()
	e, m, log := project(t, sdist{"furo", "furo-2025.9.25.tar.gz", "3eac05582768fdbbc2bdfa1cdbcdd5d33cfc8b4bd2051729ff4e026a1d7e0a98"}, enplace.CreateEnvironment{Name: "Furo"})
	want(t, log, "rule: pyproject.toml, by uv pip install", "rule: package-lock.json, by npm ci")
	if v := resolved(t, m, enplace.NPM, "sass").Version; v != "1.89.2" {
		t.Errorf("sass is not the locked one: %s", v)
	}
	everyHash(t, m)
	if len(m.Interpreters) != 2 || m.Interpreters["node"] == "" {
		t.Errorf("interpreters: %v", m.Interpreters)
	}
	if !slices.Contains(m.Scripts, "@parcel/watcher@2.5.1") {
		t.Errorf("packages that ran scripts: %v", m.Scripts)
	}
	if !slices.ContainsFunc(m.Warnings, func(w string) bool {
		return strings.HasPrefix(w, "the project itself could not be installed") && strings.Contains(w, "/env/furo/src")
	}) {
		t.Errorf("warnings: %q", m.Warnings)
	}
	task := e.task()
	e.run(task, "cp -r $PROJECT_ROOT/src $PROJECT_ROOT/package.json $PROJECT_ROOT/webpack.config.js $PROJECT_ROOT/postcss.config.js . 2>/dev/null; webpack build")
	want(t, e.run(task, "find . -name '*.css'"), "furo.css")
	want(t, e.run(task, "mkdir d && cd d && echo Hello > index.rst && echo > conf.py && sphinx-build -q . out && grep -o '<h1>.*' out/index.html || cat out/index.html | head -3"), "")
}

// Django Debug Toolbar: hatchling and a package-lock.json with native modules for many systems.
func TestProjectWithPackageLock(t *testing.T) {
	t.Parallel()
	e, m, log := project(t, sdist{"django-debug-toolbar", "django_debug_toolbar-8.0.0.tar.gz", "cae32d3e441e608f39f3f1ca6b3f028c38d5d04d74c98d8ab96d46022dee3163"}, enplace.CreateEnvironment{Name: "Debug Toolbar"})
	want(t, log, "rule: package-lock.json, by npm ci")
	everyHash(t, m)
	task := e.task()
	want(t, e.run(task, `python3 -c 'import debug_toolbar, django; print(debug_toolbar.VERSION, django.VERSION)'`), "8.0.0")
	want(t, e.run(task, "vitest --version"), "vitest/")
}

// ffmpeg, and Python packages whose compiled code looks for libraries of the system and of its own.
func TestSystemPackagesAndCompiledWheels(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Packages: &enplace.Packages{
		Apt: []string{"ffmpeg"}, Pip: []string{"numpy==2.2.1", "pillow==11.1.0", "lxml==5.3.0"},
	}}, nil)
	b, _ := e.build()
	m := e.manifest(b)
	everyHash(t, m)
	if p := resolved(t, m, enplace.Apt, "ffmpeg"); !p.Direct || p.Version == "" {
		t.Errorf("ffmpeg: %+v", p)
	}
	if p := resolved(t, m, enplace.Apt, "libavcodec61"); p.Direct {
		t.Errorf("libavcodec61 was not declared: %+v", p)
	}
	for _, w := range m.Warnings {
		t.Errorf("warning: %s", w)
	}
	task := e.task()
	want(t, e.run(task, "ffmpeg -version"), "ffmpeg version")
	want(t, e.run(task, "ffmpeg -v error -f lavfi -i testsrc=duration=1:size=64x64:rate=5 -c:v libx264 o.mp4 && ffprobe -v error -show_entries stream=codec_name,nb_frames -of csv=p=0 o.mp4"), "h264,5")
	want(t, e.run(task, `ffmpeg -v error -i o.mp4 -frames:v 1 o.png && python3 -c '
import numpy, lxml.etree
from PIL import Image
print(numpy.asarray(Image.open("o.png").convert("RGB")).shape, lxml.etree.fromstring("<a/>").tag)'`), "(64, 64, 3) a")
}
