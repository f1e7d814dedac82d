package realtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"enplace"
)

// packages declares another list for the environment, builds, and gives the log.
func (e *env) packages(list ...string) (enplace.Build, string) {
	e.Helper()
	if _, err := e.srv.Client.UpdateEnvironment(e.Context(), e.ID, enplace.UpdateEnvironment{Packages: &enplace.PackageLists{Pip: &list}}); err != nil {
		e.Fatal(err)
	}
	return e.build()
}

// venv lists the virtual environment of the active version: kind, mode and content of everything in it.
func (e *env) venv() string {
	e.Helper()
	return e.run(e.task(), `cd $PROJECT_ROOT/.venv && find . -printf '%P %y %m %l\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum`)
}

// sameAsFromScratch compares what the environment has become with what it is when it is made anew with the same list and files.
func (e *env) sameAsFromScratch(files map[string]string) {
	e.Helper()
	have := e.venv()
	v, err := e.srv.Client.Environment(e.Context(), e.ID)
	if err != nil {
		e.Fatal(err)
	}
	if err := e.srv.Client.DeleteEnvironment(e.Context(), e.ID); err != nil {
		e.Fatal(err)
	}
	if e.Environment, err = e.srv.Client.CreateEnvironment(e.Context(), enplace.CreateEnvironment{Name: v.Name, Packages: &v.Packages}); err != nil {
		e.Fatal(err)
	}
	for path, content := range files {
		e.put(path, content)
	}
	if _, log := e.build(); strings.Contains(log, "taken from") {
		e.Errorf("from scratch:\n%s", log)
	}
	had := map[string]bool{}
	for line := range strings.Lines(have) {
		had[line] = true
	}
	for line := range strings.Lines(e.venv()) {
		if !had[line] {
			e.Errorf("only from scratch: %s", line)
		}
		delete(had, line)
	}
	for line := range had {
		e.Errorf("only with packages of earlier layers: %s", line)
	}
}

// A changed list takes from earlier layers what they have, and gives what a build from scratch gives, file by file.
func TestPythonPackagesOfEarlierLayers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{}, nil)
	_, log := e.packages("requests==2.32.3", "idna==3.7", "zope.event==5.0")
	if strings.Contains(log, "taken from") {
		t.Errorf("the first build:\n%s", log)
	}
	// One more, with commands, a name of another spelling, and a folder that it shares with a package that is there.
	_, log = e.packages("requests==2.32.3", "idna==3.7", "zope.event==5.0", "zope.interface==7.2", "Markdown_It.py==3.0.0")
	want(t, log, "7 of 10 packages taken from build 1, 3 installed")
	// The same in another order.
	b, log := e.packages("zope.interface==7.2", "Markdown_It.py==3.0.0", "idna==3.7", "requests==2.32.3", "zope.event==5.0")
	want(t, log, "10 of 10 packages taken from build 1, 2, 0 installed")
	everyHash(t, e.manifest(b))
	// Another version.
	b, log = e.packages("zope.interface==7.2", "Markdown_It.py==3.0.0", "idna==3.10", "requests==2.32.3", "zope.event==5.0")
	want(t, log, "9 of 10 packages taken from build 1, 2, 1 installed")
	if v := resolved(t, e.manifest(b), enplace.Pip, "idna"); v.Version != "3.10" || !v.Direct {
		t.Errorf("idna: %+v", v)
	}
	want(t, e.run(e.task(), "cd $PROJECT_ROOT/.venv/lib/python3*/site-packages && ls -d idna-*; markdown-it --version"), "idna-3.10.dist-info", "markdown-it-py [version 3.0.0]")
	// One less, and with it those that it needed; and one that has no wheel.
	b, log = e.packages("zope.interface==7.2", "idna==3.10", "zope.event==5.0", "docopt==0.6.2")
	want(t, log, "4 of 5 packages taken from build 1, 2, 4, 1 installed")
	everyHash(t, e.manifest(b))
	// What was built from source is never taken.
	_, log = e.packages("docopt==0.6.2", "zope.interface==7.2", "idna==3.10", "zope.event==5.0")
	want(t, log, "4 of 5 packages taken from build 1, 2, 4, 1 installed")
	e.sameAsFromScratch(nil)
}

