package faulttest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/enplacetest"
)

// pointsVar asks for more than a few points: so many of each kind, or "all".
// ENPLACE_KILL_POINTS=5 go test ./faulttest -run KillPoints -timeout 4h -v
const pointsVar = "ENPLACE_KILL_POINTS"

// fewPoints is how many points are tried unless pointsVar says, each of another class of calls.
const fewPoints = 4

// chosen gives points out of those that were seen, by class and what the call was about.
func chosen(t *testing.T, kinds map[string][]point) (all []point) {
	t.Helper()
	s := os.Getenv(pointsVar)
	if s == "" {
		classes := map[string][]point{}
		for _, points := range kinds {
			classes[points[0].Class] = append(classes[points[0].Class], points...)
		}
		for _, points := range classes { // in no order
			all = append(all, points[rand.IntN(len(points))]) //nolint:gosec // any will do
		}
		return all[:min(len(all), fewPoints)]
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		points := kinds[kind]
		each := len(points)
		if s != "all" {
			each = min(each, number(t, pointsVar, 0))
		}
		for i := range each {
			from, to := len(points)*i/each, len(points)*(i+1)/each
			all = append(all, points[from+rand.IntN(to-from)]) //nolint:gosec // likewise
		}
	}
	return all
}

// TestKillPoints kills the server at system calls of one sequence that does all there is, and of a start that settles what a
// killed server left.
func TestKillPoints(t *testing.T) {
	for name, try := range map[string]func(*sweep, point) traced{"Work": (*sweep).work, "Start": (*sweep).start} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func(began time.Time) { t.Logf("in %s", time.Since(began).Round(time.Second)) }(time.Now())
			s := &sweep{t: t, srv: enplacetest.Start(t, "--collect-every", "250ms", "--step-retention", "1ms")}
			counted := try(s, point{})
			points := chosen(t, counted.Kinds)
			seen := 0
			for _, p := range counted.Kinds {
				seen += len(p)
			}
			t.Logf("%d calls of %d kinds; %d of them chosen", seen, len(counted.Kinds), len(points))
			killed := 0
			for _, at := range points {
				seen := try(s, at)
				if seen.Killed != "" {
					killed++
				}
				if t.Failed() {
					t.Fatalf("killed on entry to %s", seen.Killed)
				}
				if os.Getenv(pointsVar) != "" {
					t.Logf("killed on entry to %s", seen.Killed)
				}
			}
			t.Logf("%d kills; %d points were not reached", killed, len(points)-killed)
			s.srv.Stop()
			nothingLeft(t, s.srv.Data)
		})
	}
}

// sweep kills one server again and again.
type sweep struct {
	t    *testing.T
	srv  *enplacetest.Server
	runs int
	left remains
}

// remains are what a killed server left.
type remains struct {
	sandboxes []string
	processes []process
	when      time.Time // no later than this it wrote its last
}

// work kills at a point of the sequence.
func (s *sweep) work(at point) traced {
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	s.runs++
	kept, gone := newLedger(s.t, fmt.Sprintf("Kept %d", s.runs)), newLedger(s.t, fmt.Sprintf("Gone %d", s.runs))
	tr := startTracer(s.t, serverPID(s.t, s.srv.Data), at)
	err := sequence(ctx, s.srv, kept, gone)
	seen := s.kill(tr)
	if err != nil && (seen.Killed == "" || !unanswered(err)) {
		s.t.Errorf("before %s: %v (%s)", at, err, enplace.KindOf(err))
	}
	s.srv.Restart()
	s.settled(ctx)
	for _, l := range []*ledger{kept, gone} {
		l.check(ctx, s.srv)
		if l.env != "" {
			if err := l.use(ctx, s.srv); err != nil {
				s.t.Errorf("new work on %s: %v", l.name, err)
			}
			if err := l.remove(ctx, s.srv); err != nil {
				s.t.Errorf("deleting %s: %v", l.name, err)
			}
		}
	}
	return seen
}

