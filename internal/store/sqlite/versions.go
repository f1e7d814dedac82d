package sqlite

import (
	"context"
	"time"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

func version(r db.Version, active *int64) (enplace.Version, error) {
	v := enplace.Version{
		Environment: r.Environment,
		VersionSummary: enplace.VersionSummary{
			N: int(r.N), Build: int(r.Build), Digest: r.Digest, Bytes: r.Bytes, CreatedAt: fromMicros(r.CreatedAt),
			Active: active != nil && *active == r.N,
		},
	}
	return v, decode(r.Manifest, &v.Manifest)
}

// insertVersion adds the version that a build made and gives its number.
func insertVersion(ctx context.Context, q *db.Queries, id string, build int, v enplace.Version) (int64, error) {
	m, err := encode(v.Manifest)
	if err != nil {
		return 0, err
	}
	n, err := q.NextVersion(ctx, id)
	if err != nil {
		return 0, err
	}
	return n, q.InsertVersion(ctx, db.InsertVersionParams{
		Environment: id, N: n, Build: int64(build), Digest: v.Digest, Bytes: v.Bytes,
		CreatedAt: micros(v.CreatedAt), Snapshot: v.Manifest.Snapshot, Manifest: m,
	})
}

// Version gives one.
func (s *Store) Version(ctx context.Context, id string, n int) (enplace.Version, error) {
	r, err := s.read.GetVersion(ctx, db.GetVersionParams{Environment: id, N: int64(n)})
	if err != nil {
		return enplace.Version{}, translate(err)
	}
	return version(r.Version, r.Active)
}

// ListVersions gives those of an environment.
func (s *Store) ListVersions(ctx context.Context, id string, p enplace.Page) (list enplace.List[enplace.VersionSummary], err error) {
	before, err := newestN(p)
	if err != nil {
		return list, err
	}
	err = s.view(ctx, func(q *db.Queries) error {
		e, err := q.GetEnvironment(ctx, id)
		if err != nil {
			return err
		}
		rows, err := q.ListVersions(ctx, db.ListVersionsParams{Environment: id, Before: before, Count: fetch(p)})
		if err != nil {
			return err
		}
		items := make([]enplace.VersionSummary, 0, len(rows))
		for _, r := range rows {
			items = append(items, enplace.VersionSummary{
				N: int(r.N), Build: int(r.Build), Digest: r.Digest, Bytes: r.Bytes, CreatedAt: fromMicros(r.CreatedAt),
				Active: e.Active != nil && *e.Active == r.N,
			})
		}
		list = store.PageOf(items, p, func(v enplace.VersionSummary) string { return store.Cursor(v.N) })
		return nil
	})
	return list, err
}

// ActivateVersion makes a version the active one.
func (s *Store) ActivateVersion(ctx context.Context, id string, n int, expect *int, now time.Time) error {
	return s.change(ctx, func(q *db.Queries) error {
		if _, err := q.GetVersion(ctx, db.GetVersionParams{Environment: id, N: int64(n)}); err != nil {
			return err
		}
		active := int64(n)
		if expect == nil {
			return q.SetActive(ctx, db.SetActiveParams{ID: id, Active: &active, UpdatedAt: micros(now)})
		}
		expected := int64Ptr(expect)
		if *expect == 0 {
			expected = nil
		}
		swapped, err := q.SwapActive(ctx, db.SwapActiveParams{ID: id, Active: &active, Expected: expected, UpdatedAt: micros(now)})
		if err == nil && swapped == 0 {
			return store.ErrConflict
		}
		return err
	})
}

// DeleteVersion removes one that is not active.
func (s *Store) DeleteVersion(ctx context.Context, id string, n int) error {
	return s.change(ctx, func(q *db.Queries) error {
		r, err := q.GetVersion(ctx, db.GetVersionParams{Environment: id, N: int64(n)})
		if err != nil {
			return err
		}
		if r.Active != nil && *r.Active == int64(n) {
			return store.ErrConflict
		}
		return some(q.DeleteVersion(ctx, db.DeleteVersionParams{Environment: id, N: int64(n)}))
	})
}

// ImageDigests gives the digests of all images in use, from one state of the database.
func (s *Store) ImageDigests(ctx context.Context, each func(enplace.Digest)) error {
	return s.view(ctx, func(q *db.Queries) error {
		manifests, err := q.Manifests(ctx)
		if err != nil {
			return err
		}
		for _, m := range manifests {
			if err := imagesOf(m, each); err != nil {
				return err
			}
		}
		tasks, err := q.UnfinishedTasks(ctx)
		if err != nil {
			return err
		}
		for _, r := range tasks {
			if err := imagesOfTask(r, each); err != nil {
				return err
			}
		}
		for _, query := range []func(context.Context) ([]string, error){q.StepImages, q.SetImages} {
			images, err := query(ctx)
			if err != nil {
				return err
			}
			for _, d := range images {
				each(enplace.Digest(d))
			}
		}
		return imagesOfComputers(ctx, q, each)
	})
}

func imagesOfComputers(ctx context.Context, q *db.Queries, each func(enplace.Digest)) error {
	roots, err := q.Roots(ctx)
	if err != nil {
		return err
	}
	for _, root := range roots {
		var images []enplace.Digest
		if err := decode(root, &images); err != nil {
			return err
		}
		for _, d := range images {
			each(d)
		}
	}
	return nil
}

// images is what ImageDigests reads of a manifest, whose packages are many.
type images struct {
	Base   string                  `json:"base"`
	Images []enplace.ManifestImage `json:"images"`
}

func (m images) each(each func(enplace.Digest)) {
	if m.Base != "" {
		each(enplace.Digest(m.Base))
	}
	for _, i := range m.Images {
		each(enplace.Digest(i.Digest))
	}
}

func imagesOf(manifest string, each func(enplace.Digest)) error {
	var m images
	err := decode(manifest, &m)
	m.each(each)
	return err
}

func imagesOfTask(record string, each func(enplace.Digest)) error {
	var r struct {
		Manifest images `json:"manifest"`
	}
	err := decode(record, &r)
	r.Manifest.each(each)
	return err
}
