package pkgindex

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"enplace"
	"enplace/internal/egress"
)

// registry answers by path, and counts.
type registry struct {
	*httptest.Server
	mu    sync.Mutex
	pages map[string]http.HandlerFunc
	count atomic.Int64
}

func newRegistry(t *testing.T, pages map[string]http.HandlerFunc) *registry {
	r := &registry{pages: pages}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.count.Add(1)
		r.mu.Lock()
		page := r.pages[req.URL.EscapedPath()]
		r.mu.Unlock()
		if page == nil {
			http.NotFound(w, req)
			return
		}
		page(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *registry) index(c Config) *Index {
	c.PyPI, c.NPM, c.HTTP = r.URL+"/simple/", r.URL+"/npm", r.Client()
	if c.Foreign == nil {
		c.Foreign = (&net.Dialer{}).DialContext
	}
	if c.Apt == nil {
		c.Apt = []AptSource{{Mirror: r.URL + "/debian", Suite: "stable", Components: []string{"main"}, Arch: "amd64"}, {Mirror: r.URL + "/debian", Suite: "stable-updates", Components: []string{"main"}, Arch: "amd64"}}
	}
	return New(c)
}

func page(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "SECRET-INSIDE", code) }
}

const simpleJSON = "application/vnd.pypi.simple.v1+json"

// project makes a page of files: name, requires-python, reason it was yanked ("" for none).
func project(files ...[3]string) http.HandlerFunc {
	var items []string
	for _, f := range files {
		yanked := "false"
		if f[2] != "" {
			yanked = fmt.Sprintf("%q", f[2])
		}
		items = append(items, fmt.Sprintf(`{"filename":%q,"url":"https://x/","hashes":{"sha256":"0"},"requires-python":%q,"yanked":%s}`, f[0], f[1], yanked))
	}
	return page(simpleJSON, `{"meta":{"api-version":"1.1"},"name":"x","files":[`+strings.Join(items, ",")+`]}`)
}

var py313 = Target{Python: "3.13.5", Node: "20.19.2", Arch: "x86_64"}

func check(t *testing.T, x *Index, m enplace.Manager, entry string, target Target) enplace.PackageCheck {
	t.Helper()
	pkg, err := enplace.ParsePackage(m, entry)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x.Check(t.Context(), pkg, target)
	if err != nil {
		t.Fatalf("%s: %v", entry, err)
	}
	if c.Message == "" || c.Manager != m || c.Name != pkg.Name {
		t.Errorf("%s: %+v", entry, c)
	}
	return c
}

// facts writes what a check says as four letters, and latest.
func facts(c enplace.PackageCheck) string {
	s := ""
	for _, f := range []struct {
		yes  bool
		name string
	}{{c.Exists, "exists"}, {c.VersionExists, "version"}, {c.Yanked, "yanked"}, {c.Installable, "installable"}} {
		if f.yes {
			s += f.name + " "
		}
	}
	return s + c.Latest
}

