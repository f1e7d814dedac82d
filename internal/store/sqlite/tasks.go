package sqlite

import (
	"context"
	"errors"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

func taskRecord(row string) (r store.TaskRecord, err error) {
	return r, decode(row, &r)
}

// stored gives a task's times as the store keeps them.
func stored(r store.TaskRecord) store.TaskRecord {
	r.CreatedAt, r.StartedAt, r.EndedAt = kept(r.CreatedAt), keptPtr(r.StartedAt), keptPtr(r.EndedAt)
	return r
}

// CreateTask adds the task that pin makes of the active version.
func (s *Store) CreateTask(ctx context.Context, env string, pin func(enplace.Version, error) (store.TaskRecord, error)) (store.TaskRecord, error) {
	var out store.TaskRecord
	err := s.change(ctx, func(q *db.Queries) error {
		v, err := activeVersion(ctx, q, env)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		r, err := pin(v, err)
		if err != nil {
			return err
		}
		if err := pinned(ctx, q, r); err != nil {
			return err
		}
		out = stored(r)
		row, err := encode(out)
		if err != nil {
			return err
		}
		err = q.InsertTask(ctx, db.InsertTaskParams{
			ID: r.ID, Owner: r.Owner, Harness: r.Metadata.Harness, Environment: r.Metadata.Environment,
			Status: string(r.Status), CreatedAt: micros(r.CreatedAt), EndedAt: microsPtr(r.EndedAt), Purged: r.Purged, Record: row,
		})
		if err != nil {
			return err
		}
		return q.InsertInput(ctx, db.InsertInputParams{Task: r.ID, Input: []byte(r.Input)})
	})
	return out, err
}

func activeVersion(ctx context.Context, q *db.Queries, env string) (enplace.Version, error) {
	r, err := q.ActiveVersion(ctx, env)
	if err != nil {
		return enplace.Version{}, translate(err)
	}
	return version(r, &r.N)
}

// pinned gives ErrNotFound when the version that a new task names was deleted meanwhile: nothing would keep its images.
func pinned(ctx context.Context, q *db.Queries, r store.TaskRecord) error {
	if r.Metadata.EnvironmentVersion == nil {
		return nil
	}
	_, err := q.GetVersion(ctx, db.GetVersionParams{Environment: r.Metadata.Environment, N: int64(*r.Metadata.EnvironmentVersion)})
	return err
}

// Task gives a task with its input.
func (s *Store) Task(ctx context.Context, id string) (rec store.TaskRecord, err error) {
	err = s.view(ctx, func(q *db.Queries) error {
		row, err := q.GetTask(ctx, id)
		if err != nil {
			return err
		}
		input, err := q.GetInput(ctx, id)
		if err != nil {
			return err
		}
		rec, err = taskRecord(row)
		rec.Input = string(input)
		return err
	})
	return rec, err
}

// ListTasks gives the tasks that a filter lets through, without their input.
func (s *Store) ListTasks(ctx context.Context, f store.TaskFilter, p enplace.Page) (list enplace.List[store.TaskRecord], err error) {
	// Queued tasks come oldest first, in the order they are to run; EndedBefore and NotPurged cannot narrow them but to nothing.
	oldest := f.Status == enplace.TaskQueued && f.EndedBefore.IsZero()
	from, err := newest(p)
	if oldest && p.Cursor == "" {
		from = ""
	}
	if err != nil {
		return list, err
	}
	var rows []string
	if oldest {
		rows, err = s.read.ListQueuedTasks(ctx, db.ListQueuedTasksParams{
			After: from, Owner: f.Owner, Harness: f.Harness, Environment: f.Environment, Count: fetch(p),
		})
	} else {
		var ended *int64
		if !f.EndedBefore.IsZero() {
			ended = microsPtr(&f.EndedBefore)
		}
		rows, err = s.read.ListTasks(ctx, db.ListTasksParams{
			Before: from, Owner: f.Owner, Harness: f.Harness, Environment: f.Environment, Status: string(f.Status),
			EndedBefore: ended, NotPurged: f.NotPurged, Count: fetch(p),
		})
	}
	items, err := convert(rows, err, taskRecord)
	if err != nil {
		return list, err
	}
	return store.PageOf(items, p, func(r store.TaskRecord) string { return store.Cursor(r.ID) }), nil
}

// UpdateTask reads, lets change edit, and writes back all but the id, the creation time and the input.
func (s *Store) UpdateTask(ctx context.Context, id string, change func(*store.TaskRecord) error) (store.TaskRecord, error) {
	var out store.TaskRecord
	err := s.change(ctx, func(q *db.Queries) error {
		row, err := q.GetTask(ctx, id)
		if err != nil {
			return err
		}
		r, err := taskRecord(row)
		if err != nil {
			return err
		}
		created := r.CreatedAt
		if err := change(&r); err != nil {
			return err
		}
		r.ID, r.CreatedAt, r.Input = id, created, ""
		out = stored(r)
		if row, err = encode(out); err != nil {
			return err
		}
		return q.UpdateTask(ctx, db.UpdateTaskParams{
			ID: id, Owner: r.Owner, Harness: r.Metadata.Harness, Environment: r.Metadata.Environment,
			Status: string(r.Status), EndedAt: microsPtr(r.EndedAt), Purged: r.Purged, Record: row,
		})
	})
	return out, err
}