func newLedger(t *testing.T, name string) *ledger {
	return &ledger{t: t, name: name, rnd: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // the same each time
}

// unanswered reports whether an error is what a client sees of a server that was killed.
func unanswered(err error) bool {
	k := enplace.KindOf(err)
	return k == enplace.KindUnavailable || k == enplace.KindInternal
}

// sequence does all there is with two environments, of which one is deleted and collected.
func sequence(ctx context.Context, srv *enplacetest.Server, kept, gone *ledger) error {
	steps := []func(context.Context, *enplacetest.Server) error{
		kept.create, kept.importTar, kept.put, kept.declare, kept.build, kept.task, kept.put, kept.build, kept.activate, kept.drop,
		gone.create, gone.put, gone.build, gone.remove, func(ctx context.Context, srv *enplacetest.Server) error { return collected(ctx, srv, kept) }, kept.task,
	}
	for _, do := range steps {
		if err := do(ctx, srv); err != nil {
			return err
		}
	}
	return nil
}

// use builds what is there and runs a task in it.
func (l *ledger) use(ctx context.Context, srv *enplacetest.Server) error {
	if len(l.versions) == 0 {
		if err := l.importTar(ctx, srv); err != nil {
			return err
		}
		if err := l.build(ctx, srv); err != nil {
			return err
		}
	}
	return l.task(ctx, srv)
}

// collected returns once a collection has removed every image that nothing names. It makes all of them look old, since
// collections spare what is new.
func collected(ctx context.Context, srv *enplacetest.Server, kept *ledger) error {
	named := map[string]bool{}
	for n := range kept.versions {
		v, err := srv.Client.Version(ctx, kept.env, n)
		if err != nil {
			return err
		}
		named[enplace.Digest(v.Manifest.Base).Hex()] = true
		for _, i := range v.Manifest.Images {
			named[enplace.Digest(i.Digest).Hex()] = true
		}
	}
	for {
		left, err := filepath.Glob(filepath.Join(srv.Data, "images", "sha256", "*"))
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(path string) bool { return named[filepath.Base(path)] })
		if len(left) == 0 {
			return nil
		}
		old := time.Now().Add(-2 * time.Hour)
		for _, path := range left {
			_ = os.Chtimes(path, old, old) // it may be gone
		}
		if err := srv.Client.Ready(ctx); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // it collects by itself, and tells nobody
	}
}

// kill ends the server, where the tracer has not, and notes what it leaves.
func (s *sweep) kill(tr *tracer) traced {
	s.srv.Kill()
	s.note()
	return tr.end(s.t)
}

func (s *sweep) note() {
	s.t.Helper()
	folders, err := filepath.Glob(filepath.Join(s.srv.Data, "sandboxes", "sandboxes", "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.left = remains{processes: processes(s.t, s.srv.Data), when: time.Now()}
	for _, f := range folders {
		s.left.sandboxes = append(s.left.sandboxes, filepath.Base(f))
	}
}

// start kills a server that settles what one left that was killed while it worked.
func (s *sweep) start(at point) traced {
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	s.runs++
	l := newLedger(s.t, fmt.Sprintf("Started %d", s.runs))
	task, err := busy(ctx, s.srv, l)
	if err != nil {
		s.t.Fatal(err)
	}
	s.srv.Kill()
	s.note()

	if err := os.RemoveAll(filepath.Join(s.srv.Data, "sandboxes", "templates")); err != nil { // to be made again
		s.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(s.srv.Bin, "enplace"), "serve", "--data", s.srv.Data, "--listen", "127.0.0.1:0")
	ready := &seen{text: "msg=ready", yes: make(chan struct{})}
	var log bytes.Buffer
	cmd.Stderr = tee{ready, &log}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	tr := startTracer(s.t, cmd.Process.Pid, at)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ready.yes:
		_ = cmd.Process.Kill()
		<-ended
	case <-ended:
	}
	was := tr.end(s.t)
	s.left.when = time.Now()
	if was.Killed == "" && !strings.Contains(log.String(), "msg=ready") {
		s.t.Errorf("the server ended by itself:\n%s", &log)
	}
	s.srv.Restart()
	s.settled(ctx)
	l.check(ctx, s.srv)
	if n := len(l.ended); l.ended[n] != enplace.BuildInterrupted {
		s.t.Errorf("the build that ran is %s", l.ended[n])
	}
	if got, err := s.srv.Client.Task(ctx, task, 0); err != nil || got.Error == nil || got.Error.Reason != enplace.ReasonInterrupted {
		s.t.Errorf("the task that ran: %+v, %v", got, err)
	}
	if note, err := readAll(s.srv.Client.OpenTaskFile(ctx, task, "note")); err != nil || note != "kept\n" {
		s.t.Errorf("what it left: %q, %v", note, err)
	}
	if err := l.use(ctx, s.srv); err != nil {
		s.t.Errorf("new work: %v", err)
	}
	if err := l.remove(ctx, s.srv); err != nil {
		s.t.Error(err)
	}
	return was
}

// tee writes to both. Neither fails.
type tee struct {
	a, b interface{ Write([]byte) (int, error) }
}

func (w tee) Write(p []byte) (int, error) {
	_, _ = w.a.Write(p)
	return w.b.Write(p)
}

// busy leaves the server in the middle of a build and of a task that has written a file.
func busy(ctx context.Context, srv *enplacetest.Server, l *ledger) (task string, err error) {
	for _, do := range []func(context.Context, *enplacetest.Server) error{l.create, l.importTar, l.build} {
		if err := do(ctx, srv); err != nil {
			return "", err
		}
	}
	h, err := srv.Client.CreateHarness(ctx, enplace.CreateHarness{Name: "open", Environment: l.env})
	if err != nil {
		return "", err
	}
	open, err := srv.Client.CreateTask(ctx, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: h.ID}})
	if err != nil {
		return "", err
	}
	if _, err := srv.Client.Exec(ctx, open.ID, enplace.ExecRequest{Command: []string{"sh", "-c", "echo kept > note; sleep 600 & sync"}}); err != nil {
		return "", err
	}
	l.declared = []string{"sleep", "600"}
	if _, err := srv.Client.UpdateEnvironment(ctx, l.env, enplace.UpdateEnvironment{Check: &l.declared}); err != nil {
		return "", err
	}
	b, err := srv.Client.StartBuild(ctx, l.env)
	if err != nil {
		return "", err
	}
	l.started = append(l.started, b.N)
	return open.ID, l.logged(ctx, srv, b.N, "$ sleep 600")
}

