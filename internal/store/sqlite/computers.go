package sqlite

import (
	"context"
	"errors"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

func computer(root, record string) (c store.ComputerRecord, err error) {
	err = errors.Join(decode(record, &c), decode(root, &c.Root))
	return c, err
}

// encodeComputer gives a computer's columns, with its times as the store keeps them. What it is given stays as it is.
func encodeComputer(c store.ComputerRecord) (root, record string, err error) {
	c.CreatedAt, c.UsedAt = kept(c.CreatedAt), kept(c.UsedAt)
	c.Sets, c.Commands = slices.Clone(c.Sets), slices.Clone(c.Commands)
	for i := range c.Sets {
		set := &c.Sets[i]
		set.AppliedAt, set.TriedAt, set.RetryAt, set.UsedAt = keptPtr(set.AppliedAt), keptPtr(set.TriedAt), keptPtr(set.RetryAt), keptPtr(set.UsedAt)
	}
	for i := range c.Commands {
		c.Commands[i].At = kept(c.Commands[i].At)
	}
	root, err = encode(c.Root)
	c.Root = nil
	record, err2 := encode(c)
	return root, record, errors.Join(err, err2)
}

// hashes gives the sets that a computer's record names.
func hashes(c store.ComputerRecord) []string {
	all := make([]string, 0, len(c.Sets))
	for _, set := range c.Sets {
		all = append(all, set.Hash)
	}
	return all
}

func insertComputerSets(ctx context.Context, q *db.Queries, c store.ComputerRecord) error {
	for _, hash := range hashes(c) {
		if err := q.InsertComputerSet(ctx, db.InsertComputerSetParams{Computer: c.ID, Hash: hash}); err != nil {
			return err
		}
	}
	return nil
}

// CreateComputer adds one.
func (s *Store) CreateComputer(ctx context.Context, c store.ComputerRecord) error {
	root, record, err := encodeComputer(c)
	if err != nil {
		return err
	}
	person, room := enplace.Scope(c.ID).Person(), ""
	if name, ok := strings.CutPrefix(c.ID, "room:"); ok {
		room = name
	}
	return s.change(ctx, func(q *db.Queries) error {
		err := q.InsertComputer(ctx, db.InsertComputerParams{
			ID: c.ID, Person: nullable(person), Room: nullable(room), CreatedAt: micros(c.CreatedAt), Root: root, Record: record,
		})
		if err != nil {
			return err
		}
		return insertComputerSets(ctx, q, c)
	})
}

// Computer gives one.
func (s *Store) Computer(ctx context.Context, id string) (store.ComputerRecord, error) {
	r, err := s.read.GetComputer(ctx, id)
	if err != nil {
		return store.ComputerRecord{}, translate(err)
	}
	return computer(r.Root, r.Record)
}

// ListComputers gives them by id.
func (s *Store) ListComputers(ctx context.Context, p enplace.Page) (list enplace.List[store.ComputerRecord], err error) {
	after, err := following(p)
	if err != nil {
		return list, err
	}
	rows, err := s.read.ListComputers(ctx, db.ListComputersParams{After: after, Count: fetch(p)})
	items, err := convert(rows, err, func(r db.ListComputersRow) (store.ComputerRecord, error) { return computer(r.Root, r.Record) })
	if err != nil {
		return list, err
	}
	return store.PageOf(items, p, func(c store.ComputerRecord) string { return store.Cursor(c.ID) }), nil
}

// UpdateComputer reads, lets change edit, and writes back all but the id and the creation time.
func (s *Store) UpdateComputer(ctx context.Context, id string, change func(*store.ComputerRecord) error) (out store.ComputerRecord, err error) {
	err = s.change(ctx, func(q *db.Queries) error {
		r, err := q.GetComputer(ctx, id)
		if err != nil {
			return err
		}
		c, err := computer(r.Root, r.Record)
		if err != nil {
			return err
		}
		created, had := c.CreatedAt, hashes(c)
		if err := change(&c); err != nil {
			return err
		}
		c.ID, c.CreatedAt = id, created
		root, record, err := encodeComputer(c)
		if err != nil {
			return err
		}
		if out, err = computer(root, record); err != nil { // as stored
			return err
		}
		if err := q.UpdateComputer(ctx, db.UpdateComputerParams{ID: id, Root: root, Record: record}); err != nil {
			return err
		}
		if slices.Equal(had, hashes(c)) { // as after most commands
			return nil
		}
		if err := q.ClearComputerSets(ctx, id); err != nil {
			return err
		}
		return insertComputerSets(ctx, q, c)
	})
	return out, err
}

// DeleteComputer removes one with its error log.
func (s *Store) DeleteComputer(ctx context.Context, id string) error {
	return some(s.write.DeleteComputer(ctx, id))
}

// AppendComputerError adds an entry to the error log, in place of an earlier one of the same error, and drops the oldest.
func (s *Store) AppendComputerError(ctx context.Context, id string, e enplace.ComputerError, most int) error {
	e.At, e.LastAt = kept(e.At), kept(e.LastAt)
	return s.change(ctx, func(q *db.Queries) error {
		n, err := q.NextComputerError(ctx, id)
		if err != nil {
			return err
		}
		rows, err := q.ListComputerErrors(ctx, db.ListComputerErrorsParams{Computer: id, Before: n, Count: int32(most)})
		if err != nil {
			return err
		}
		drop := db.DropComputerErrorsParams{Computer: id}
		for i, r := range rows {
			had, err := computerError(r)
			if err != nil {
				return err
			}
			if both, ok := had.Joined(e); ok {
				e, drop.Joined = both, r.N
				break
			}
			if i == most-1 {
				drop.Last = r.N
			}
		}
		entry, err := encode(e)
		if err != nil {
			return err
		}
		if err := q.InsertComputerError(ctx, db.InsertComputerErrorParams{Computer: id, N: n, Entry: entry}); err != nil {
			return err
		}
		return q.DropComputerErrors(ctx, drop)
	})
}

// computerError reads an entry of an error log. Those of earlier programs count one.
func computerError(r db.ListComputerErrorsRow) (e enplace.ComputerError, err error) {
	err = decode(r.Entry, &e)
	if e.Count == 0 {
		e.Count, e.LastAt = 1, e.At
	}
	return e, err
}

// ListComputerErrors gives the error log, the newest first.
func (s *Store) ListComputerErrors(ctx context.Context, id string, p enplace.Page) (list enplace.List[enplace.ComputerError], err error) {
	before, err := newestN(p)
	if err != nil {
		return list, err
	}
	err = s.view(ctx, func(q *db.Queries) error {
		if _, err := q.GetComputer(ctx, id); err != nil {
			return err
		}
		rows, err := q.ListComputerErrors(ctx, db.ListComputerErrorsParams{Computer: id, Before: before, Count: fetch(p)})
		page := store.PageOf(rows, p, func(r db.ListComputerErrorsRow) string { return store.Cursor(r.N) })
		list.Next = page.Next
		list.Items, err = convert(page.Items, err, computerError)
		return err
	})
	return list, err
}