func TestPip(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, map[string]http.HandlerFunc{
		"/simple/flask-sqlalchemy/": project([3]string{"Flask-SQLAlchemy-1.0.tar.gz"}, [3]string{"flask_sqlalchemy-3.0.0-py3-none-any.whl", ">=3.8"}, [3]string{"flask_sqlalchemy-3.1.0-py3-none-any.whl", ">=3.8", "broke things"}, [3]string{"flask_sqlalchemy-4.0rc1-py3-none-any.whl", ">=3.8"}),
		"/simple/pre/":              project([3]string{"pre-1.0a1-py3-none-any.whl"}, [3]string{"pre-1.0a2-py3-none-any.whl"}),
		"/simple/gone/":             project([3]string{"gone-1.0-py3-none-any.whl", "", "malware"}),
		"/simple/old/":              project([3]string{"old-1.0-py2-none-any.whl", "<3"}, [3]string{"old-0.9-cp39-cp39-manylinux2014_x86_64.whl"}),
		"/simple/new/":              project([3]string{"new-1.0-py3-none-any.whl", ">=3.8"}, [3]string{"new-2.0-py3-none-any.whl", ">=3.14"}),
		"/simple/compiled/":         project([3]string{"compiled-1.26.4-cp312-cp312-manylinux2014_x86_64.whl", ">=3.9"}, [3]string{"compiled-1.26.4.tar.gz", ">=3.9"}),
		"/simple/windows/":          project([3]string{"windows-1.0-py3-none-win_amd64.whl"}),
		"/simple/empty/":            page(simpleJSON, `{"meta":{"api-version":"1.1"},"name":"empty","files":[],"versions":[]}`),
		"/simple/nofiles/":          page(simpleJSON, `{"files":[],"versions":["1.0"]}`),
		"/other/torch/":             page("text/html", `<!DOCTYPE html><html><body><h1>Links</h1><a href="t#sha256=0" data-requires-python="&gt;=3.9">torch-2.6.0+cpu-cp313-cp313-manylinux_2_28_x86_64.whl</a><br><a data-yanked data-requires-python='>=3.9' href="y">torch-2.5.0+cpu-cp313-cp313-linux_x86_64.whl</a></body></html>`),
	})
	x := r.index(Config{})
	for _, tc := range []struct{ entry, want, say string }{
		{"Flask_SQLAlchemy", "exists version installable 3.0.0", "flask-sqlalchemy 3.0.0 will be installed"},
		{"flask.sqlalchemy==1.0.0", "exists version installable 3.0.0", "from source"},
		{"flask-sqlalchemy==3.1", "exists version yanked installable 3.0.0", "broke things"},
		{"flask-sqlalchemy>3.0", "exists version 3.0.0", "only pre-releases fit"},
		{"flask-sqlalchemy>3.0,<4", "exists version yanked 3.0.0", "every version that fits was withdrawn"},
		{"flask-sqlalchemy>=4.0", "exists 3.0.0", "no version >=4.0"},
		{"flask-sqlalchemy>=4.0rc1", "exists version installable 3.0.0", "4.0rc1"},
		{"flask-sqlalchemy==4.0rc1", "exists version installable 3.0.0", "4.0rc1"},
		{"flask-sqlalchemy==9", "exists 3.0.0", "the newest is 3.0.0"},
		{"flask-sqlalchemy==3.0.0+cpu", "exists 3.0.0", "pip_index_url"},
		{"flask-sqlalchemy===1.0", "exists version installable 3.0.0", ""},
		{"pre", "exists version installable 1.0a2", "only pre-releases were ever published"},
		{"gone", "exists version yanked ", "malware"},
		{"gone==1", "exists version yanked installable ", "malware"},
		{"old", "exists version 1.0", "for Python <3"},
		{"old==0.9", "exists version 1.0", "neither a ready-made package for Python 3.13 on Linux x86_64"},
		{"new", "exists version installable 2.0", "new 1.0 will be installed, the newest that Python 3.13 can use"},
		{"new==2.0", "exists version 2.0", "for Python >=3.14"},
		{"compiled", "exists version installable 1.26.4", "compiles it from source"},
		{"windows", "exists version 1.0", "neither"},
		{"empty", "exists ", "nothing was published"},
		{"nofiles", "exists version 1.0", "no files"},
		{"absent", "", "no project"},
	} {
		c := check(t, x, enplace.Pip, tc.entry, py313)
		if facts(c) != tc.want || !strings.Contains(c.Message, tc.say) {
			t.Errorf("%s: %q, %q", tc.entry, facts(c), c.Message)
		}
	}
	other := py313
	other.PipIndexURL = r.URL + "/other/"
	for entry, want := range map[string]string{"torch==2.6.0+cpu": "exists version installable 2.6.0+cpu", "torch==2.6.0": "exists version installable 2.6.0+cpu", "torch==2.5.0": "exists version yanked installable 2.6.0+cpu", "pre": ""} {
		if c := check(t, x, enplace.Pip, entry, other); facts(c) != want {
			t.Errorf("other index, %s: %q, %q", entry, facts(c), c.Message)
		}
	}
}

