package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

// progress are the fields of a build that nothing filters by.
type progress struct {
	Step      string              `json:"step"`
	Steps     []enplace.BuildStep `json:"steps"`
	ElapsedMS int64               `json:"elapsed_ms"`
	Error     *enplace.Failure    `json:"error,omitempty"`
	Version   *int                `json:"version,omitempty"`
	Warnings  []string            `json:"warnings,omitempty"`
}

func encodeProgress(b enplace.Build) (string, error) {
	return encode(progress{Step: b.Step, Steps: b.Steps, ElapsedMS: b.ElapsedMS, Error: b.Error, Version: b.Version, Warnings: b.Warnings})
}

func build(r db.Build) (enplace.Build, error) {
	var p progress
	err := decode(r.Progress, &p)
	return enplace.Build{
		Environment: r.Environment, N: int(r.N), Status: enplace.BuildStatus(r.Status),
		Step: p.Step, Steps: p.Steps, ElapsedMS: p.ElapsedMS, Error: p.Error, Version: p.Version, Warnings: p.Warnings,
		CreatedBy: r.CreatedBy, CreatedAt: fromMicros(r.CreatedAt), StartedAt: fromMicrosPtr(r.StartedAt), EndedAt: fromMicrosPtr(r.EndedAt),
	}, err
}

func buildRecord(r db.Build) (store.BuildRecord, error) {
	b, err := build(r)
	rec := store.BuildRecord{Build: b, CancelRequested: r.Cancel}
	return rec, errors.Join(err, decode(r.Spec, &rec.Spec))
}

// QueueBuild numbers and queues a build.
func (s *Store) QueueBuild(ctx context.Context, id, by string, now time.Time,
	spec func(enplace.Environment, []enplace.TreeEntry, store.TreeInfo) (store.BuildSpec, error),
) (b enplace.Build, err error) {
	err = s.change(ctx, func(q *db.Queries) error {
		r, err := q.GetEnvironment(ctx, id)
		if err != nil {
			return err
		}
		switch other, err := q.UnfinishedBuild(ctx, id); {
		case err == nil:
			if b, err = build(other); err != nil {
				return err
			}
			return store.ErrConflict
		case !errors.Is(translate(err), store.ErrNotFound):
			return err
		}
		asked, err := specOf(ctx, q, r, spec)
		if err != nil {
			return err
		}
		n, err := q.NextBuild(ctx, id)
		if err != nil {
			return err
		}
		err = insertBuild(ctx, q, enplace.Build{Environment: id, N: int(n), Steps: []enplace.BuildStep{}, CreatedBy: by, CreatedAt: now}, asked)
		if err != nil {
			return err
		}
		row, err := q.GetBuild(ctx, db.GetBuildParams{Environment: id, N: n})
		if err != nil {
			return err
		}
		b, err = build(row)
		return err
	})
	return b, err
}

func specOf(ctx context.Context, q *db.Queries, r db.Environment,
	spec func(enplace.Environment, []enplace.TreeEntry, store.TreeInfo) (store.BuildSpec, error),
) (store.BuildSpec, error) {
	var info store.TreeInfo
	e, err := environment(r)
	if err = errors.Join(err, decode(r.TreeInfo, &info)); err != nil {
		return store.BuildSpec{}, err
	}
	rows, err := q.ListTree(ctx, db.ListTreeParams{Environment: r.ID, Count: math.MaxInt32})
	entries, err := convert(rows, err, entry)
	if err != nil {
		return store.BuildSpec{}, err
	}
	return spec(e, entries, info)
}

func insertBuild(ctx context.Context, q *db.Queries, b enplace.Build, spec store.BuildSpec) error {
	p, err := encodeProgress(b)
	sp, err2 := encode(spec)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	return q.InsertBuild(ctx, db.InsertBuildParams{
		Environment: b.Environment, N: int64(b.N), CreatedBy: b.CreatedBy, CreatedAt: micros(b.CreatedAt),
		Snapshot: string(spec.Snapshot), Progress: p, Spec: sp,
	})
}

// ClaimBuild takes the oldest queued build, or one whose lease ended.
func (s *Store) ClaimBuild(ctx context.Context, worker string, now time.Time, lease time.Duration) (store.BuildRecord, bool, error) {
	r, err := s.write.ClaimBuild(ctx, db.ClaimBuildParams{Worker: worker, Now: microsPtr(&now), Until: micros(now.Add(lease))})
	if err = translate(err); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return store.BuildRecord{}, false, err
	}
	rec, err := buildRecord(r)
	return rec, err == nil, err
}

// RenewBuild extends a lease.
func (s *Store) RenewBuild(ctx context.Context, id string, n int, worker string, until time.Time) (cancel bool, err error) {
	cancel, err = s.write.RenewBuild(ctx, db.RenewBuildParams{Environment: id, N: int64(n), Worker: worker, Until: micros(until)})
	if err = translate(err); errors.Is(err, store.ErrNotFound) {
		err = store.ErrConflict
	}
	return cancel, err
}

