package sqlite

import (
	"context"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

func secret(r db.Secret) (store.SecretRecord, error) {
	return store.SecretRecord{
		Secret: enplace.Secret{
			Name: r.Name, Scope: enplace.Scope(r.Scope), CreatedBy: r.CreatedBy,
			CreatedAt: fromMicros(r.CreatedAt), UpdatedAt: fromMicros(r.UpdatedAt),
		},
		Sealed: r.Sealed,
	}, nil
}

// PutSecret adds or replaces a value of the keychain.
func (s *Store) PutSecret(ctx context.Context, v store.SecretRecord) (enplace.Secret, error) {
	r, err := s.write.PutSecret(ctx, db.PutSecretParams{
		Scope: string(v.Scope), Name: v.Name, CreatedBy: v.CreatedBy,
		CreatedAt: micros(v.CreatedAt), UpdatedAt: micros(v.UpdatedAt), Sealed: v.Sealed,
	})
	if err != nil {
		return enplace.Secret{}, translate(err)
	}
	rec, err := secret(r)
	return rec.Secret, err
}

// Secrets gives those of the scopes, or all.
func (s *Store) Secrets(ctx context.Context, scopes []enplace.Scope) ([]store.SecretRecord, error) {
	all := []store.SecretRecord{}
	err := s.view(ctx, func(q *db.Queries) error {
		for _, r := range rangesOf(scopes) {
			rows, err := q.SecretsBetween(ctx, db.SecretsBetweenParams(r))
			some, err := convert(rows, err, secret)
			if err != nil {
				return err
			}
			all = append(all, some...)
		}
		return nil
	})
	return all, err
}

// DeleteSecret removes one.
func (s *Store) DeleteSecret(ctx context.Context, scope enplace.Scope, name string) error {
	return some(s.write.DeleteSecret(ctx, db.DeleteSecretParams{Scope: string(scope), Name: name}))
}
