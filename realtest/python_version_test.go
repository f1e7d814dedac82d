package realtest

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"enplace"
	"enplace/enplacetest"
)

// A Python other than the base's, from a mirror of the site's own: that of another Debian release, laid out as uv's managed
// Pythons are. Its version is in the list that the mirror serves.
func TestPythonVersionFromAMirror(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the Python of this test is for amd64")
	}
	archive, version := managedPython(t)
	name := fmt.Sprintf("cpython-%s-linux-x86_64-gnu", version)
	var list []byte
	mux := http.NewServeMux()
	mux.HandleFunc("GET /list.json", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(list) })
	mux.HandleFunc("GET /"+name+".tar.gz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive) })
	mirror := serve(t, mux)
	var minor, patch int
	if _, err := fmt.Sscanf(version, "3.%d.%d", &minor, &patch); err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(map[string]any{name: map[string]any{
		"name": "cpython", "arch": map[string]any{"family": "x86_64", "variant": nil}, "os": "linux", "libc": "gnu", "major": 3, "minor": minor, "patch": patch,
		"prerelease": "", "url": mirror + "/" + name + ".tar.gz", "sha256": fmt.Sprintf("%x", sha256.Sum256(archive)), "variant": nil, "build": "20260101",
	}})
	if err != nil {
		t.Fatal(err)
	}
	srv := enplacetest.Start(t, "--allow-address="+registryAddress, "--python-list="+mirror+"/list.json")
	h, err := srv.Client.CreateHarness(t.Context(), enplace.CreateHarness{Name: "open"})
	if err != nil {
		t.Fatal(err)
	}

	e := newEnvOn(t, srv, enplace.CreateEnvironment{Name: "Older", PythonVersion: fmt.Sprintf("3.%d", minor), Packages: &enplace.Packages{Pip: []string{"numpy==1.26.4"}}}, nil)
	b, _ := e.build()
	m := e.manifest(b)
	if m.Interpreters["python"] != version {
		t.Errorf("interpreters: %v", m.Interpreters)
	}
	everyHash(t, m)
	task := e.taskOf(h.ID)
	if got := e.run(task, "python3 --version; python --version"); got != "Python "+version+"\nPython "+version {
		t.Errorf("got %s", got)
	}
	want(t, e.run(task, "python3 -c 'import numpy, ssl, sqlite3, sys; print(numpy.arange(4).sum(), sys.base_prefix)'"), "6 /env/older/.python/cpython-3.")
	want(t, e.run(task, "pip list"), "numpy")

	// The project asks for it, where nobody else does.
	asks := newEnvOn(t, srv, enplace.CreateEnvironment{Name: "Asks"}, map[string]string{
		"pyproject.toml": fmt.Sprintf("[project]\nname = \"asks\"\nversion = \"1\"\nrequires-python = \"==3.%d.*\"\ndependencies = [\"idna\"]\n", minor),
	})
	b, log := asks.build()
	if v := asks.manifest(b).Interpreters["python"]; v != version {
		t.Errorf("python %s\n%s", v, log)
	}

	// One that the mirror has not.
	none := newEnvOn(t, srv, enplace.CreateEnvironment{Name: "None", PythonVersion: "3.9"}, nil)
	f, _ := none.fail()
	want(t, f.Message, "Python 3.9 could not be installed")
	want(t, strings.Join(f.Fixes, "\n"), "--python-mirror")
}

// debian is where the packages of the older Python are.
const debian, release = "http://deb.debian.org/debian/", "bookworm"

// managedPython makes an archive with a folder python, as uv unpacks it.
func managedPython(t *testing.T) (archive []byte, version string) {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		absent(t, "dpkg-deb is not there")
	}
	dir := t.TempDir()
	for _, file := range debianFiles(t, "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "python3.11") {
		deb := filepath.Join(t.TempDir(), "x.deb")
		if err := os.WriteFile(deb, get(t, debian+file), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "-x", deb, dir).CombinedOutput(); err != nil {
			t.Fatalf("unpacking %s: %v\n%s", file, err, out)
		}
	}
	usr := filepath.Join(dir, "usr")
	if err := os.Symlink("python3.11", filepath.Join(usr, "bin", "python3")); err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(filepath.Join(usr, "bin", "python3.11"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`\x00(3\.11\.[0-9]+)\x00`).FindSubmatch(binary)
	if found == nil {
		t.Fatal("the program does not say its version")
	}
	return packed(t, usr), string(found[1])
}

// debianFiles gives the paths of packages in the archive.
func debianFiles(t *testing.T, names ...string) []string {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(get(t, debian+"dists/"+release+"/main/binary-amd64/Packages.gz")))
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{}
	name := ""
	for sc := bufio.NewScanner(zipped); sc.Scan(); {
		if v, ok := strings.CutPrefix(sc.Text(), "Package: "); ok {
			name = v
		} else if v, ok := strings.CutPrefix(sc.Text(), "Filename: "); ok {
			paths[name] = v
		}
	}
	var out []string
	for _, n := range names {
		if paths[n] == "" {
			absent(t, "the archive has no "+n)
		}
		out = append(out, paths[n])
	}
	return out
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		absent(t, err.Error())
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		absent(t, fmt.Sprintf("%s: %s, %v", url, resp.Status, err))
	}
	return data
}

// packed makes a compressed archive of bin and lib, below a folder python.
func packed(t *testing.T, usr string) []byte {
	t.Helper()
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	tw := tar.NewWriter(zw)
	err := filepath.WalkDir(usr, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(usr, path)
		if err != nil || !strings.HasPrefix(rel, "bin") && !strings.HasPrefix(rel, "lib") {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target, err := os.Readlink(path)
		if info.Mode()&fs.ModeSymlink != 0 && (err != nil || filepath.IsAbs(target)) {
			return nil // into /etc, which does not come along
		}
		h, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		h.Name = "python/" + rel
		if err := tw.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			_, err = tw.Write(data)
		}
		return err
	})
	if err == nil {
		err = tw.Close()
	}
	if err == nil {
		err = zw.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