// The project's own files have their turn first, and the declared packages go over them, whatever lies there already.
func TestPythonPackagesOfEarlierLayersBesideFiles(t *testing.T) {
	t.Parallel()
	files := map[string]string{"requirements.txt": "idna\ncertifi\n"}
	e := newEnv(t, enplace.CreateEnvironment{}, files)
	e.packages("six==1.17.0", "requests==2.32.3")
	files["requirements.txt"] = "idna\ncertifi\nattrs\n"
	e.put("requirements.txt", files["requirements.txt"])
	_, log := e.build()
	want(t, log, "6 of 7 packages taken from build 1, 1 installed")
	// A real pip takes the place of ours, and goes again.
	_, log = e.packages("six==1.17.0", "requests==2.32.3", "pip==25.0")
	want(t, log, "7 of 8 packages taken from build 1, 2, 1 installed")
	want(t, e.run(e.task(), "pip --version"), "pip 25.0 from /env/")
	_, log = e.packages("requests==2.32.3", "six==1.17.0")
	want(t, log, "7 of 7 packages taken from build 1, 2, 0 installed")
	want(t, e.run(e.task(), "pip --version"), "pip of an Enplace environment")
	e.sameAsFromScratch(files)
}

// A project's own lock is held against what lies there as a resolution is.
func TestPythonPackagesOfEarlierLayersByUVLock(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for _, name := range []string{"pyproject.toml", "uv.lock"} {
		raw, err := os.ReadFile(filepath.Join("testdata", "reuse", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(raw)
	}
	e := newEnv(t, enplace.CreateEnvironment{}, files)
	_, log := e.build()
	want(t, log, "rule: uv.lock, by uv sync")
	_, log = e.packages("six==1.17.0")
	want(t, log, "2 of 3 packages taken from build 1, 1 installed")
	e.sameAsFromScratch(files)
}

// Images that are gone are no parts: what they had is installed again.
func TestPythonPackagesOfEarlierLayersThatAreGone(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{}, nil)
	b, _ := e.packages("six==1.17.0", "idna==3.7")
	for _, image := range e.manifest(b).Images {
		if image.Step != enplace.StepPython {
			continue
		}
		if err := os.Remove(filepath.Join(e.srv.Data, "images", "sha256", strings.TrimPrefix(image.Digest, "sha256:"))); err != nil {
			t.Fatal(err)
		}
	}
	b, log := e.packages("idna==3.7", "six==1.17.0")
	want(t, log, "2 packages are installed anew, as the images that had them are gone")
	everyHash(t, e.manifest(b))
}

// Code of a package that changes another one while both are installed does not outlast its own package.
func TestPackageChangedByAnother(t *testing.T) {
	t.Parallel()
	const backend = `import os, tarfile, time, zipfile, glob
def build_wheel(folder, settings=None, metadata=None):
    if os.fork() == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for n in range(3):
            os.dup2(null, n)
        while True:
            for path in glob.glob("/env/*/.venv/lib/python3*/site-packages/idna/core.py"):
                with open(path, "r+") as f:
                    if not f.read().endswith("# evil\n"):
                        f.write("# evil\n")
            time.sleep(0.001)
    with zipfile.ZipFile(os.path.join(folder, "evil-1-py3-none-any.whl"), "w") as z:
        z.writestr("evil.py", "")
        z.writestr("evil-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
        z.writestr("evil-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("evil-1.dist-info/RECORD", "evil.py,,\nevil-1.dist-info/METADATA,,\nevil-1.dist-info/WHEEL,,\nevil-1.dist-info/RECORD,,\n")
    return "evil-1-py3-none-any.whl"
`
	var sdist bytes.Buffer
	zipped := gzip.NewWriter(&sdist)
	archive := tar.NewWriter(zipped)
	for name, text := range map[string]string{
		"PKG-INFO":       "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
		"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n",
		"backend.py":     backend,
	} {
		if err := archive.WriteHeader(&tar.Header{Name: "evil-1/" + name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	start(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /simple/evil/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/evil-1.tar.gz">evil-1.tar.gz</a>`)
	})
	mux.HandleFunc("GET /evil-1.tar.gz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(sdist.Bytes()) })
	index := serve(t, mux) + "/simple/"
	e := newEnv(t, enplace.CreateEnvironment{}, map[string]string{"requirements.txt": "--extra-index-url " + index + "\nevil\nidna==3.7\ncertifi\n"})
	e.build()
	const look = "tail -n 1 $PROJECT_ROOT/.venv/lib/python3*/site-packages/idna/core.py"
	if got := e.run(e.task(), look); got != "# evil" {
		t.Fatalf("idna was not changed: %q", got)
	}
	e.put("requirements.txt", "idna==3.7\ncertifi\n")
	_, log := e.build()
	want(t, log, "1 of 2 packages taken from build 1, 1 installed")
	if got := e.run(e.task(), look); got == "# evil" {
		t.Error("a package that is there no more has left something in another one")
	}
}
