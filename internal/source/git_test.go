package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"enplace"
)

// local runs git on this host in a fresh directory, as a sandbox would inside.
func local(t *testing.T) GitRunner {
	t.Helper()
	dir := t.TempDir()
	return func(ctx context.Context, argv, env []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + os.Getenv("PATH")}, env...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
		// Killed with all it started, as a sandbox does.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		err := cmd.Run()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode(), nil
		}
		return 0, err
	}
}

type repo struct {
	t   *testing.T
	dir string
}

func (r repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.t.TempDir(), "GIT_CONFIG_NOSYSTEM=1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r repo) write(name, body string) {
	r.t.Helper()
	p := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(body), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// serve starts git's own smart HTTP server over root, on loopback.
func serve(t *testing.T, root string) string {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no git on this host")
		}
		t.Skip("no git on this host")
	}
	srv := httptest.NewServer(&cgi.Handler{Path: git, Args: []string{"http-backend"}, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}})
	t.Cleanup(srv.Close)
	return srv.URL
}

// project makes a repository with two commits, a tag on the first, a branch with a slash, and all that archives leave out.
func project(t *testing.T) (root string, first, second string) {
	t.Helper()
	root = t.TempDir()
	r := repo{t, filepath.Join(root, "p.git")}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q", "-b", "main")
	r.git("config", "uploadpack.allowFilter", "true")
	r.write("pyproject.toml", "[project]\n")
	r.write(".gitattributes", "tests export-ignore\n*.sub export-subst\n")
	r.write("tests/t.py", "assert 1\n")
	r.write("v.sub", "$Format:%H$\n")
	r.write("sub/dir/x.txt", "x\n")
	r.write("run.sh", "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(r.dir, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("add", "-A")
	r.git("commit", "-qm", "first")
	r.git("tag", "-am", "v1", "v1.0")
	first = r.git("rev-parse", "HEAD")
	r.git("branch", "feature/one")
	r.write("later.txt", "later\n")
	r.git("add", "-A")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+first+",vendor/lib")
	r.git("commit", "-qm", "second")
	return root, first, r.git("rev-parse", "HEAD")
}

var overHTTP = GitOptions{AllowHTTP: true}