// logged returns once the log of a build has a text.
func (l *ledger) logged(ctx context.Context, srv *enplacetest.Server, n int, text string) error {
	log := &seen{text: text, yes: make(chan struct{})}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { _, _ = srv.Client.FollowBuildLog(ctx, l.env, n, log) }() // until the text is seen
	select {
	case <-log.yes:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settled proves that nothing of a killed server is left beside the one that was started since. What the new one has is its
// own: a sandbox's name is never given twice.
func (s *sweep) settled(ctx context.Context) {
	s.t.Helper()
	for _, status := range []enplace.TaskStatus{enplace.TaskRunning, enplace.TaskQueued} {
		tasks, err := s.srv.Client.ListTasks(ctx, enplace.TaskQuery{Status: status}, enplace.Page{})
		if err != nil {
			s.t.Error(err)
		}
		for _, task := range tasks.Items { // queued ones run
			if _, err := s.srv.Client.WaitTask(ctx, task.ID); err != nil {
				s.t.Error(err)
			}
		}
	}
	gone(s.t, s.left.processes)
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", serverPID(s.t, s.srv.Data)))
	if err != nil {
		s.t.Error(err)
	}
	backing := loops(s.t)
	for _, name := range s.left.sandboxes {
		for _, pattern := range []string{filepath.Join(s.srv.Data, "sandboxes", "*", name), "/sys/fs/cgroup/enplace/" + name, "/sys/fs/cgroup/*/enplace/" + name} {
			if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
				s.t.Errorf("%v is left, %v", left, err)
			}
		}
		if strings.Contains(string(mounts), name) {
			s.t.Errorf("a mount of %s is left in\n%s", name, mounts)
		}
		for _, file := range backing {
			if strings.Contains(file, name) {
				s.t.Errorf("a loop device is left: %s", file)
			}
		}
	}
	s.unfinished()
}

// unfinished proves that no file is left that the killed server was writing. The new one writes as well: builds that were queued go
// on at once.
func (s *sweep) unfinished() {
	s.t.Helper()
	err := filepath.WalkDir(s.srv.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // what the server removes just now
		}
		if info, err := d.Info(); err != nil || info.ModTime().After(s.left.when) {
			return nil
		}
		below, _ := filepath.Rel(s.srv.Data, path)
		switch folder := filepath.Dir(below); {
		case strings.HasPrefix(d.Name(), ".new-"), strings.HasSuffix(d.Name(), ".new"), strings.HasSuffix(d.Name(), ".folders"), folder == "scratch", folder == "blobs/tmp", folder == "images/tmp":
			s.t.Errorf("%s was never finished, and is left", below)
		case d.IsDir() && strings.HasPrefix(below, "sandboxes/sandboxes/"):
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
}
