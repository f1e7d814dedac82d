package sqlite

import (
	"context"
	"errors"
	"time"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

func entry(r db.Tree) (enplace.TreeEntry, error) {
	return enplace.TreeEntry{
		Path: r.Path, Type: enplace.EntryType(r.Type), Size: r.Size, Executable: r.Executable,
		Target: r.Target, Digest: enplace.Digest(r.Digest),
	}, nil
}

// below gives the bounds of what lies in a folder: from "a/" to "a0", the byte after the slash.
func below(folder string) (from, to string) { return folder + "/", folder + "0" }

// EditTree runs edit on the tree of an environment.
func (s *Store) EditTree(ctx context.Context, id string, now time.Time, edit func(store.Tree) error) error {
	return s.change(ctx, func(q *db.Queries) error {
		e, err := q.GetEnvironment(ctx, id)
		if err != nil {
			return err
		}
		t := &tree{ctx: ctx, q: q, id: id, files: e.Files, bytes: e.Bytes, info: e.TreeInfo}
		if err := edit(t); err != nil {
			return err
		}
		return q.SetTotals(ctx, db.SetTotalsParams{ID: id, Files: t.files, Bytes: t.bytes, TreeInfo: t.info, UpdatedAt: micros(now)})
	})
}

// tree is a store.Tree for the time of one transaction. Its totals are carried along, since counting 200,000 rows for each
// file that is put would not do.
type tree struct {
	ctx          context.Context
	q            *db.Queries
	id           string
	files, bytes int64
	info         string
}

func (t *tree) Get(path string) (enplace.TreeEntry, error) {
	r, err := t.q.GetEntry(t.ctx, db.GetEntryParams{Environment: t.id, Path: path})
	if err != nil {
		return enplace.TreeEntry{}, translate(err)
	}
	return entry(r)
}

func (t *tree) HasBelow(path string) (bool, error) {
	from, to := below(path)
	return one(t.q.HasBelow(t.ctx, db.HasBelowParams{Environment: t.id, Below: from, BelowEnd: to}))
}

func (t *tree) Put(e enplace.TreeEntry) error {
	old, err := t.q.DeleteEntry(t.ctx, db.DeleteEntryParams{Environment: t.id, Path: e.Path})
	if err != nil {
		return translate(err)
	}
	t.count(old, -1)
	err = t.q.InsertEntry(t.ctx, db.InsertEntryParams{
		Environment: t.id, Path: e.Path, Type: string(e.Type), Size: e.Size, Executable: e.Executable,
		Target: e.Target, Digest: string(e.Digest),
	})
	if err != nil {
		return translate(err)
	}
	t.count([]int64{e.Size}, 1)
	return nil
}

func (t *tree) Delete(path string) (int, error) {
	at, err := t.q.DeleteEntry(t.ctx, db.DeleteEntryParams{Environment: t.id, Path: path})
	if err != nil {
		return 0, translate(err)
	}
	from, to := below(path)
	in, err := t.q.DeleteBelow(t.ctx, db.DeleteBelowParams{Environment: t.id, Below: from, BelowEnd: to})
	if err != nil {
		return 0, translate(err)
	}
	t.count(at, -1)
	t.count(in, -1)
	if n := len(at) + len(in); n > 0 {
		return n, nil
	}
	return 0, store.ErrNotFound
}

func (t *tree) Clear() (int, error) {
	n, err := t.q.ClearTree(t.ctx, t.id)
	if err != nil {
		return 0, translate(err)
	}
	t.files, t.bytes = 0, 0
	return int(n), nil
}

func (t *tree) Totals() (int, int64, error) { return int(t.files), t.bytes, nil }

func (t *tree) SetInfo(i store.TreeInfo) (err error) {
	t.info, err = encode(i)
	return err
}

func (t *tree) count(sizes []int64, sign int64) {
	for _, n := range sizes {
		t.files += sign
		t.bytes += sign * n
	}
}

// ListTree gives the entries at or below a prefix.
func (s *Store) ListTree(ctx context.Context, id, prefix string, p enplace.Page) (list enplace.List[enplace.TreeEntry], err error) {
	var after string
	if err := store.ParseCursor(p.Cursor, &after); err != nil {
		return list, err
	}
	err = s.view(ctx, func(q *db.Queries) error {
		if _, err := q.GetEnvironment(ctx, id); err != nil {
			return err
		}
		var rows []db.Tree
		if prefix == "" {
			rows, err = q.ListTree(ctx, db.ListTreeParams{Environment: id, After: after, Count: fetch(p)})
		} else {
			from, to := below(prefix)
			rows, err = q.ListTreeAt(ctx, db.ListTreeAtParams{Environment: id, After: after, Prefix: prefix, Below: from, BelowEnd: to, Count: fetch(p)})
		}
		items, err := convert(rows, err, entry)
		list = store.PageOf(items, p, func(e enplace.TreeEntry) string { return store.Cursor(e.Path) })
		return err
	})
	return list, err
}

// TreeEntry gives the entry at a path.
func (s *Store) TreeEntry(ctx context.Context, id, path string) (enplace.TreeEntry, error) {
	r, err := s.read.GetEntry(ctx, db.GetEntryParams{Environment: id, Path: path})
	if err != nil {
		return enplace.TreeEntry{}, translate(err)
	}
	return entry(r)
}

// TreeInfo says where a tree came from.
func (s *Store) TreeInfo(ctx context.Context, id string) (info store.TreeInfo, err error) {
	r, err := s.read.GetEnvironment(ctx, id)
	if err != nil {
		return info, translate(err)
	}
	return info, decode(r.TreeInfo, &info)
}

// BlobDigests gives the digests that trees and snapshots need, from one state of the database: a file may move from a tree
// to a snapshot between two.
func (s *Store) BlobDigests(ctx context.Context, each func(d enplace.Digest, snapshot bool)) error {
	return s.view(ctx, func(q *db.Queries) error {
		trees, err := q.TreeDigests(ctx)
		snapshots, err2 := q.Snapshots(ctx)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		for _, d := range trees {
			if d != "" {
				each(enplace.Digest(d), false)
			}
		}
		for _, d := range snapshots {
			if d != "" {
				each(enplace.Digest(d), true)
			}
		}
		return nil
	})
}