func TestNPM(t *testing.T) {
	t.Parallel()
	const typescript = `{"name":"typescript","dist-tags":{"latest":"5.1.0","next":"6.0.0-dev.1"},"versions":{
		"4.9.5":{"name":"typescript","engines":{"node":">=4.2.0"}},"5.1.0":{"engines":{"node":">=14"}},"5.2.0":{"deprecated":"use 5.1"},
		"6.0.0-dev.1":{"engines":["node >= 0.2"]},"7.0.0":{"engines":{"node":">=24"},"deprecated":true}}}`
	r := newRegistry(t, map[string]http.HandlerFunc{
		"/npm/typescript":          page("application/json", typescript),
		"/npm/@types%2Fnode":       page("application/json", `{"dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{}}}`),
		"/npm/unpublished":         page("application/json", `{"name":"unpublished","time":{"unpublished":{}}}`),
		"/npm/held":                page("application/json", `{"name":"held","dist-tags":{"latest":"0.0.1-security"},"versions":{"0.0.1-security":{}}}`),
		"/npm/@esbuild%2Fdarwin":   page("application/json", `{"name":"d","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"os":["darwin"],"cpu":"x64"}}}`),
		"/npm/@esbuild%2Fanything": page("application/json", `{"name":"d","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"os":["!win32"],"cpu":["x64","arm64"]}}}`),
	})
	x := r.index(Config{})
	for _, tc := range []struct{ entry, want, say string }{
		{"typescript", "exists version installable 5.1.0", "typescript 5.1.0 will be installed"},
		{"typescript@latest", "exists version installable 5.1.0", "5.1.0"},
		{"typescript@next", "exists version installable 5.1.0", "6.0.0-dev.1"},
		{"typescript@^4", "exists version installable 5.1.0", "4.9.5"},
		{"typescript@*", "exists version installable 5.1.0", "typescript 5.1.0"},
		{"typescript@>5.1.0", "exists version installable 5.1.0", "deprecated"},
		{"typescript@7.0.0", "exists version installable 5.1.0", "asks for Node >=24"},
		{"typescript@9", "exists 5.1.0", "no version 9"},
		{"typescript@nosuchtag", "exists 5.1.0", "no version nosuchtag"},
		{"@types/node", "exists version installable 1.0.0", "@types/node 1.0.0"},
		{"unpublished", "exists ", "removed"},
		{"held", "exists version 0.0.1-security", "placeholder"},
		{"@esbuild/darwin", "exists version 1.0.0", "not for Linux x86_64, but for darwin, x64"},
		{"@esbuild/anything", "exists version installable 1.0.0", ""},
		{"absent", "", "no package"},
	} {
		c := check(t, x, enplace.NPM, tc.entry, py313)
		if facts(c) != tc.want || !strings.Contains(c.Message, tc.say) {
			t.Errorf("%s: %q, %q", tc.entry, facts(c), c.Message)
		}
	}
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.String()
}

const packagesMain = `Package: git
Version: 1:2.39.5-0+deb12u2
Architecture: amd64
Description: fast
 Package: not a field
Provides: git-completion, git-core (= 1:2.39.5), vcs:any

Package: exim4-daemon-light
Version: 4.96-15+deb12u6
Architecture: amd64
Provides: mail-transport-agent

Package: postfix
Architecture: amd64
Version: 3.7.11-0+deb12u1
Provides: mail-transport-agent, default-mta

Package: foo
Version: 1.2~rc1+dfsg-3
Architecture: all
`

const packagesUpdates = `Package: git
Version: 1:2.39.10-0+deb12u1
Architecture: amd64
`

const aptMain, aptUpdates = "/debian/dists/stable/main/binary-amd64/Packages", "/debian/dists/stable-updates/main/binary-amd64/Packages"

