package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/internal/store"
)

func buildsQueue(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	edit(t, s, e.ID, "a", "b")
	check(t, s.EditTree(ctx, e.ID, at(1), func(tr store.Tree) error { return tr.SetInfo(store.TreeInfo{Commit: "c0ffee"}) }))

	refused := errors.New("nothing to build")
	_, err := s.QueueBuild(ctx, e.ID, "ann", at(2), func(enplace.Environment, []enplace.TreeEntry, store.TreeInfo) (store.BuildSpec, error) {
		return store.BuildSpec{}, refused
	})
	want(t, err, refused)

	spec := store.BuildSpec{
		Snapshot: "sha256:tree", Slug: "one", Packages: enplace.Packages{Pip: []string{"six"}, NPM: []string{}, Apt: []string{}},
		PythonVersion: "3.12", PipIndexURL: "https://x.example", Check: []string{"true"}, Scripts: ptr(false),
		Egress: &enplace.Egress{Policy: enplace.EgressNone}, Tree: store.TreeInfo{Commit: "c0ffee"},
	}
	b, err := s.QueueBuild(ctx, e.ID, "ann", at(2), func(got enplace.Environment, entries []enplace.TreeEntry, info store.TreeInfo) (store.BuildSpec, error) {
		same(t, "the environment's name", got.Name, e.Name)
		same(t, "its files", got.Files, 2)
		same(t, "the tree", entries, []enplace.TreeEntry{file("a", "a"), file("b", "b")})
		same(t, "info", info.Commit, "c0ffee")
		return spec, nil
	})
	check(t, err)
	queued := enplace.Build{Environment: e.ID, N: 1, Status: enplace.BuildQueued, Steps: []enplace.BuildStep{}, CreatedBy: "ann", CreatedAt: kept(at(2))}
	same(t, "the build (the refused one took no number)", b, queued)
	same(t, "its record", must[store.BuildRecord](t)(s.Build(ctx, e.ID, 1)), store.BuildRecord{Build: queued, Spec: spec})

	again, err := s.QueueBuild(ctx, e.ID, "bob", at(3), specOf)
	want(t, err, store.ErrConflict)
	same(t, "the build in the way", again, queued)
	rec, _, err := s.ClaimBuild(ctx, "worker", at(4), time.Minute)
	check(t, err)
	again, err = s.QueueBuild(ctx, e.ID, "bob", at(5), specOf)
	want(t, err, store.ErrConflict)
	same(t, "the build in the way, running", again, rec.Build)
	_, _, err = finish(t, s, rec, "sha256:one", at(6))
	check(t, err)
	same(t, "the next number", queue(t, s, e.ID, at(7)).N, 2)

	listed(t, "builds", []string{"2", "1"}, func(b enplace.Build) string { return fmt.Sprint(b.N) }, func(p enplace.Page) (enplace.List[enplace.Build], error) {
		return s.ListBuilds(ctx, e.ID, p)
	})
	_, err = s.QueueBuild(ctx, "henv_none", "ann", at(8), specOf)
	want(t, err, store.ErrNotFound)
	_, err = s.Build(ctx, e.ID, 3)
	want(t, err, store.ErrNotFound)
}

func buildsQueueConcurrent(t *testing.T, s store.Store) {
	e := env(t, s, "one")
	var mu sync.Mutex
	queued, conflicts := 0, 0
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			b, err := s.QueueBuild(t.Context(), e.ID, "ann", at(1), specOf)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case b.N != 1:
				t.Errorf("build %d: %v", b.N, err)
			case err == nil:
				queued++
			case errors.Is(err, store.ErrConflict):
				conflicts++
			}
		})
	}
	wg.Wait()
	if queued != 1 || conflicts != 15 {
		t.Errorf("%d were queued and %d met another", queued, conflicts)
	}
}

