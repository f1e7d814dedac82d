package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"enplace"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the database to this program's schema. One that a newer program migrated is refused, not guessed at.
func migrate(ctx context.Context, d *sql.DB) error {
	p, have, want, err := versions(ctx, d)
	if err != nil {
		return err
	}
	if have > want {
		return enplace.Errorf(enplace.KindUnavailable, "the database has schema %d and this program knows %d: a newer Enplace wrote it", have, want).
			WithFix("start the newer version of Enplace, or restore the backup made before it was installed")
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrating the database: %w", err)
	}
	return nil
}

// current refuses a database of another schema than this program's.
func current(ctx context.Context, d *sql.DB) error {
	_, have, want, err := versions(ctx, d)
	if err == nil && have != want {
		err = enplace.Errorf(enplace.KindUnavailable, "the database has schema %d and this program knows %d: another version of Enplace wrote it", have, want).
			WithFix("use the program of the version that serves this data directory")
	}
	return err
}

// versions gives the schema's version, and the one that this program has.
func versions(ctx context.Context, d *sql.DB) (p *goose.Provider, have, want int64, err error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, 0, 0, fmt.Errorf("reading the migrations: %w", err)
	}
	p, err = goose.NewProvider(goose.DialectSQLite3, d, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, 0, 0, fmt.Errorf("reading the migrations: %w", err)
	}
	if have, want, err = p.GetVersions(ctx); err != nil {
		return nil, 0, 0, fmt.Errorf("reading the schema's version: %w", err)
	}
	return p, have, want, nil
}