func TestApt(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, map[string]http.HandlerFunc{
		aptMain + ".gz":    page("", gzipped(packagesMain)),
		aptUpdates + ".gz": page("", gzipped(packagesUpdates)),
	})
	x := r.index(Config{})
	for _, tc := range []struct{ entry, want, say string }{
		{"git", "exists version installable 1:2.39.10-0+deb12u1", "git 1:2.39.10-0+deb12u1 will be installed"},
		{"git=1:2.39.5-0+deb12u2", "exists version installable 1:2.39.10-0+deb12u1", "can be gone"},
		{"git=1:2.30.2-1ubuntu1", "exists 1:2.39.10-0+deb12u1", "now it has 1:2.39.5-0+deb12u2 and 1:2.39.10-0+deb12u1"},
		{"git=2.39.5-0+deb12u2", "exists 1:2.39.10-0+deb12u1", "does not have version"},
		{"foo=1.2~rc1+dfsg-3", "exists version installable 1.2~rc1+dfsg-3", ""},
		{"foo:all", "exists version installable 1.2~rc1+dfsg-3", ""},
		{"git:amd64", "exists version installable 1:2.39.10-0+deb12u1", ""},
		{"git:i386", "exists version 1:2.39.10-0+deb12u1", "leave :i386 out"},
		{"git:all", "exists version 1:2.39.10-0+deb12u1", "leave :all out"},
		{"mail-transport-agent", "exists version ", "exim4-daemon-light, postfix"},
		{"mail-transport-agent=1.0", "exists ", "virtual"},
		{"vcs", "exists version ", "git"},
		{"absent", "", "no package"},
	} {
		c := check(t, x, enplace.Apt, tc.entry, py313)
		if facts(c) != tc.want || !strings.Contains(c.Message, tc.say) {
			t.Errorf("%s: %q, %q", tc.entry, facts(c), c.Message)
		}
	}
	if n := r.count.Load(); n != 2 {
		t.Errorf("%d requests for two lists", n)
	}
}

func TestAptListsAreKept(t *testing.T) {
	t.Parallel()
	var since []string
	conditional := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			since = append(since, req.Header.Get("If-Modified-Since"))
			if req.Header.Get("If-Modified-Since") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			_, _ = io.WriteString(w, body)
		}
	}
	r := newRegistry(t, map[string]http.HandlerFunc{aptMain + ".gz": conditional(gzipped(packagesMain)), aptUpdates + ".gz": conditional(gzipped(packagesUpdates))})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cfg := Config{CacheDir: t.TempDir(), Now: func() time.Time { return now }}
	for _, step := range []struct {
		later    time.Duration
		fresh    bool
		requests int64
	}{{0, true, 2}, {30 * time.Minute, true, 2}, {31 * time.Minute, true, 4}, {time.Minute, false, 6}} {
		now = now.Add(step.later)
		x := r.index(cfg)
		if c := check(t, x, enplace.Apt, "git", py313); !c.Installable {
			t.Errorf("%+v", c)
		}
		if n := r.count.Load(); n != step.requests {
			t.Errorf("after %v: %d requests, want %d", step.later, n, step.requests)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(cfg.CacheDir, "*")); len(files) != 2 {
		t.Errorf("kept %v", files)
	}
	// A damaged file of the cache is no list.
	files, _ := filepath.Glob(filepath.Join(cfg.CacheDir, "*"))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		_ = os.WriteFile(f, b[:len(b)-20], 0o600)
	}
	if c := check(t, r.index(cfg), enplace.Apt, "git", py313); !c.Installable || since[len(since)-1] != "" {
		t.Errorf("%+v, since %q", c, since)
	}
}

