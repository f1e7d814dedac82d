package sqlite

import (
	"context"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

// settings are the fields of an environment that nothing filters by.
type settings struct {
	Packages      enplace.Packages `json:"packages"`
	PythonVersion string           `json:"python_version,omitempty"`
	PipIndexURL   string           `json:"pip_index_url,omitempty"`
	Check         []string         `json:"check,omitempty"`
	Scripts       *bool            `json:"npm_scripts,omitempty"`
	Egress        *enplace.Egress  `json:"egress,omitempty"`
}

func encodeSettings(e enplace.Environment) (string, error) {
	return encode(settings{
		Packages: e.Packages, PythonVersion: e.PythonVersion, PipIndexURL: e.PipIndexURL,
		Check: e.Check, Scripts: e.Scripts, Egress: e.Egress,
	})
}

func environment(r db.Environment) (enplace.Environment, error) {
	var s settings
	err := decode(r.Settings, &s)
	return enplace.Environment{
		ID: r.ID, Name: r.Name, Slug: r.Slug, Path: enplace.EnvironmentPath(r.Slug), Owner: r.Owner,
		Packages: s.Packages, PythonVersion: s.PythonVersion, PipIndexURL: s.PipIndexURL,
		Check: s.Check, Scripts: s.Scripts, Egress: s.Egress,
		ActiveVersion: intPtr(r.Active), Files: int(r.Files), Bytes: r.Bytes,
		CreatedAt: fromMicros(r.CreatedAt), UpdatedAt: fromMicros(r.UpdatedAt),
	}, err
}

// CreateEnvironment adds one.
func (s *Store) CreateEnvironment(ctx context.Context, e enplace.Environment) error {
	set, err := encodeSettings(e)
	if err != nil {
		return err
	}
	return translate(s.write.InsertEnvironment(ctx, db.InsertEnvironmentParams{
		ID: e.ID, Slug: e.Slug, Owner: e.Owner, Name: e.Name,
		CreatedAt: micros(e.CreatedAt), UpdatedAt: micros(e.UpdatedAt), Settings: set,
	}))
}

// Environment gives one.
func (s *Store) Environment(ctx context.Context, id string) (enplace.Environment, error) {
	r, err := s.read.GetEnvironment(ctx, id)
	if err != nil {
		return enplace.Environment{}, translate(err)
	}
	return environment(r)
}

// ListEnvironments gives those of one owner, or all.
func (s *Store) ListEnvironments(ctx context.Context, owner string, p enplace.Page) (enplace.List[enplace.Environment], error) {
	before, err := newest(p)
	if err != nil {
		return enplace.List[enplace.Environment]{}, err
	}
	var rows []db.Environment
	if owner == "" {
		rows, err = s.read.ListEnvironments(ctx, db.ListEnvironmentsParams{Before: before, Count: fetch(p)})
	} else {
		rows, err = s.read.ListEnvironmentsOf(ctx, db.ListEnvironmentsOfParams{Owner: owner, Before: before, Count: fetch(p)})
	}
	items, err := convert(rows, err, environment)
	if err != nil {
		return enplace.List[enplace.Environment]{}, err
	}
	return store.PageOf(items, p, func(e enplace.Environment) string { return store.Cursor(e.ID) }), nil
}

// UpdateEnvironment reads, lets change edit, and writes back.
func (s *Store) UpdateEnvironment(ctx context.Context, id string, change func(*enplace.Environment) error) (enplace.Environment, error) {
	var out enplace.Environment
	err := s.change(ctx, func(q *db.Queries) error {
		r, err := q.GetEnvironment(ctx, id)
		if err != nil {
			return err
		}
		e, err := environment(r)
		if err != nil {
			return err
		}
		if err := change(&e); err != nil {
			return err
		}
		set, err := encodeSettings(e)
		if err != nil {
			return err
		}
		if err := q.UpdateEnvironment(ctx, db.UpdateEnvironmentParams{ID: id, Name: e.Name, Settings: set, UpdatedAt: micros(e.UpdatedAt)}); err != nil {
			return err
		}
		if r, err = q.GetEnvironment(ctx, id); err != nil { // as stored: what may not be edited is as it was
			return err
		}
		out, err = environment(r)
		return err
	})
	return out, err
}

// DeleteEnvironment removes the environment with its tree, builds and versions.
func (s *Store) DeleteEnvironment(ctx context.Context, id string) error {
	return some(s.write.DeleteEnvironment(ctx, id))
}
