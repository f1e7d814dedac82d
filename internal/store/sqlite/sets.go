package sqlite

import (
	"context"
	"errors"
	"slices"
	"time"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

func set(r db.Set) (store.SetRecord, error) {
	rec := store.SetRecord{CreatedAt: fromMicros(r.CreatedAt), UsedAt: fromMicros(r.UsedAt), NextRefresh: int(r.NextRefresh)}
	if err := errors.Join(decode(r.Resolved, &rec.Set), decode(r.Bundle, &rec.Bundle)); err != nil {
		return rec, err
	}
	contents := r.Contents
	for _, i := range rec.Items {
		var err error
		if contents, err = attach(i.Files, contents); err != nil {
			return rec, err
		}
	}
	return rec, nil
}

// encodeSet gives the columns of what never changes in a set. What it is given stays as it is.
func encodeSet(set enplace.Set) (resolved string, contents []byte, err error) {
	contents = []byte{}
	set.Items = slices.Clone(set.Items)
	for i := range set.Items {
		set.Items[i].Files, contents = detach(set.Items[i].Files, contents)
	}
	resolved, err = encode(set)
	return resolved, contents, err
}

func encodeBundle(b enplace.Bundle) (string, error) {
	b.BuiltAt, b.UsedAt = keptPtr(b.BuiltAt), keptPtr(b.UsedAt)
	return encode(b)
}

// PutSet adds a set that is not known, and marks one that is as used.
func (s *Store) PutSet(ctx context.Context, rec store.SetRecord) (store.SetRecord, error) {
	bundle, err := encodeBundle(rec.Bundle)
	resolved, contents, err2 := encodeSet(rec.Set)
	if err := errors.Join(err, err2); err != nil {
		return store.SetRecord{}, err
	}
	r, err := s.write.PutSet(ctx, db.PutSetParams{
		Hash: rec.Hash, CreatedAt: micros(rec.CreatedAt), UsedAt: micros(rec.UsedAt), NextRefresh: int64(rec.NextRefresh),
		Image: string(rec.Bundle.Image), Bundle: bundle, Resolved: resolved, Contents: contents,
	})
	if err != nil {
		return store.SetRecord{}, translate(err)
	}
	return set(r)
}

// Set gives one.
func (s *Store) Set(ctx context.Context, hash string) (store.SetRecord, error) {
	r, err := s.read.GetSet(ctx, hash)
	if err != nil {
		return store.SetRecord{}, translate(err)
	}
	return set(r)
}

// UpdateSet reads, lets change edit, and writes back what is not the set itself.
func (s *Store) UpdateSet(ctx context.Context, hash string, change func(*store.SetRecord) error) (out store.SetRecord, err error) {
	err = s.change(ctx, func(q *db.Queries) error {
		r, err := q.GetSet(ctx, hash)
		if err != nil {
			return err
		}
		rec, err := set(r)
		if err != nil {
			return err
		}
		if err := change(&rec); err != nil {
			return err
		}
		r.UsedAt, r.NextRefresh, r.Image = micros(rec.UsedAt), int64(rec.NextRefresh), string(rec.Bundle.Image)
		if r.Bundle, err = encodeBundle(rec.Bundle); err != nil {
			return err
		}
		if out, err = set(r); err != nil { // as stored: what may not be edited is as it was
			return err
		}
		return q.UpdateSet(ctx, db.UpdateSetParams{Hash: hash, UsedAt: r.UsedAt, NextRefresh: r.NextRefresh, Image: r.Image, Bundle: r.Bundle})
	})
	return out, err
}

// ListSets gives them, the last used first.
func (s *Store) ListSets(ctx context.Context, p enplace.Page) (list enplace.List[store.SetRecord], err error) {
	pos, err := latest(p)
	if err != nil {
		return list, err
	}
	rows, err := s.read.ListSets(ctx, db.ListSetsParams{At: pos.at, Hash: pos.hash, Count: fetch(p)})
	items, err := convert(rows, err, set)
	if err != nil {
		return list, err
	}
	return store.PageOf(items, p, func(r store.SetRecord) string { return store.Cursor(micros(r.UsedAt), r.Hash) }), nil
}

// DeleteSets forgets the sets that were not used since then and that no computer has.
func (s *Store) DeleteSets(ctx context.Context, before time.Time) (int, error) {
	n, err := s.write.DeleteSets(ctx, micros(before))
	return int(n), translate(err)
}
