package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"enplace"
	"enplace/internal/store"
)

func harnesses(t *testing.T, s store.Store) {
	ctx := t.Context()
	h := enplace.Harness{
		ID: "har_1", Name: "Writer", Owner: "ann", Environment: "henv_1", Command: []string{"agent", "--go"}, Instructions: "Be brief.",
		Egress: &enplace.Egress{Policy: enplace.EgressOpen}, Limits: enplace.Limits{MemoryMiB: 512, CPUs: 0.5}, CreatedAt: at(0),
	}
	check(t, s.CreateHarness(ctx, h))
	want(t, s.CreateHarness(ctx, h), store.ErrExists)
	h.CreatedAt = kept(h.CreatedAt)
	same(t, "the harness", must[enplace.Harness](t)(s.Harness(ctx, "har_1")), h)
	check(t, s.CreateHarness(ctx, enplace.Harness{ID: "har_2", Owner: "bob", CreatedAt: at(0)}))
	check(t, s.CreateHarness(ctx, enplace.Harness{ID: "har_3", Owner: "ann", CreatedAt: at(-60)}))
	id := func(h enplace.Harness) string { return h.ID }
	for owner, want := range map[string][]string{"": {"har_3", "har_2", "har_1"}, "ann": {"har_3", "har_1"}, "eve": {}} {
		listed(t, "of "+owner, want, id, func(p enplace.Page) (enplace.List[enplace.Harness], error) { return s.ListHarnesses(ctx, owner, p) })
	}
	check(t, s.DeleteHarness(ctx, "har_1"))
	want(t, s.DeleteHarness(ctx, "har_1"), store.ErrNotFound)
	_, err := s.Harness(ctx, "har_1")
	want(t, err, store.ErrNotFound)
}

func addTask(t *testing.T, s store.Store, r store.TaskRecord) store.TaskRecord {
	t.Helper()
	return must[store.TaskRecord](t)(s.CreateTask(t.Context(), r.Metadata.Environment, func(enplace.Version, error) (store.TaskRecord, error) { return r, nil }))
}

func tasks(t *testing.T, s store.Store) {
	ctx := t.Context()
	r := store.TaskRecord{
		Task: enplace.Task{
			ID: "task_1", Status: enplace.TaskQueued, Metadata: enplace.TaskMetadata{Harness: "har_1"}, Open: true, Owner: "ann",
			Limits: enplace.DefaultTaskLimits, CreatedAt: at(0),
		},
		Command: []string{"sh", "-c", "a && b\x00"}, Instructions: "<b>", Egress: enplace.Egress{Policy: enplace.EgressNone},
		Input: "bytes\x00and \xff not UTF-8", Slug: "one",
	}
	added := addTask(t, s, r)
	r.CreatedAt = kept(r.CreatedAt)
	same(t, "the answer", added, r)
	same(t, "the task", must[store.TaskRecord](t)(s.Task(ctx, "task_1")), r)
	list := must[enplace.List[store.TaskRecord]](t)(s.ListTasks(ctx, store.TaskFilter{}, enplace.Page{}))
	same(t, "the input in a list", list.Items[0].Input, "")
	_, err := s.CreateTask(ctx, "", func(enplace.Version, error) (store.TaskRecord, error) { return r, nil })
	want(t, err, store.ErrExists)
	_, err = s.Task(ctx, "task_2")
	want(t, err, store.ErrNotFound)

	r.ID, r.Input = "task_3", ""
	addTask(t, s, r)
	same(t, "a task without input", must[store.TaskRecord](t)(s.Task(ctx, "task_3")), r)
}

func tasksPin(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	record := func(id string, version *int) store.TaskRecord {
		return store.TaskRecord{Task: enplace.Task{ID: id, Status: enplace.TaskQueued, CreatedAt: at(5), Metadata: enplace.TaskMetadata{Environment: e.ID, EnvironmentVersion: version}}}
	}
	for _, id := range []string{"", "henv_none", e.ID} { // none, unknown, and one without a version
		_, err := s.CreateTask(ctx, id, func(v enplace.Version, err error) (store.TaskRecord, error) {
			want(t, err, store.ErrNotFound)
			same(t, "the version", v, enplace.Version{})
			return store.TaskRecord{}, err
		})
		want(t, err, store.ErrNotFound)
	}
	first := succeed(t, s, e.ID, "sha256:1", at(1))
	second := succeed(t, s, e.ID, "sha256:2", at(2))
	got, err := s.CreateTask(ctx, e.ID, func(v enplace.Version, err error) (store.TaskRecord, error) {
		check(t, err)
		same(t, "the version", v, second)
		r := record("task_1", &v.N)
		r.Manifest = &v.Manifest
		return r, nil
	})
	check(t, err)
	same(t, "the manifest", got.Manifest, &second.Manifest)
	same(t, "as stored", must[store.TaskRecord](t)(s.Task(ctx, "task_1")), got)

	refused := errors.New("refused by the rules")
	_, err = s.CreateTask(ctx, e.ID, func(enplace.Version, error) (store.TaskRecord, error) { return record("task_2", nil), refused })
	want(t, err, refused)
	_, err = s.Task(ctx, "task_2")
	want(t, err, store.ErrNotFound)

	// A version that was looked up before, and deleted meanwhile, cannot be pinned: nothing would keep its images.
	check(t, s.DeleteVersion(ctx, e.ID, first.N))
	_, err = s.CreateTask(ctx, e.ID, func(enplace.Version, error) (store.TaskRecord, error) { return record("task_3", &first.N), nil })
	want(t, err, store.ErrNotFound)
	check(t, s.DeleteEnvironment(ctx, e.ID))
	same(t, "a task of a deleted environment", must[store.TaskRecord](t)(s.Task(ctx, "task_1")), got)
}

