package sqlite

import (
	"context"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

func harness(row string) (h enplace.Harness, err error) {
	return h, decode(row, &h)
}

// CreateHarness adds one.
func (s *Store) CreateHarness(ctx context.Context, h enplace.Harness) error {
	h.CreatedAt = fromMicros(micros(h.CreatedAt))
	row, err := encode(h)
	if err != nil {
		return err
	}
	return translate(s.write.InsertHarness(ctx, db.InsertHarnessParams{ID: h.ID, Owner: h.Owner, CreatedAt: micros(h.CreatedAt), Harness: row}))
}

// Harness gives one.
func (s *Store) Harness(ctx context.Context, id string) (enplace.Harness, error) {
	row, err := s.read.GetHarness(ctx, id)
	if err != nil {
		return enplace.Harness{}, translate(err)
	}
	return harness(row)
}

// ListHarnesses gives those of one owner, or all.
func (s *Store) ListHarnesses(ctx context.Context, owner string, p enplace.Page) (list enplace.List[enplace.Harness], err error) {
	before, err := newest(p)
	if err != nil {
		return list, err
	}
	rows, err := s.read.ListHarnesses(ctx, db.ListHarnessesParams{Owner: owner, Before: before, Count: fetch(p)})
	items, err := convert(rows, err, harness)
	if err != nil {
		return list, err
	}
	return store.PageOf(items, p, func(h enplace.Harness) string { return store.Cursor(h.ID) }), nil
}

// DeleteHarness removes one.
func (s *Store) DeleteHarness(ctx context.Context, id string) error {
	return some(s.write.DeleteHarness(ctx, id))
}
