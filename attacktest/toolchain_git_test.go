package attacktest

import (
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"enplace"
)

// gitAddress is a loopback address that sandboxes of the test's server may reach, and which none takes for its own.
const gitAddress = "127.0.0.7"

// slowRepositories has a person's repository answer nothing: it holds up no sync of a team's.
func slowRepositories(t *testing.T, l *lab) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	work := filepath.Join(root, "repository")
	commit := func(script string) {
		for name, text := range item("from-git", script, "") {
			path := filepath.Join(work, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "x"}} {
			if out, err := exec.Command(git, append([]string{"-C", work}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
		}
	}
	commit("echo one\n")
	backend := &cgi.Handler{Path: git, Args: []string{"http-backend"}, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	var silent atomic.Bool
	over := make(chan struct{})
	ln, err := net.Listen("tcp", gitAddress+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: ln, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, slow := strings.CutPrefix(r.URL.Path, "/slow")
		if slow && silent.Load() {
			<-over
			return
		}
		r.URL.Path = rest
		backend.ServeHTTP(w, r)
	})}}
	server.Start()
	defer server.Close()
	defer close(over)

	m := l.resident(t, "slow-mallory", "slow-team")
	team, err := l.Client.CreatePlugin(t.Context(), enplace.CreatePlugin{Scope: "team:slow-team", Name: "team", Source: enplace.PluginSource{GitURL: server.URL + "/repository/.git"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Client.PutChoice(t.Context(), m.scope(), "from-git", enplace.PutChoice{State: enplace.ChoiceOff}); err != nil { // or its key would be the team's
		t.Fatal(err)
	}
	if _, err := m.api.CreatePlugin(t.Context(), enplace.CreatePlugin{Scope: m.scope(), Name: "slow", Source: enplace.PluginSource{GitURL: server.URL + "/slow/repository/.git"}}); err != nil {
		t.Fatal(err)
	}
	silent.Store(true)
	commit("echo two\n")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		now, err := l.Client.Plugin(t.Context(), team.ID)
		if err != nil {
			t.Fatal(err)
		}
		if now.Commit != team.Commit {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a person's repository that answers nothing holds up a team's")
		}
	}
}
