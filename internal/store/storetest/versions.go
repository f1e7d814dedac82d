package storetest

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"enplace"
	"enplace/internal/store"
)

func versions(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	for i := range 3 {
		succeed(t, s, e.ID, fmt.Sprint("sha256:", i), at(i+1))
	}
	list := func(p enplace.Page) (enplace.List[enplace.VersionSummary], error) {
		return s.ListVersions(ctx, e.ID, p)
	}
	name := func(v enplace.VersionSummary) string { return fmt.Sprint(v.N, v.Active) }
	listed(t, "versions", []string{"3 true", "2 false", "1 false"}, name, list)
	v := must[enplace.Version](t)(s.Version(ctx, e.ID, 2))
	if v.Manifest.Images[0].Digest != "sha256:1" || v.Manifest.Packages[0].Name != "six" || v.Digest != "sha256:of-sha256:1" || v.Bytes != 7 {
		t.Errorf("version 2 is %+v", v)
	}

	want(t, s.DeleteVersion(ctx, e.ID, 3), store.ErrConflict)
	check(t, s.ActivateVersion(ctx, e.ID, 1, nil, at(9)))
	check(t, s.DeleteVersion(ctx, e.ID, 3))
	want(t, s.DeleteVersion(ctx, e.ID, 3), store.ErrNotFound)
	_, err := s.Version(ctx, e.ID, 3)
	want(t, err, store.ErrNotFound)
	same(t, "the number after a deleted one", succeed(t, s, e.ID, "sha256:4", at(10)).N, 4)
	listed(t, "versions", []string{"4 true", "2 false", "1 false"}, name, list)
}

func versionsActivate(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	want(t, s.ActivateVersion(ctx, e.ID, 1, nil, at(1)), store.ErrNotFound)
	succeed(t, s, e.ID, "sha256:one", at(1))
	succeed(t, s, e.ID, "sha256:two", at(2))
	active := func() int { return *must[enplace.Environment](t)(s.Environment(ctx, e.ID)).ActiveVersion }

	want(t, s.ActivateVersion(ctx, e.ID, 1, ptr(1), at(3)), store.ErrConflict)
	want(t, s.ActivateVersion(ctx, e.ID, 1, ptr(0), at(3)), store.ErrConflict)
	same(t, "after two that expected another", active(), 2)
	check(t, s.ActivateVersion(ctx, e.ID, 1, ptr(2), at(3)))
	same(t, "after one that expected it", active(), 1)
	check(t, s.ActivateVersion(ctx, e.ID, 1, nil, at(4)))
	got := must[enplace.Environment](t)(s.Environment(ctx, e.ID))
	if !got.UpdatedAt.Equal(kept(at(4))) {
		t.Errorf("updated at %v", got.UpdatedAt)
	}
	want(t, s.ActivateVersion(ctx, e.ID, 3, nil, at(5)), store.ErrNotFound)

	// Of many that expect the same, one wins.
	var mu sync.Mutex
	won := 0
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if s.ActivateVersion(ctx, e.ID, 2, ptr(1), at(6)) == nil {
				mu.Lock()
				won++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	same(t, "winners", won, 1)
}

func imageDigests(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	first := succeed(t, s, e.ID, "sha256:1", at(1))
	succeed(t, s, e.ID, "sha256:2", at(2))
	check(t, s.PutStep(ctx, "apt", store.StepResult{Image: "sha256:apt"}, at(2)))
	check(t, s.PutStep(ctx, "check", store.StepResult{Data: json.RawMessage(`{}`)}, at(2)))
	task := store.TaskRecord{Task: enplace.Task{ID: "task_1", Status: enplace.TaskRunning, CreatedAt: at(3)}, Manifest: &first.Manifest}
	addTask(t, s, task)
	check(t, s.DeleteVersion(ctx, e.ID, 1))
	same(t, "images, with those of a task whose version was deleted", digests(t, s.ImageDigests),
		[]enplace.Digest{"sha256:1", "sha256:2", "sha256:apt", "sha256:base"})

	must[store.TaskRecord](t)(s.UpdateTask(ctx, "task_1", func(r *store.TaskRecord) error {
		r.Status, r.EndedAt = enplace.TaskSucceeded, ptr(at(4))
		return nil
	}))
	check(t, s.DeleteEnvironment(ctx, e.ID))
	same(t, "images of what is left", digests(t, s.ImageDigests), []enplace.Digest{"sha256:apt"})
}

func steps(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.CachedStep(ctx, "k", at(0))
	want(t, err, store.ErrNotFound)
	r := store.StepResult{Image: "sha256:1", Bytes: 1 << 40, Data: json.RawMessage(`{"packages": ["é\u0000<>"]}`)}
	check(t, s.PutStep(ctx, "k", r, at(1)))
	same(t, "the result", must[store.StepResult](t)(s.CachedStep(ctx, "k", at(1))), r)
	check(t, s.PutStep(ctx, "empty", store.StepResult{}, at(1)))
	same(t, "an empty result", must[store.StepResult](t)(s.CachedStep(ctx, "empty", at(1))), store.StepResult{})
	r.Image = "sha256:2"
	check(t, s.PutStep(ctx, "k", r, at(2)))
	same(t, "the newer result", must[store.StepResult](t)(s.CachedStep(ctx, "k", at(9))), r)
	same(t, "pruned", must[int](t)(s.PruneSteps(ctx, at(9))), 1) // used at 9: not before
	must[store.StepResult](t)(s.CachedStep(ctx, "k", at(9)))
	same(t, "pruned", must[int](t)(s.PruneSteps(ctx, at(10))), 1)
	_, err = s.CachedStep(ctx, "k", at(11))
	want(t, err, store.ErrNotFound)
}
