package toolchain_test

import (
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"enplace"
	"enplace/internal/toolchain/toolchaintest"
)

func testGit(h house) {
	ctx, s := h.t.Context(), h.Toolchain
	git, err := exec.LookPath("git")
	check(h.t, err)
	root := h.t.TempDir()
	work := filepath.Join(root, "work")
	run := func(args ...string) {
		h.t.Helper()
		cmd := exec.Command(git, append([]string{"-C", work, "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			h.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(script string) {
		h.t.Helper()
		for name, content := range toolchaintest.Item("from-git", script, "") {
			check(h.t, os.MkdirAll(filepath.Join(work, "plugin/environments", filepath.Dir(name)), 0o755))
			check(h.t, os.WriteFile(filepath.Join(work, "plugin/environments", name), []byte(content), 0o600))
		}
	}
	write("echo one\n")
	run("init", "-q")
	run("add", ".")
	run("commit", "-qm", "one")
	l, err := net.Listen("tcp", toolchaintest.Address)
	check(h.t, err)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: &cgi.Handler{Path: git, Args: []string{"http-backend"}, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}}}
	server.Start()
	defer server.Close()

	with := h.Direct("g-ann")
	in := enplace.CreatePlugin{Scope: "person:g-ann", Name: "git", Source: enplace.PluginSource{GitURL: server.URL + "/work/.git", Path: "plugin"}}
	p, err := s.CreatePlugin(ctx, toolchaintest.Person("g-ann"), in)
	check(h.t, err)
	if p.Commit == "" || !slices.Equal(p.Items, []string{"from-git"}) {
		h.t.Fatalf("%+v", p)
	}
	before := h.set(with).Hash
	write("echo two\n")
	run("commit", "-qam", "two")
	next, err := s.SyncPlugin(ctx, toolchaintest.Person("g-ann"), p.ID, nil)
	check(h.t, err)
	if next.Commit == p.Commit || h.set(with).Hash == before {
		h.t.Errorf("after a sync: %+v", next)
	}
	if _, err := s.SyncPlugin(ctx, operator, p.ID, item("x").Archive()); enplace.KindOf(err) != enplace.KindInvalid {
		h.t.Errorf("an archive for a plugin of a repository: %v", err)
	}
	testSources(h, server.URL+"/work/.git", work)
	// A source that cannot be read changes nothing but what is said of it.
	server.Close()
	if _, err := s.SyncPlugin(ctx, operator, p.ID, nil); err == nil {
		h.t.Error("a repository that is gone was synced")
	}
	got, err := s.Plugin(ctx, operator, p.ID)
	check(h.t, err)
	if got.Error == nil || got.Commit != next.Commit || !slices.Equal(got.Items, p.Items) {
		h.t.Errorf("%+v", got)
	}
}
