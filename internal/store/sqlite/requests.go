package sqlite

import (
	"context"
	"time"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

// BeginRequest claims a key of a caller for a request.
func (s *Store) BeginRequest(ctx context.Context, caller, key, requestHash string, now time.Time) (answer *store.Response, err error) {
	err = s.change(ctx, func(q *db.Queries) error {
		if err := q.ForgetRequests(ctx, micros(now.Add(-enplace.IdempotencyRetention))); err != nil {
			return err
		}
		claimed, err := q.ClaimRequest(ctx, db.ClaimRequestParams{Caller: caller, Key: key, RequestHash: requestHash, ClaimedAt: micros(now)})
		if err != nil || claimed > 0 {
			return err
		}
		r, err := q.GetRequest(ctx, db.GetRequestParams{Caller: caller, Key: key})
		switch {
		case err != nil:
			return err
		case r.RequestHash != requestHash:
			return store.ErrExists
		case r.Response == nil:
			return store.ErrConflict
		}
		answer = &store.Response{}
		return decode(string(r.Response), answer)
	})
	return answer, err
}

// FinishRequest stores the answer; a nil one frees the key.
func (s *Store) FinishRequest(ctx context.Context, caller, key string, r *store.Response) error {
	if r == nil {
		return translate(s.write.FreeRequest(ctx, db.FreeRequestParams{Caller: caller, Key: key}))
	}
	row, err := encode(r)
	if err != nil {
		return err
	}
	return some(s.write.AnswerRequest(ctx, db.AnswerRequestParams{Caller: caller, Key: key, Response: []byte(row)}))
}

// ForgetRequests drops old keys, and with running those without an answer.
func (s *Store) ForgetRequests(ctx context.Context, before time.Time, running bool) error {
	return s.change(ctx, func(q *db.Queries) error {
		if running {
			if err := q.ForgetRunning(ctx); err != nil {
				return err
			}
		}
		return q.ForgetRequests(ctx, micros(before))
	})
}