func tasksFilter(t *testing.T, s store.Store) {
	ctx := t.Context()
	for i, x := range []struct {
		owner, harness, environment string
		status                      enplace.TaskStatus
		created                     int
		purged                      bool
	}{
		{"ann", "har_1", "henv_1", enplace.TaskSucceeded, 1, true},
		{"ann", "har_2", "henv_1", enplace.TaskFailed, 2, false},
		{"bob", "har_1", "henv_2", enplace.TaskQueued, 3, false},
		{"bob", "har_1", "henv_1", enplace.TaskQueued, -60, false},
		{"bob", "har_2", "henv_2", enplace.TaskRunning, 4, false},
	} {
		r := store.TaskRecord{Task: enplace.Task{
			ID: fmt.Sprint("task_", i), Owner: x.owner, Status: x.status, CreatedAt: at(x.created),
			Metadata: enplace.TaskMetadata{Harness: x.harness, Environment: x.environment},
		}, Purged: x.purged}
		if x.status.Ended() {
			r.EndedAt = ptr(at(x.created + 10))
		}
		addTask(t, s, r)
	}
	for _, x := range []struct {
		name   string
		filter store.TaskFilter
		want   []string
	}{
		{"all", store.TaskFilter{}, []string{"task_4", "task_3", "task_2", "task_1", "task_0"}},
		{"ann's", store.TaskFilter{Owner: "ann"}, []string{"task_1", "task_0"}},
		{"of a harness", store.TaskFilter{Harness: "har_2"}, []string{"task_4", "task_1"}},
		{"of an environment", store.TaskFilter{Environment: "henv_2"}, []string{"task_4", "task_2"}},
		{"of all three", store.TaskFilter{Owner: "bob", Harness: "har_1", Environment: "henv_1"}, []string{"task_3"}},
		{"running", store.TaskFilter{Status: enplace.TaskRunning}, []string{"task_4"}},
		{"queued, oldest first", store.TaskFilter{Status: enplace.TaskQueued}, []string{"task_2", "task_3"}},
		{"queued of an environment", store.TaskFilter{Status: enplace.TaskQueued, Environment: "henv_1"}, []string{"task_3"}},
		{"queued of a harness and nobody", store.TaskFilter{Status: enplace.TaskQueued, Harness: "har_1", Owner: "eve"}, []string{}},
		{"ended before one ended", store.TaskFilter{EndedBefore: at(12)}, []string{"task_0"}},
		{"ended before later", store.TaskFilter{EndedBefore: at(99)}, []string{"task_1", "task_0"}},
		{"ended and not purged", store.TaskFilter{EndedBefore: at(99), NotPurged: true}, []string{"task_1"}},
		{"queued and ended", store.TaskFilter{Status: enplace.TaskQueued, EndedBefore: at(99)}, []string{}},
	} {
		listed(t, x.name, x.want, func(r store.TaskRecord) string { return r.ID }, func(p enplace.Page) (enplace.List[store.TaskRecord], error) {
			return s.ListTasks(ctx, x.filter, p)
		})
	}
}

func tasksUpdate(t *testing.T, s store.Store) {
	ctx := t.Context()
	r := addTask(t, s, store.TaskRecord{Task: enplace.Task{ID: "task_1", Owner: "ann", Status: enplace.TaskQueued, CreatedAt: at(0)}, Input: "in"})
	refused := errors.New("refused by the rules")
	_, err := s.UpdateTask(ctx, "task_1", func(r *store.TaskRecord) error {
		r.Status = enplace.TaskFailed
		return refused
	})
	want(t, err, refused)
	same(t, "after a refusal", must[store.TaskRecord](t)(s.Task(ctx, "task_1")), r)

	got, err := s.UpdateTask(ctx, "task_1", func(r *store.TaskRecord) error {
		r.Status, r.StartedAt, r.EndedAt, r.ExitCode, r.StartMS = enplace.TaskSucceeded, ptr(at(1)), ptr(at(2)), ptr(0), 1.25
		r.Purged = true
		r.ID, r.CreatedAt, r.Input = "task_9", at(9), "changed"
		return nil
	})
	check(t, err)
	r.Status, r.StartedAt, r.EndedAt, r.ExitCode, r.StartMS = enplace.TaskSucceeded, ptr(kept(at(1))), ptr(kept(at(2))), ptr(0), 1.25
	r.Purged = true
	same(t, "the task, with its id, creation and input as they were", must[store.TaskRecord](t)(s.Task(ctx, "task_1")), r)
	r.Input = ""
	same(t, "the answer", got, r)
	_, err = s.UpdateTask(ctx, "task_2", func(*store.TaskRecord) error { return nil })
	want(t, err, store.ErrNotFound)

	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, err := s.UpdateTask(ctx, "task_1", func(r *store.TaskRecord) error {
				r.Command = append(r.Command, "x")
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	same(t, "after 16 edits at once", len(must[store.TaskRecord](t)(s.Task(ctx, "task_1")).Command), 16)
}
