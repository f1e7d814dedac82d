// Package realtest builds real projects through a real server: archives that the registries serve, pinned by version and
// hash, and small ones for what people have run into. It is apart from the packages it proves because it proves them
// together: it knows the server by its API only.
package realtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/enplacetest"
)

// suite is the one server that the tests share: each of them has environments of its own. It takes the part of the test that
// a server is started for.
type suite struct {
	testing.TB
	once     sync.Once
	server   *enplacetest.Server
	harness  string // open, without network
	open     string // open, with network
	cleanups []func()
	skipped  string
	failed   string
}

var shared suite

func TestMain(m *testing.M) {
	code := m.Run()
	for i := len(shared.cleanups) - 1; i >= 0; i-- {
		shared.cleanups[i]()
	}
	if shared.failed != "" && code == 0 {
		fmt.Fprintln(os.Stderr, shared.failed)
		code = 1
	}
	os.Exit(code)
}

func (s *suite) Helper()                           {}
func (s *suite) Name() string                      { return "realtest" }
func (s *suite) Cleanup(f func())                  { s.cleanups = append(s.cleanups, f) }
func (s *suite) Failed() bool                      { return s.failed != "" }
func (s *suite) Logf(format string, args ...any)   { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (s *suite) Log(args ...any)                   { fmt.Fprintln(os.Stderr, args...) }
func (s *suite) Errorf(format string, args ...any) { s.failed += fmt.Sprintf(format, args...) + "\n" }
func (s *suite) Error(args ...any)                 { s.failed += fmt.Sprintln(args...) }
func (s *suite) Fatalf(format string, args ...any) { s.Errorf(format, args...); runtime.Goexit() }
func (s *suite) Fatal(args ...any)                 { s.Error(args...); runtime.Goexit() }
func (s *suite) Skip(args ...any)                  { s.skipped = fmt.Sprint(args...); runtime.Goexit() }

// registryAddress is where the tests' own registries listen. It is no address that a sandbox takes for its own loopback
// without asking its proxy, which has to let it through.
const registryAddress = "127.0.0.2"

func (s *suite) start() {
	done := make(chan struct{})
	go func() { // of its own, which Fatal may end
		defer close(done)
		s.server = enplacetest.Start(s, "--allow-address="+registryAddress)
		ctx := context.Background()
		for name, egress := range map[*string]enplace.EgressPolicy{&s.harness: enplace.EgressNone, &s.open: enplace.EgressOpen} {
			h, err := s.server.Client.CreateHarness(ctx, enplace.CreateHarness{Name: string(egress), Egress: &enplace.Egress{Policy: egress}})
			if err != nil {
				s.Fatal(err)
			}
			*name = h.ID
		}
	}()
	<-done
}

// start gives the server that the tests share.
func start(t *testing.T) *enplacetest.Server {
	t.Helper()
	shared.once.Do(shared.start)
	if shared.skipped != "" {
		t.Skip(shared.skipped)
	}
	if shared.failed != "" {
		t.Fatal(shared.failed)
	}
	return shared.server
}

// env is an environment of one test.
type env struct {
	*testing.T
	srv *enplacetest.Server
	enplace.Environment
}

// newEnv makes an environment with files; their names may begin with a folder. It goes with the test, to leave its space to
// others.
func newEnv(t *testing.T, in enplace.CreateEnvironment, files map[string]string) *env {
	t.Helper()
	return newEnvOn(t, start(t), in, files)
}

func newEnvOn(t *testing.T, srv *enplacetest.Server, in enplace.CreateEnvironment, files map[string]string) *env {
	t.Helper()
	if in.Name == "" {
		in.Name = t.Name()
	}
	e, err := srv.Client.CreateEnvironment(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	v := &env{T: t, srv: srv, Environment: e}
	t.Cleanup(func() {
		if err := srv.Client.DeleteEnvironment(context.Background(), v.ID); err != nil {
			t.Error(err)
		}
	})
	for path, content := range files {
		v.put(path, content)
	}
	return v
}

// put writes a file of the tree; one that begins with #! can be executed.
func (e *env) put(path, content string) {
	e.Helper()
	if _, _, err := e.srv.Client.PutFile(e.Context(), e.ID, path, strings.NewReader(content), strings.HasPrefix(content, "#!")); err != nil {
		e.Fatal(err)
	}
}

// start queues a build.
func (e *env) start() enplace.Build {
	e.Helper()
	b, err := e.srv.Client.StartBuild(e.Context(), e.ID)
	if err != nil {
		e.Fatal(err)
	}
	return b
}

// end waits for a build to end and gives it with its log.
func (e *env) end(n int) (enplace.Build, string) {
	e.Helper()
	b, err := e.srv.Client.WaitBuild(e.Context(), e.ID, n)
	if err != nil {
		e.Fatal(err)
	}
	r, err := e.srv.Client.BuildLog(e.Context(), e.ID, n)
	if err != nil {
		e.Fatal(err)
	}
	defer r.Close()
	log, err := io.ReadAll(r)
	if err != nil {
		e.Fatal(err)
	}
	return b, string(log)
}

// build builds, and fails the test when that fails.
func (e *env) build() (enplace.Build, string) {
	e.Helper()
	b, log := e.end(e.start().N)
	if b.Status != enplace.BuildSucceeded {
		e.Fatalf("build %d: %+v\n%s", b.N, b.Error, log)
	}
	return b, log
}

// fail builds, and gives why that failed.
func (e *env) fail() (*enplace.Failure, string) {
	e.Helper()
	b, log := e.end(e.start().N)
	if b.Error == nil {
		e.Fatalf("build %d: %s, and should have failed\n%s", b.N, b.Status, log)
	}
	return b.Error, log
}

// manifest gives what the version of a build is made of.
func (e *env) manifest(b enplace.Build) enplace.Manifest {
	e.Helper()
	v, err := e.srv.Client.Version(e.Context(), e.ID, *b.Version)
	if err != nil {
		e.Fatal(err)
	}
	return v.Manifest
}

// task starts an open task on the active version and gives its id.
func (e *env) task() string {
	e.Helper()
	return e.taskOf(shared.harness)
}

func (e *env) taskOf(harness string) string {
	e.Helper()
	t, err := e.srv.Client.CreateTask(e.Context(), enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: harness, Environment: e.ID}})
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _, _ = e.srv.Client.CancelTask(context.Background(), t.ID) }) // it may have ended
	return t.ID
}

// try runs a script in a task and gives its exit status and what it printed, stdout and stderr.
func (e *env) try(task, script string) (int, string) {
	e.Helper()
	var out bytes.Buffer
	res, err := e.srv.Client.ExecStream(e.Context(), task, enplace.ExecRequest{Command: []string{"bash", "-c", script}, Timeout: 120}, func(ev enplace.ExecEvent) error {
		out.WriteString(ev.Data)
		return nil
	})
	if err != nil {
		e.Fatal(err)
	}
	return res.ExitCode, strings.TrimSpace(out.String())
}

// run runs a script that must succeed.
func (e *env) run(task, script string) string {
	e.Helper()
	code, out := e.try(task, script)
	if code != 0 {
		e.Fatalf("status %d of: %s\n%s", code, script, out)
	}
	return out
}

// want fails the test unless the text has all the parts.
func want(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in:\n%s", p, text)
		}
	}
}

// within fails the test when what it times took longer: for what would otherwise hang, with much room.
func within(t testing.TB, limit time.Duration, do func()) {
	t.Helper()
	start := time.Now()
	do()
	if took := time.Since(start); took > limit {
		t.Errorf("took %s, more than %s", took, limit)
	}
}
