package sqlite

import (
	"context"

	"enplace/internal/store/sqlite/db"
)

// Setting gives a value.
func (s *Store) Setting(ctx context.Context, name string) (string, error) {
	return one(s.read.GetSetting(ctx, name))
}

// PutSetting keeps a value.
func (s *Store) PutSetting(ctx context.Context, name, value string) error {
	return translate(s.write.PutSetting(ctx, db.PutSettingParams{Name: name, Value: value}))
}
