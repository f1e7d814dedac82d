package sqlite

import (
	"context"
	"time"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

func key(r db.Key) (enplace.Key, error) {
	return enplace.Key{
		ID: r.ID, Name: r.Name, Kind: enplace.KeyKind(r.Kind), Subject: r.Subject, CreatedBy: r.CreatedBy,
		CreatedAt: fromMicros(r.CreatedAt), RevokedAt: fromMicrosPtr(r.RevokedAt), LastUsed: fromMicrosPtr(r.LastUsedAt),
	}, nil
}

// CreateKey adds one, without its secret.
func (s *Store) CreateKey(ctx context.Context, k enplace.Key, hash string) error {
	return translate(s.write.InsertKey(ctx, db.InsertKeyParams{
		ID: k.ID, Hash: hash, Name: k.Name, Kind: string(k.Kind), Subject: k.Subject, CreatedBy: k.CreatedBy,
		CreatedAt: micros(k.CreatedAt), RevokedAt: microsPtr(k.RevokedAt), LastUsedAt: microsPtr(k.LastUsed),
	}))
}

// KeyByHash gives the key, revoked or not.
func (s *Store) KeyByHash(ctx context.Context, hash string) (enplace.Key, error) {
	r, err := s.read.GetKeyByHash(ctx, hash)
	if err != nil {
		return enplace.Key{}, translate(err)
	}
	return key(r)
}

// ListKeys gives all keys, newest first.
func (s *Store) ListKeys(ctx context.Context, p enplace.Page) (list enplace.List[enplace.Key], err error) {
	before, err := newest(p)
	if err != nil {
		return list, err
	}
	rows, err := s.read.ListKeys(ctx, db.ListKeysParams{Before: before, Count: fetch(p)})
	items, err := convert(rows, err, key)
	if err != nil {
		return list, err
	}
	return store.PageOf(items, p, func(k enplace.Key) string { return store.Cursor(k.ID) }), nil
}

// RevokeKey revokes a key; the time of a first revocation stays.
func (s *Store) RevokeKey(ctx context.Context, id string, now time.Time) (enplace.Key, error) {
	r, err := s.write.RevokeKey(ctx, db.RevokeKeyParams{ID: id, Now: microsPtr(&now)})
	if err != nil {
		return enplace.Key{}, translate(err)
	}
	return key(r)
}

// TouchKey records that a key was used.
func (s *Store) TouchKey(ctx context.Context, id string, now time.Time) error {
	return some(s.write.TouchKey(ctx, db.TouchKeyParams{ID: id, Now: microsPtr(&now)}))
}
