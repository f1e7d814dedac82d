package faulttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/enplacetest"
)

// ledger is what one worker was told of its environment. It has one operation under way at a time, so after a kill the server
// must show the ledger as it stands, or as the operation under way would have left it.
type ledger struct {
	t    *testing.T
	name string
	rnd  *rand.Rand

	env      string
	files    map[string]enplace.Digest
	maybe    map[string]enplace.Digest // the tree, had the operation under way been done; nil for none
	active   int
	maybeAct int // likewise the active version
	versions map[int]string
	ended    map[int]enplace.BuildStatus // builds whose end was acknowledged
	started  []int                       // builds whose start was
	harness  string
	tasks    map[string]enplace.TaskStatus // "" while the end was not acknowledged
	slug     string
	declared []string // the check of builds
	maybeChk []string // likewise; nil for none
	deleting bool
	dropping int // the version that is being deleted
	made     int // operations that were acknowledged
}

// step does one random operation and enters what was acknowledged. An error is the kill: the entry stays open.
func (l *ledger) step(ctx context.Context, srv *enplacetest.Server) error {
	if l.env == "" {
		return l.create(ctx, srv)
	}
	switch n := l.rnd.IntN(20); {
	case n < 7:
		return l.put(ctx, srv)
	case n < 9:
		return l.importTar(ctx, srv)
	case n < 13:
		return l.build(ctx, srv)
	case n < 14 && len(l.versions) > 0:
		return l.activate(ctx, srv)
	case n < 19 && len(l.versions) > 0:
		return l.task(ctx, srv)
	case n == 19:
		return l.remove(ctx, srv)
	}
	return nil
}

func (l *ledger) create(ctx context.Context, srv *enplacetest.Server) error {
	l.made++
	e, err := srv.Client.CreateEnvironment(ctx, enplace.CreateEnvironment{Name: fmt.Sprintf("%s %d", l.name, l.made)})
	if err != nil {
		return err
	}
	*l = ledger{t: l.t, name: l.name, rnd: l.rnd, made: l.made, env: e.ID, slug: e.Slug, files: map[string]enplace.Digest{}, versions: map[int]string{},
		ended: map[int]enplace.BuildStatus{}, tasks: map[string]enplace.TaskStatus{}}
	h, err := srv.Client.CreateHarness(ctx, enplace.CreateHarness{Name: "sh", Environment: e.ID, Command: []string{"sh", "-s"}})
	l.harness = h.ID
	return err
}

func (l *ledger) put(ctx context.Context, srv *enplacetest.Server) error {
	path, content := fmt.Sprintf("d/f%d", l.rnd.IntN(5)), fmt.Appendf(nil, "%d", l.rnd.Uint64())
	l.maybe = maps.Clone(l.files)
	l.maybe[path] = enplace.DigestOf(content)
	if _, _, err := srv.Client.PutFile(ctx, l.env, path, bytes.NewReader(content), false); err != nil {
		return err
	}
	return l.treeDone()
}

func (l *ledger) treeDone() error {
	l.files, l.maybe = l.maybe, nil
	l.made++
	return nil
}

func (l *ledger) importTar(ctx context.Context, srv *enplacetest.Server) error {
	files := map[string]string{"top": ""} // one at the top, so that the folder d is not taken off
	for i := range 20 {
		files[fmt.Sprintf("d/f%d", i)] = fmt.Sprint(l.rnd.Uint64())
	}
	l.maybe = map[string]enplace.Digest{}
	for path, content := range files {
		l.maybe[path] = enplace.DigestOf([]byte(content))
	}
	if _, err := srv.Client.Import(ctx, l.env, tarOf(files), false); err != nil {
		return err
	}
	return l.treeDone()
}

func (l *ledger) build(ctx context.Context, srv *enplacetest.Server) error {
	b, err := srv.Client.StartBuild(ctx, l.env)
	if enplace.KindOf(err) == enplace.KindConflict { // one that was queued when the server was killed goes on
		return l.settle(ctx, srv)
	}
	if err != nil {
		return err
	}
	l.started = append(l.started, b.N)
	if b, err = srv.Client.WaitBuild(ctx, l.env, b.N); err != nil {
		return err
	}
	return l.buildEnded(ctx, srv, b)
}