func TestGit(t *testing.T) {
	t.Parallel()
	root, first, second := project(t)
	url := serve(t, root) + "/p.git"
	old := []string{".gitattributes", "pyproject.toml", "run.sh", "sub/dir/x.txt", "tests/t.py", "v.sub"}
	all := slices.Sorted(slices.Values(append([]string{"later.txt"}, old...)))
	for _, tc := range []struct {
		name, ref, subdir, commit, describe string
		want                                []string
	}{
		{"default branch", "", "", second, "v1.0-1-g" + second[:7], all},
		{"branch", "main", "", second, "v1.0-1-g" + second[:7], all},
		{"branch with a slash", "feature/one", "", first, "v1.0-0-g" + first[:7], old},
		{"tag", "v1.0", "", first, "v1.0-0-g" + first[:7], old},
		{"full name", "refs/tags/v1.0", "", first, "v1.0-0-g" + first[:7], old},
		{"commit", first, "", first, "v1.0-0-g" + first[:7], old},
		{"short commit", first[:8], "", first, "v1.0-0-g" + first[:7], old},
		{"subdir", "", "sub/dir/", second, "", []string{"x.txt"}},
		{"spaces around", " main ", " ./sub ", second, "", []string{"dir/x.txt"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			sink := memory{}
			res, err := Git(t.Context(), local(t), enplace.GitSource{URL: " " + url + " ", Ref: tc.ref, Subdir: tc.subdir}, sink, overHTTP)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range res.Entries {
				got = append(got, e.Path)
				if e.Path == "v.sub" && string(sink[e.Digest]) != "$Format:%H$\n" {
					t.Errorf("export-subst was applied: %q", sink[e.Digest])
				}
				if e.Executable != (e.Path == "run.sh") {
					t.Errorf("%s: executable %v", e.Path, e.Executable)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if res.Report.Commit != tc.commit || res.Report.Describe != tc.describe || res.Report.Unwrapped != "" {
				t.Errorf("commit %s, describe %q, unwrapped %q", res.Report.Commit, res.Report.Describe, res.Report.Unwrapped)
			}
			if note := slices.ContainsFunc(res.Report.Notes, func(s string) bool { return strings.Contains(s, "`vendor/lib` is a submodule") }); note != (tc.commit == second && tc.subdir == "") {
				t.Errorf("notes %q", res.Report.Notes)
			}
		})
	}
}

func TestGitErrors(t *testing.T) {
	t.Parallel()
	root, first, _ := project(t)
	empty := filepath.Join(root, "empty.git")
	if out, err := exec.Command("git", "init", "-q", "--bare", empty).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	base := serve(t, root)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch strings.Split(r.URL.Path, "/")[1] {
		case "private":
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		case "page":
			_, _ = io.WriteString(w, "<html>")
		case "broken":
			w.WriteHeader(http.StatusBadGateway)
		case "file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(web.Close)
	for _, tc := range []struct {
		name string
		src  enplace.GitSource
		kind enplace.Kind
		say  string
	}{
		{"absent", enplace.GitSource{URL: base + "/none.git"}, enplace.KindInvalid, "not found, or is private"},
		{"private", enplace.GitSource{URL: web.URL + "/private/x.git"}, enplace.KindInvalid, "not found, or is private"},
		{"a page", enplace.GitSource{URL: web.URL + "/page/x.git"}, enplace.KindInvalid, "no git repository"},
		{"server error", enplace.GitSource{URL: web.URL + "/broken/x.git"}, enplace.KindUpstream, "could not be fetched"},
		{"redirect to a file", enplace.GitSource{URL: web.URL + "/file/x.git"}, enplace.KindUpstream, "could not be fetched"},
		{"nobody there", enplace.GitSource{URL: "http://127.0.0.1:1/x.git"}, enplace.KindUpstream, "could not be fetched"},
		{"no such host", enplace.GitSource{URL: "http://no-such-host.invalid/x.git"}, enplace.KindUpstream, "could not be fetched"},
		{"empty", enplace.GitSource{URL: base + "/empty.git"}, enplace.KindInvalid, "is empty"},
		{"unknown ref", enplace.GitSource{URL: base + "/p.git", Ref: "nope"}, enplace.KindInvalid, `"nope"`},
		{"unknown commit", enplace.GitSource{URL: base + "/p.git", Ref: strings.Repeat("0a", 20)}, enplace.KindInvalid, "no branch, tag or commit"},
		{"unknown folder", enplace.GitSource{URL: base + "/p.git", Subdir: "nope"}, enplace.KindInvalid, `no folder "nope"`},
		{"file as folder", enplace.GitSource{URL: base + "/p.git", Subdir: "run.sh"}, enplace.KindInvalid, "no folder"},
		{"submodule as folder", enplace.GitSource{URL: base + "/p.git", Subdir: "vendor/lib"}, enplace.KindInvalid, "no folder"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := Git(t.Context(), local(t), tc.src, memory{}, overHTTP)
			if enplace.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.say) {
				t.Errorf("got %v (%s)", err, enplace.KindOf(err))
			}
		})
	}
	small := defaultLimits
	small.fileBytes = 8
	if _, err := importGit(t.Context(), local(t), enplace.GitSource{URL: base + "/p.git", Ref: first}, memory{}, overHTTP, small); enplace.KindOf(err) != enplace.KindTooLarge || !strings.Contains(err.Error(), ".gitattributes") {
		t.Errorf("file over the limit: %v", err)
	}
}

// What the egress proxy says of a host is told apart from what the host says: under https git shows the status alone, under http
// the text as well.
func TestGitThroughEgress(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		url    string
		status int
		text   string
		kind   enplace.Kind
		say    string
	}{
		{"https://git.example.org/o/r", http.StatusForbidden, "enplace: git.example.org is refused", enplace.KindInvalid, "egress policy"},
		{"http://git.example.org/o/r", http.StatusForbidden, "enplace: git.example.org is at an address that is refused to every sandbox", enplace.KindInvalid, "egress policy"},
		{"http://git.example.org/o/r", http.StatusForbidden, "enplace: git.example.org is not on the egress allow-list (x)", enplace.KindInvalid, "egress policy"},
		{"http://git.example.org/o/r", http.StatusForbidden, "forbidden", enplace.KindInvalid, "is private"},
		{"https://git.example.org/o/r", http.StatusBadGateway, "enplace: could not resolve git.example.org", enplace.KindUpstream, "cannot reach"},
		{"http://git.example.org/o/r", http.StatusBadGateway, "enplace: could not resolve git.example.org", enplace.KindUpstream, "cannot reach"},
		{"http://git.example.org/o/r", http.StatusBadGateway, "bad gateway", enplace.KindUpstream, "could not be fetched"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			t.Parallel()
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, tc.text, tc.status) }))
			t.Cleanup(proxy.Close)
			run := local(t)
			through := func(ctx context.Context, argv, env []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
				return run(ctx, argv, append(env, "https_proxy="+proxy.URL, "http_proxy="+proxy.URL), stdin, stdout, stderr)
			}
			_, err := Git(t.Context(), through, enplace.GitSource{URL: tc.url}, memory{}, overHTTP)
			if enplace.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.say) || !strings.Contains(err.Error(), "git.example.org") {
				t.Errorf("got %v (%s)", err, enplace.KindOf(err))
			}
		})
	}
}

func TestGitDeadline(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := Git(ctx, local(t), enplace.GitSource{URL: slow.URL + "/x.git"}, memory{}, overHTTP)
	if enplace.KindOf(err) != enplace.KindUpstream || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
	<-asked
}