// Whatever a registry does but answer the question is "could not check", and never "does not exist".
func TestCouldNotCheck(t *testing.T) {
	t.Parallel()
	behaviours := map[string]http.HandlerFunc{
		"401": status(401), "403": status(403), "407": status(407), "429": status(429), "500": status(500), "503": status(503), "418": status(418), "204": status(204),
		"page":    page("text/plain", "welcome to the hotel"),
		"html":    page("application/json", "<html>welcome</html>"),
		"object":  page("application/json", `{"error":"down"}`),
		"array":   page("application/json", `[]`),
		"cut":     page("application/json", `{"files":[{"filename":"x-1.0.tar.gz"}],"dist-tags":{"latest":`),
		"nothing": page("application/json", ""),
		"hangup": func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := w.(http.Hijacker).Hijack()
			c.Close()
		},
		"short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"files":[`)
		},
		"loop": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
	}
	for name, h := range behaviours {
		r := newRegistry(t, map[string]http.HandlerFunc{"/simple/x/": h, "/npm/x": h, aptMain + ".gz": h, aptMain + ".xz": h})
		x := r.index(Config{})
		for _, pkg := range []enplace.Package{{Manager: enplace.Pip, Name: "x"}, {Manager: enplace.NPM, Name: "x"}, {Manager: enplace.Apt, Name: "x"}} {
			c, err := x.Check(t.Context(), pkg, py313)
			if enplace.KindOf(err) != enplace.KindUpstream || c.Exists || !strings.Contains(err.Error(), "could not check") {
				t.Errorf("%s, %s: %+v, %v", name, pkg.Manager, c, err)
			}
			if err != nil && strings.Contains(err.Error(), "SECRET-INSIDE") {
				t.Errorf("%s: the answer's text is in the error", name)
			}
		}
	}
	// No list under either name is no answer either.
	r := newRegistry(t, nil)
	if _, err := r.index(Config{}).Check(t.Context(), enplace.Package{Manager: enplace.Apt, Name: "x"}, py313); enplace.KindOf(err) != enplace.KindUpstream {
		t.Errorf("no lists: %v", err)
	}
	if _, err := r.index(Config{Apt: []AptSource{}}).Check(t.Context(), enplace.Package{Manager: enplace.Apt, Name: "x"}, py313); enplace.KindOf(err) != enplace.KindUpstream {
		t.Errorf("no sources: %v", err)
	}
}

func TestRetriesOnce(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	good := project([3]string{"x-1.0-py3-none-any.whl"})
	r := newRegistry(t, map[string]http.HandlerFunc{"/simple/x/": func(w http.ResponseWriter, req *http.Request) {
		if n.Add(1) == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		good(w, req)
	}})
	x := r.index(Config{})
	if c := check(t, x, enplace.Pip, "x", py313); !c.Installable || n.Load() != 2 {
		t.Errorf("%+v after %d requests", c, n.Load())
	}
	check(t, x, enplace.Pip, "x==1.0", py313)
	if n.Load() != 2 {
		t.Errorf("asked again within the time that an answer holds")
	}
}

func TestCheckAll(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, map[string]http.HandlerFunc{"/simple/a/": project([3]string{"a-1.0-py3-none-any.whl"}), "/simple/b/": status(403)})
	pkgs := []enplace.Package{{Manager: enplace.Pip, Name: "a"}, {Manager: enplace.Pip, Name: "b"}, {Manager: enplace.Pip, Name: "c"}}
	checks, err := r.index(Config{}).CheckAll(t.Context(), pkgs, py313)
	if err != nil || len(checks) != 3 || !checks[0].Installable || checks[0].Unchecked || !checks[1].Unchecked || !strings.Contains(checks[1].Message, "could not check") || checks[2].Unchecked || !strings.Contains(checks[2].Message, "no project") {
		t.Errorf("%+v, %v", checks, err)
	}
}

// A user names the index, so it must not lead inside, neither by itself nor by a redirect, nor show its password.
func TestForeignIndexStaysOutside(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, map[string]http.HandlerFunc{"/simple/x/": project([3]string{"x-1.0-py3-none-any.whl"})})
	x := New(Config{Foreign: egress.New(egress.Config{Logger: slog.New(slog.DiscardHandler)}).DialContext})
	for _, u := range []string{r.URL + "/simple", strings.Replace(r.URL, "127.0.0.1", "user:SECRET@localhost", 1) + "/simple", "http://169.254.169.254/simple", "http://[::1]:1/simple"} {
		_, err := x.Check(t.Context(), enplace.Package{Manager: enplace.Pip, Name: "x"}, Target{PipIndexURL: u})
		if enplace.KindOf(err) != enplace.KindUpstream || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", u, err)
		}
	}
	if n := r.count.Load(); n != 0 {
		t.Errorf("%d requests came through", n)
	}
	for _, u := range []string{"file:///etc/passwd", "ftp://x/simple", "simple", "https://", "://"} {
		if _, err := x.Check(t.Context(), enplace.Package{Manager: enplace.Pip, Name: "x"}, Target{PipIndexURL: u}); enplace.KindOf(err) != enplace.KindInvalid {
			t.Errorf("%s: %v", u, err)
		}
	}
}