func (l *ledger) buildEnded(ctx context.Context, srv *enplacetest.Server, b enplace.Build) error {
	if b.Version == nil {
		l.ended[b.N] = b.Status
		return nil
	}
	v, err := srv.Client.Version(ctx, l.env, *b.Version)
	if err != nil {
		return err
	}
	l.ended[b.N] = b.Status // with its version, or not at all: the kill may come between
	l.versions[*b.Version], l.active = v.Digest, *b.Version
	l.made++
	return nil
}

func (l *ledger) activate(ctx context.Context, srv *enplacetest.Server) error {
	all := slices.Sorted(maps.Keys(l.versions))
	n := all[l.rnd.IntN(len(all))]
	l.maybeAct = n
	if _, err := srv.Client.Activate(ctx, l.env, n); err != nil {
		return err
	}
	l.active, l.maybeAct = n, 0
	l.made++
	return nil
}

func (l *ledger) declare(ctx context.Context, srv *enplacetest.Server) error {
	l.maybeChk = []string{"test", "-f", enplace.EnvironmentPath(l.slug) + "/top", "-a", fmt.Sprint(l.made), "-gt", "0"}
	if _, err := srv.Client.UpdateEnvironment(ctx, l.env, enplace.UpdateEnvironment{Check: &l.maybeChk}); err != nil {
		return err
	}
	l.declared, l.maybeChk = l.maybeChk, nil
	l.made++
	return nil
}

// drop deletes the newest version that is not active.
func (l *ledger) drop(ctx context.Context, srv *enplacetest.Server) error {
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(l.versions))) {
		if n == l.active {
			continue
		}
		l.dropping = n
		if err := srv.Client.DeleteVersion(ctx, l.env, n); err != nil {
			return err
		}
		delete(l.versions, n)
		l.dropping = 0
		l.made++
		return nil
	}
	return nil
}

func (l *ledger) task(ctx context.Context, srv *enplacetest.Server) error {
	t, err := srv.Client.CreateTask(ctx, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: l.harness}, Input: "echo done > out; ls $PROJECT_ROOT; sleep 0.$((RANDOM % 3))"})
	if err != nil {
		return err
	}
	l.tasks[t.ID] = ""
	if t, err = srv.Client.WaitTask(ctx, t.ID); err != nil {
		return err
	}
	if t.Status != enplace.TaskSucceeded {
		l.t.Errorf("a task that nobody disturbed: %s %+v", t.Status, t.Error)
	}
	l.tasks[t.ID] = t.Status
	l.made++
	return nil
}

func (l *ledger) remove(ctx context.Context, srv *enplacetest.Server) error {
	l.deleting = true
	if err := srv.Client.DeleteEnvironment(ctx, l.env); err != nil {
		return err
	}
	l.env, l.deleting = "", false
	l.made++
	return nil
}

// check compares the server after a restart with the ledger, and settles the entry that was open.
func (l *ledger) check(ctx context.Context, srv *enplacetest.Server) {
	l.checkTasks(ctx, srv)
	if l.env == "" {
		return
	}
	_, err := srv.Client.Environment(ctx, l.env)
	if enplace.KindOf(err) == enplace.KindNotFound && l.deleting {
		l.env, l.deleting = "", false
		return
	}
	if err != nil {
		l.t.Errorf("%s: an acknowledged environment: %v", l.env, err)
		return
	}
	l.deleting = false
	l.checkTree(ctx, srv)
	if err := l.settle(ctx, srv); err != nil {
		l.t.Errorf("%s: settling builds: %v", l.env, err)
	}
	e, err := srv.Client.Environment(ctx, l.env)
	if err != nil {
		l.t.Error(err)
		return
	}
	l.checkVersions(e)
	if l.harness == "" { // the kill fell between environment and harness
		l.env = ""
	}
}

func (l *ledger) checkTree(ctx context.Context, srv *enplacetest.Server) {
	tree, err := srv.Client.ListFiles(ctx, l.env, "", enplace.Page{})
	if err != nil {
		l.t.Errorf("%s: listing: %v", l.env, err)
		return
	}
	got := map[string]enplace.Digest{}
	for _, f := range tree.Items {
		got[f.Path] = f.Digest
		r, err := srv.Client.OpenFile(ctx, l.env, f.Path)
		if err != nil {
			l.t.Errorf("%s: %s: %v", l.env, f.Path, err)
			continue
		}
		content, err := io.ReadAll(r)
		r.Close()
		if err != nil || enplace.DigestOf(content) != f.Digest {
			l.t.Errorf("%s: %s has other bytes than its digest says (%v)", l.env, f.Path, err)
		}
	}
	switch {
	case maps.Equal(got, l.files):
	case l.maybe != nil && maps.Equal(got, l.maybe):
		l.files = l.maybe
	default:
		l.t.Errorf("%s: the tree is %v; acknowledged was %v, under way %v", l.env, got, l.files, l.maybe)
		l.files = got
	}
	l.maybe = nil
}