func buildsClaim(t *testing.T, s store.Store) {
	ctx := t.Context()
	if _, ok, err := s.ClaimBuild(ctx, "worker", at(0), time.Minute); ok || err != nil {
		t.Errorf("a claim without builds: %v, %v", ok, err)
	}
	// In the order in which they were queued, whatever that of the environments, and whatever dates say.
	young, old := env(t, s, "young"), env(t, s, "old")
	queue(t, s, old.ID, at(2))
	queue(t, s, young.ID, at(1))
	for i, id := range []string{old.ID, young.ID} {
		rec, ok, err := s.ClaimBuild(ctx, "worker", at(3), time.Minute)
		check(t, err)
		if !ok || rec.Environment != id || rec.Status != enplace.BuildRunning || rec.StartedAt == nil || !rec.StartedAt.Equal(kept(at(3))) {
			t.Errorf("claim %d gave %v %+v", i, ok, rec.Build)
		}
		same(t, "the claim and the record", must[store.BuildRecord](t)(s.Build(ctx, id, 1)), rec)
	}
	if _, ok, err := s.ClaimBuild(ctx, "worker", at(3), time.Minute); ok || err != nil {
		t.Errorf("a third claim: %v, %v", ok, err)
	}
}

func buildsClaimConcurrent(t *testing.T, s store.Store) {
	const builds = 24
	for i := range builds {
		queue(t, s, env(t, s, fmt.Sprint("e", i)).ID, at(i))
	}
	var mu sync.Mutex
	claimed := map[string]int{}
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for {
				rec, ok, err := s.ClaimBuild(t.Context(), fmt.Sprint("worker-", w), at(100), time.Hour)
				if err != nil {
					t.Error(err)
				}
				if !ok {
					return
				}
				mu.Lock()
				claimed[rec.Environment]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(claimed) != builds {
		t.Errorf("%d of %d builds were claimed", len(claimed), builds)
	}
	for id, n := range claimed {
		if n != 1 {
			t.Errorf("the build of %s was claimed %d times", id, n)
		}
	}
}

func buildsLease(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	queue(t, s, e.ID, at(0))
	claim := func(worker string, minute int) bool {
		t.Helper()
		rec, ok, err := s.ClaimBuild(ctx, worker, at(minute), 10*time.Minute)
		check(t, err)
		if ok && !rec.StartedAt.Equal(kept(at(1))) {
			t.Errorf("a second claim moved the start to %v", rec.StartedAt)
		}
		return ok
	}
	same(t, "the first claim", claim("a", 1), true)
	same(t, "a claim within the lease", claim("b", 10), false)
	same(t, "cancel", must[bool](t)(s.RenewBuild(ctx, e.ID, 1, "a", at(30))), false)
	same(t, "a claim within the renewed lease", claim("b", 29), false)
	_, err := s.RenewBuild(ctx, e.ID, 1, "b", at(99))
	want(t, err, store.ErrConflict)

	same(t, "a claim once the lease ended", claim("b", 30), true)
	_, err = s.RenewBuild(ctx, e.ID, 1, "a", at(99))
	want(t, err, store.ErrConflict)
	must[enplace.Build](t)(s.RequestCancel(ctx, e.ID, 1, at(31)))
	same(t, "cancel, once asked for", must[bool](t)(s.RenewBuild(ctx, e.ID, 1, "b", at(50))), true)

	rec := must[store.BuildRecord](t)(s.Build(ctx, e.ID, 1))
	_, _, err = finish(t, s, rec, "sha256:one", at(32))
	check(t, err)
	_, err = s.RenewBuild(ctx, e.ID, 1, "b", at(99))
	want(t, err, store.ErrConflict)
	same(t, "a claim of an ended build", claim("c", 500), false)
	_, err = s.RenewBuild(ctx, "henv_none", 1, "b", at(99))
	want(t, err, store.ErrConflict)
}

func buildsUpdate(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	queue(t, s, e.ID, at(0))
	rec, _, err := s.ClaimBuild(ctx, "worker", at(1), time.Hour)
	check(t, err)
	steps := []enplace.BuildStep{{Name: "snapshot", Status: enplace.StepSucceeded, ElapsedMS: 5, Cached: true}, {Name: "apt", Status: enplace.StepRunning}}
	expected := rec.Build
	expected.Step, expected.Steps, expected.ElapsedMS, expected.Warnings = "apt", steps, 12, []string{"slow"}
	got, err := s.UpdateBuild(ctx, e.ID, 1, func(b *enplace.Build) {
		b.Step, b.Steps, b.ElapsedMS, b.Warnings = "apt", steps, 12, []string{"slow"}
		b.Status, b.N, b.CreatedBy = enplace.BuildFailed, 9, "eve" // an update neither ends a build nor makes it another's
	})
	check(t, err)
	same(t, "the answer", got, expected)
	same(t, "the record", must[store.BuildRecord](t)(s.Build(ctx, e.ID, 1)).Build, expected)

	_, err = s.UpdateBuild(ctx, e.ID, 2, func(*enplace.Build) {})
	want(t, err, store.ErrNotFound)
	_, _, err = finish(t, s, rec, "sha256:one", at(2))
	check(t, err)
	_, err = s.UpdateBuild(ctx, e.ID, 1, func(b *enplace.Build) { b.Step = "late" })
	want(t, err, store.ErrConflict)
}

func buildsCancel(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	queue(t, s, e.ID, at(0))
	b := must[enplace.Build](t)(s.RequestCancel(ctx, e.ID, 1, at(1)))
	if b.Status != enplace.BuildCancelled || b.EndedAt == nil || !b.EndedAt.Equal(kept(at(1))) || b.Error == nil || b.Error.Reason != enplace.ReasonCancelled {
		t.Errorf("a queued build is, once cancelled, %+v", b)
	}
	if _, ok, err := s.ClaimBuild(ctx, "worker", at(2), time.Hour); ok || err != nil {
		t.Errorf("a cancelled build was claimed: %v", err)
	}
	_, err := s.RequestCancel(ctx, e.ID, 1, at(2))
	want(t, err, store.ErrConflict)

	queue(t, s, e.ID, at(3))
	_, _, err = s.ClaimBuild(ctx, "worker", at(4), time.Hour)
	check(t, err)
	for range 2 { // asking twice is asking once
		b = must[enplace.Build](t)(s.RequestCancel(ctx, e.ID, 2, at(5)))
		if b.Status != enplace.BuildRunning || b.EndedAt != nil {
			t.Errorf("a running build is, once its cancel was asked for, %+v", b)
		}
	}
	same(t, "the mark", must[store.BuildRecord](t)(s.Build(ctx, e.ID, 2)).CancelRequested, true)
	_, err = s.RequestCancel(ctx, e.ID, 9, at(5))
	want(t, err, store.ErrNotFound)
}

func buildsFinish(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	queue(t, s, e.ID, at(0))
	rec, _, err := s.ClaimBuild(ctx, "worker", at(1), time.Hour)
	check(t, err)

	end := rec.Build
	if _, _, err := s.FinishBuild(ctx, e.ID, 1, end, nil); err == nil {
		t.Error("a build ended as running")
	}
	end.Status, end.EndedAt, end.ElapsedMS = enplace.BuildFailed, ptr(at(2)), 60_000
	end.Error = &enplace.Failure{Reason: enplace.ReasonExit, Message: "pip failed", Step: "python", Fixes: []string{"pin it"}}
	b, activated, err := s.FinishBuild(ctx, e.ID, 1, end, nil)
	check(t, err)
	end.EndedAt = ptr(kept(at(2)))
	same(t, "a failed build", b, end)
	same(t, "its record", must[store.BuildRecord](t)(s.Build(ctx, e.ID, 1)).Build, end)
	if activated || must[enplace.Environment](t)(s.Environment(ctx, e.ID)).ActiveVersion != nil {
		t.Error("a failed build changed the active version")
	}
	_, _, err = finish(t, s, rec, "sha256:late", at(3))
	want(t, err, store.ErrConflict)
	_, err = s.Version(ctx, e.ID, 1)
	want(t, err, store.ErrNotFound)

	v := succeed(t, s, e.ID, "sha256:one", at(4))
	if v.N != 1 || v.Build != 2 || !v.Active || !v.CreatedAt.Equal(kept(at(4))) || v.Environment != e.ID {
		t.Errorf("the version is %+v", v)
	}
	rec = must[store.BuildRecord](t)(s.Build(ctx, e.ID, 2))
	if rec.Version == nil || *rec.Version != 1 || rec.Status != enplace.BuildSucceeded {
		t.Errorf("the build is %+v", rec.Build)
	}
	same(t, "the active version", *must[enplace.Environment](t)(s.Environment(ctx, e.ID)).ActiveVersion, 1)
	_, _, err = s.FinishBuild(ctx, e.ID, 9, end, nil)
	want(t, err, store.ErrNotFound)
}

// buildsFinishSwap: someone who activated another version while a build ran is not overruled by its end.
func buildsFinishSwap(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	succeed(t, s, e.ID, "sha256:one", at(1))
	succeed(t, s, e.ID, "sha256:two", at(2))
	queue(t, s, e.ID, at(3))
	rec, _, err := s.ClaimBuild(ctx, "worker", at(4), time.Hour)
	check(t, err)
	check(t, s.ActivateVersion(ctx, e.ID, 1, nil, at(5)))
	b, activated, err := finish(t, s, rec, "sha256:three", at(6))
	check(t, err)
	if activated || b.Version == nil || *b.Version != 3 {
		t.Errorf("activated is %v, and the build %+v", activated, b)
	}
	same(t, "the active version", *must[enplace.Environment](t)(s.Environment(ctx, e.ID)).ActiveVersion, 1)
	same(t, "the new one", must[enplace.Version](t)(s.Version(ctx, e.ID, 3)).Active, false)
}

func buildsInterrupt(t *testing.T, s store.Store) {
	ctx := t.Context()
	running, queued := env(t, s, "running"), env(t, s, "queued")
	queue(t, s, running.ID, at(0))
	_, _, err := s.ClaimBuild(ctx, "worker", at(1), time.Hour)
	check(t, err)
	must[enplace.Build](t)(s.UpdateBuild(ctx, running.ID, 1, func(b *enplace.Build) {
		b.Step = "npm"
		b.Steps = []enplace.BuildStep{{Name: "apt", Status: enplace.StepSucceeded}, {Name: "npm", Status: enplace.StepRunning}, {Name: "seal", Status: enplace.StepPending}}
	}))
	queue(t, s, queued.ID, at(2))

	ended := must[[]enplace.Build](t)(s.InterruptBuilds(ctx, at(3)))
	if len(ended) != 1 {
		t.Fatalf("%d builds were interrupted", len(ended))
	}
	b := ended[0]
	if b.Environment != running.ID || b.Status != enplace.BuildInterrupted || b.EndedAt == nil || !b.EndedAt.Equal(kept(at(3))) ||
		b.Error == nil || b.Error.Reason != enplace.ReasonInterrupted || b.Error.Step != "npm" || b.Steps[1].Status != enplace.StepFailed {
		t.Errorf("an interrupted build is %+v", b)
	}
	same(t, "its record", must[store.BuildRecord](t)(s.Build(ctx, running.ID, 1)).Build, b)
	same(t, "the queued one", must[store.BuildRecord](t)(s.Build(ctx, queued.ID, 1)).Status, enplace.BuildQueued)
	same(t, "a second time", len(must[[]enplace.Build](t)(s.InterruptBuilds(ctx, at(4)))), 0)
	queue(t, s, running.ID, at(5))
}