// Build gives a build.
func (s *Store) Build(ctx context.Context, id string, n int) (store.BuildRecord, error) {
	r, err := s.read.GetBuild(ctx, db.GetBuildParams{Environment: id, N: int64(n)})
	if err != nil {
		return store.BuildRecord{}, translate(err)
	}
	return buildRecord(r)
}

// ListBuilds gives the builds of an environment.
func (s *Store) ListBuilds(ctx context.Context, id string, p enplace.Page) (list enplace.List[enplace.Build], err error) {
	before, err := newestN(p)
	if err != nil {
		return list, err
	}
	err = s.view(ctx, func(q *db.Queries) error {
		if _, err := q.GetEnvironment(ctx, id); err != nil {
			return err
		}
		rows, err := q.ListBuilds(ctx, db.ListBuildsParams{Environment: id, Before: before, Count: fetch(p)})
		items, err := convert(rows, err, build)
		list = store.PageOf(items, p, func(b enplace.Build) string { return store.Cursor(b.N) })
		return err
	})
	return list, err
}

// editBuild runs fn on a build that has not ended.
func (s *Store) editBuild(ctx context.Context, id string, n int, fn func(*db.Queries, store.BuildRecord) error) (b enplace.Build, err error) {
	err = s.change(ctx, func(q *db.Queries) error {
		key := db.GetBuildParams{Environment: id, N: int64(n)}
		r, err := q.GetBuild(ctx, key)
		if err != nil {
			return err
		}
		rec, err := buildRecord(r)
		if err != nil {
			return err
		}
		b = rec.Build
		if b.Status.Ended() {
			return store.ErrConflict
		}
		if err := fn(q, rec); err != nil {
			return err
		}
		if r, err = q.GetBuild(ctx, key); err != nil {
			return err
		}
		b, err = build(r)
		return err
	})
	return b, err
}

// UpdateBuild edits a build that has not ended.
func (s *Store) UpdateBuild(ctx context.Context, id string, n int, change func(*enplace.Build)) (enplace.Build, error) {
	return s.editBuild(ctx, id, n, func(q *db.Queries, rec store.BuildRecord) error {
		change(&rec.Build)
		p, err := encodeProgress(rec.Build)
		if err != nil {
			return err
		}
		return q.SetProgress(ctx, db.SetProgressParams{Environment: id, N: int64(n), Progress: p})
	})
}

// RequestCancel marks a build, and ends one that is queued.
func (s *Store) RequestCancel(ctx context.Context, id string, n int, now time.Time) (enplace.Build, error) {
	return s.editBuild(ctx, id, n, func(q *db.Queries, rec store.BuildRecord) error {
		if err := q.RequestCancel(ctx, db.RequestCancelParams{Environment: id, N: int64(n)}); err != nil {
			return err
		}
		if rec.Status == enplace.BuildQueued {
			return endBuild(ctx, q, store.CancelQueued(rec.Build, now))
		}
		return nil
	})
}

func endBuild(ctx context.Context, q *db.Queries, b enplace.Build) error {
	p, err := encodeProgress(b)
	if err != nil {
		return err
	}
	return q.EndBuild(ctx, db.EndBuildParams{Environment: b.Environment, N: int64(b.N), Status: string(b.Status), EndedAt: microsPtr(b.EndedAt), Progress: p})
}

// FinishBuild ends a build, with the version that it made.
func (s *Store) FinishBuild(ctx context.Context, id string, n int, end enplace.Build, version *enplace.Version) (enplace.Build, bool, error) {
	if !end.Status.Ended() || end.EndedAt == nil {
		return enplace.Build{}, false, fmt.Errorf("ending build %d of %s: state %q and its time are not those of an end", n, id, end.Status)
	}
	activated := false
	b, err := s.editBuild(ctx, id, n, func(q *db.Queries, rec store.BuildRecord) error {
		end := end // may run again
		end.Environment, end.N, end.Version = id, n, nil
		if version == nil {
			return endBuild(ctx, q, end)
		}
		v, err := insertVersion(ctx, q, id, n, *version)
		if err != nil {
			return err
		}
		end.Version = intPtr(&v)
		swapped, err := q.SwapActive(ctx, db.SwapActiveParams{ID: id, Active: &v, Expected: int64Ptr(rec.Spec.Active), UpdatedAt: micros(*end.EndedAt)})
		if err != nil {
			return err
		}
		activated = swapped > 0
		return endBuild(ctx, q, end)
	})
	return b, activated && err == nil, err
}

// InterruptBuilds ends every running build as interrupted.
func (s *Store) InterruptBuilds(ctx context.Context, now time.Time) ([]enplace.Build, error) {
	var ended []enplace.Build
	err := s.change(ctx, func(q *db.Queries) error {
		rows, err := q.RunningBuilds(ctx)
		running, err := convert(rows, err, build)
		if err != nil {
			return err
		}
		ended = make([]enplace.Build, 0, len(running))
		for _, b := range running {
			b = store.Interrupt(b, fromMicros(micros(now)))
			if err := endBuild(ctx, q, b); err != nil {
				return err
			}
			ended = append(ended, b)
		}
		return nil
	})
	return ended, err
}