// settle waits for the builds to end, and holds those whose end was acknowledged to it.
func (l *ledger) settle(ctx context.Context, srv *enplacetest.Server) error {
	builds, err := srv.Client.ListBuilds(ctx, l.env, enplace.Page{Limit: enplace.MaxPageSize})
	if err != nil {
		return err
	}
	seen := map[int]bool{}
	for _, b := range slices.Backward(builds.Items) {
		seen[b.N] = true
		if want, ok := l.ended[b.N]; ok {
			if b.Status != want {
				l.t.Errorf("%s: build %d ended as %s, and is %s now", l.env, b.N, want, b.Status)
			}
			continue
		}
		if b, err = srv.Client.WaitBuild(ctx, l.env, b.N); err != nil {
			return err
		}
		if b.Status != enplace.BuildSucceeded && b.Status != enplace.BuildInterrupted {
			l.t.Errorf("%s: build %d is %s (%+v); cut off by a kill it is interrupted", l.env, b.N, b.Status, b.Error)
		}
		if err := l.buildEnded(ctx, srv, b); err != nil {
			return err
		}
	}
	for _, n := range l.started {
		if !seen[n] {
			l.t.Errorf("%s: build %d was acknowledged and is not there", l.env, n)
		}
	}
	return nil
}

func (l *ledger) checkVersions(e enplace.Environment) {
	got := map[int]string{}
	for _, v := range e.Versions {
		got[v.N] = v.Digest
	}
	if _, still := got[l.dropping]; !still {
		delete(l.versions, l.dropping)
	}
	l.dropping = 0
	if !slices.Equal(e.Check, l.declared) && (l.maybeChk == nil || !slices.Equal(e.Check, l.maybeChk)) {
		l.t.Errorf("%s: the check is %q; acknowledged was %q, under way %q", l.env, e.Check, l.declared, l.maybeChk)
	}
	l.declared, l.maybeChk = e.Check, nil
	if !maps.Equal(got, l.versions) {
		l.t.Errorf("%s: versions %v; acknowledged %v", l.env, got, l.versions)
	}
	active := 0
	if e.ActiveVersion != nil {
		active = *e.ActiveVersion
	}
	if active != l.active && active != l.maybeAct {
		l.t.Errorf("%s: version %d is active; acknowledged %d, under way %d", l.env, active, l.active, l.maybeAct)
	}
	l.active, l.maybeAct = active, 0
}

// checkTasks holds tasks to the end that was acknowledged; one that was cut off is interrupted, or has ended by itself.
func (l *ledger) checkTasks(ctx context.Context, srv *enplacetest.Server) {
	for id, want := range l.tasks {
		t, err := srv.Client.WaitTask(ctx, id)
		switch {
		case err != nil:
			l.t.Errorf("%s: an acknowledged task: %v", id, err)
			continue
		case want != "" && t.Status != want:
			l.t.Errorf("%s ended as %s, and is %s now", id, want, t.Status)
		case want == "" && t.Status == enplace.TaskFailed && t.Error.Reason != enplace.ReasonInterrupted:
			l.t.Errorf("%s was cut off and says %+v", id, t.Error)
		}
		if t.Status == enplace.TaskSucceeded {
			l.checkOutput(ctx, srv, id)
		}
		delete(l.tasks, id) // checked once: a long run makes thousands
	}
}

func (l *ledger) checkOutput(ctx context.Context, srv *enplacetest.Server, id string) {
	r, err := srv.Client.OpenTaskFile(ctx, id, "out")
	if err != nil {
		l.t.Errorf("%s succeeded, and what it left is gone: %v", id, err)
		return
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || strings.TrimSpace(string(b)) != "done" {
		l.t.Errorf("%s left %q (%v)", id, b, err)
	}
}

// work does operations until the server is gone.
func (l *ledger) work(ctx context.Context, srv *enplacetest.Server) {
	for ctx.Err() == nil {
		if err := l.step(ctx, srv); err != nil {
			if k := enplace.KindOf(err); k != enplace.KindUnavailable && k != enplace.KindInternal && ctx.Err() == nil {
				l.t.Errorf("%s: %v (%s)", l.env, err, k)
			}
			return
		}
		time.Sleep(time.Millisecond)
	}
}