// Nothing of the repository's own is obeyed, and nothing a person writes is an option.
func TestGitArgv(t *testing.T) {
	t.Parallel()
	root, _, _ := project(t)
	run := local(t)
	var seen [][]string
	record := func(ctx context.Context, argv, env []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
		seen = append(seen, argv)
		for _, want := range []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false"} {
			if !slices.Contains(env, want) {
				t.Errorf("%v: without %s", argv, want)
			}
		}
		return run(ctx, argv, env, stdin, stdout, stderr)
	}
	url := serve(t, root) + "/p.git"
	if _, err := Git(t.Context(), record, enplace.GitSource{URL: url}, memory{}, overHTTP); err != nil {
		t.Fatal(err)
	}
	for _, argv := range seen {
		if i := slices.Index(argv, url); i >= 0 && !slices.Contains(argv[:i], "--") {
			t.Errorf("no -- before the URL: %q", argv)
		}
		if line := strings.Join(argv, " "); !strings.Contains(line, "-c protocol.allow=never") || !strings.Contains(line, "-c core.hooksPath=/dev/null") {
			t.Errorf("%q", argv)
		}
	}
}

func TestCheckGit(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"https://github.com/o/r", "https://github.com/o/r.git", " https://host.example:8443/a/b/c ", "https://[2001:db8::1]/x"} {
		if err := CheckGit(enplace.GitSource{URL: u, Ref: "feature/a.b-c_d", Subdir: "a/b"}, GitOptions{}); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
	for u, say := range map[string]string{
		"": "required", "   ": "required",
		"ext::sh -c 'touch /tmp/x'": "spaces",
		"ext::sh":                   "https", "--upload-pack=touch": "https", "-oProxyCommand=x": "https",
		"file:///etc/passwd": "https://", "/etc/passwd": "no scheme", "github.com/o/r": "no scheme",
		"http://github.com/o/r":              "plain http",
		"ssh://git@github.com/o/r":           "ssh",
		"git@github.com:o/r.git":             "ssh",
		"git://github.com/o/r":               "switched off",
		"https://user:SECRET@github.com/o/r": "no credentials",
		"https://token@github.com/o/r":       "no credentials",
		"https://github.com/o/r?token=x":     "?",
		"https://github.com/o/r#main":        "#",
		"https:///o/r":                       "host", "https://-x/o/r": "host", "https://a..b/o/r": "host", "https://a%20b/o/r": "URL",
		"https://github.com": "without a repository", "https://github.com/": "without a repository",
		"https://github.com/o/\nr": "control", "https:github.com/o/r": "URL",
		"https://" + strings.Repeat("a", 3000): "2048",
	} {
		err := CheckGit(enplace.GitSource{URL: u}, GitOptions{})
		if enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: got %v", u, err)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: the error repeats the secret", u)
		}
	}
	for _, sub := range []string{"../x", "/etc", "a/../b", "a//b", `a\b`, "a\x00b"} {
		if err := CheckGit(enplace.GitSource{URL: "https://h.example/o/r", Subdir: sub}, GitOptions{}); enplace.KindOf(err) != enplace.KindInvalid {
			t.Errorf("subdir %q: got %v", sub, err)
		}
	}
}

// What is taken for a ref is what git itself takes for one.
func TestRefsAsGitChecksThem(t *testing.T) {
	t.Parallel()
	serve(t, t.TempDir()) // skips without git
	for _, ref := range []string{
		"main", "feature/one", "v1.0", "a.b", "@a", "a@b", "release-1", "ünïcode", strings.Repeat("a", 100),
		"a..b", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[", `a\b`, "/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a.lock/b", "a.", "@", "a@{1}", "a\x7f", "a\tb",
	} {
		want := exec.Command("git", "check-ref-format", "--allow-onelevel", ref).Run() == nil
		if got := checkRef(ref) == nil; got != want {
			t.Errorf("%q: %v here, %v by git", ref, got, want)
		}
	}
	for _, ref := range []string{"-x", "--exec=touch", "--upload-pack=x"} {
		if checkRef(ref) == nil {
			t.Errorf("%q passes", ref)
		}
	}
}

func FuzzGitlinks(f *testing.F) {
	f.Add([]byte("160000 commit 0123\tvendor/lib\x00100644 blob 0123\ta\x00"), 7)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		whole, parts := &gitlinks{}, &gitlinks{}
		_, err := whole.Write(b)
		cut = max(0, min(cut, len(b)))
		_, err1 := parts.Write(b[:cut])
		var err2 error
		if err1 == nil {
			_, err2 = parts.Write(b[cut:])
		}
		if (err == nil) != (err1 == nil && err2 == nil) || err == nil && !slices.Equal(whole.paths, parts.paths) {
			t.Fatalf("in one piece %v %q, in two %v %v %q", err, whole.paths, err1, err2, parts.paths)
		}
	})
}

func TestCredentialsLeaveMessages(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	b.WriteString(withoutUserinfo("fatal: unable to access 'https://user:SECRET@host/x/': redirected to https://TOKEN@other/"))
	if s := b.String(); strings.Contains(s, "SECRET") || strings.Contains(s, "TOKEN") {
		t.Error(s)
	}
}
