package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

// CachedStep gives what a step gave, and marks it as used.
func (s *Store) CachedStep(ctx context.Context, key string, now time.Time) (store.StepResult, error) {
	r, err := s.write.GetStep(ctx, db.GetStepParams{Key: key, Now: micros(now)})
	if err != nil {
		return store.StepResult{}, translate(err)
	}
	res := store.StepResult{Image: enplace.Digest(r.Image), Bytes: r.Bytes}
	if r.Data != "" {
		res.Data = json.RawMessage(r.Data)
	}
	return res, nil
}

// PutStep keeps what a step gave.
func (s *Store) PutStep(ctx context.Context, key string, r store.StepResult, now time.Time) error {
	return translate(s.write.PutStep(ctx, db.PutStepParams{Key: key, Image: string(r.Image), Bytes: r.Bytes, Data: string(r.Data), UsedAt: micros(now)}))
}

// PruneSteps forgets the results not used since then.
func (s *Store) PruneSteps(ctx context.Context, before time.Time) (int, error) {
	n, err := s.write.PruneSteps(ctx, micros(before))
	return int(n), translate(err)
}