func TestForeignIndexNeedsAWayOut(t *testing.T) {
	t.Parallel()
	_, err := New(Config{}).Check(t.Context(), enplace.Package{Manager: enplace.Pip, Name: "x"}, Target{PipIndexURL: "https://example.org/simple"})
	if enplace.KindOf(err) != enplace.KindUnavailable {
		t.Error(err)
	}
}

func TestCacheFolderIsMadeAndCleared(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, map[string]http.HandlerFunc{aptMain + ".gz": page("", gzipped(packagesMain)), aptUpdates + ".gz": page("", gzipped(packagesUpdates))})
	cfg := Config{CacheDir: filepath.Join(t.TempDir(), "none", "yet")}
	check(t, r.index(cfg), enplace.Apt, "git", py313)
	leftover := filepath.Join(cfg.CacheDir, strings.Replace(newList, "*", "1", 1))
	if err := os.WriteFile(leftover, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := r.count.Load()
	check(t, r.index(cfg), enplace.Apt, "git", py313)
	if n := r.count.Load(); n != asked {
		t.Errorf("%d requests after a restart: the lists were not kept", n-asked)
	}
	if _, err := os.Stat(leftover); err == nil {
		t.Error("what a killed process left is still there")
	}
}

// A package list that does not fit into the cache is as good as one that does.
func TestFullDiskRefusesNoPackage(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("mounting a small file system takes root")
		}
		t.Skip("mounting a small file system takes root")
	}
	cache := t.TempDir()
	if err := unix.Mount("tmpfs", cache, "tmpfs", 0, "size=8k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(cache, 0) })
	random := make([]byte, 64<<10) // packs badly
	_, _ = rand.Read(random)
	list := packagesMain + "\nDescription: " + hex.EncodeToString(random) + "\n"
	r := newRegistry(t, map[string]http.HandlerFunc{aptMain + ".gz": page("", gzipped(list)), aptUpdates + ".gz": page("", gzipped(list))})
	if c := check(t, r.index(Config{CacheDir: cache}), enplace.Apt, "git", py313); !c.Installable {
		t.Errorf("%+v", c)
	}
}

func TestHeldAnswersAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	x := New(Config{Now: func() time.Time { return now }})
	for i := range 2 * maxAnswers {
		x.keep(fmt.Sprint(i), answer{bytes: 1 << 10, until: now.Add(time.Minute)})
	}
	if len(x.answers) != maxAnswers {
		t.Errorf("%d small answers", len(x.answers))
	}
	for i := range 20 {
		x.keep(fmt.Sprint("large ", i), answer{bytes: maxPyPI, until: now.Add(time.Minute)})
		x.keep("the same", answer{bytes: maxPyPI, until: now.Add(time.Minute)})
	}
	if x.bytes > maxAnswerBytes || len(x.answers) == 0 {
		t.Errorf("%d answers of %d bytes", len(x.answers), x.bytes)
	}
	now = now.Add(time.Hour)
	x.keep("new", answer{bytes: maxAnswerBytes, until: now.Add(time.Minute)})
	if _, ok := x.answers["new"]; len(x.answers) != 1 || !ok || x.bytes != maxAnswerBytes {
		t.Errorf("%d answers of %d bytes", len(x.answers), x.bytes)
	}
}

func TestCallerThatLeaves(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := newRegistry(t, map[string]http.HandlerFunc{"/simple/x/": func(http.ResponseWriter, *http.Request) { <-release }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.index(Config{}).Check(ctx, enplace.Package{Manager: enplace.Pip, Name: "x"}, py313); enplace.KindOf(err) != enplace.KindUpstream {
		t.Error(err)
	}
	close(release)
}
