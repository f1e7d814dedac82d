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
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, d, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("reading the schema's version: %w", err)
	}
	if current > target {
		return enplace.Errorf(enplace.KindUnavailable, "the database has schema %d and this program knows %d: a newer Enplace wrote it", current, target).
			WithFix("start the newer version of Enplace, or restore the backup made before it was installed")
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrating the database: %w", err)
	}
	return nil
}
