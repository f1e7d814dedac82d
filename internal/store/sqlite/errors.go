package sqlite

import (
	"database/sql"
	"errors"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"enplace/internal/durable"
	"enplace/internal/store"
)

// translate gives the contract's error for one of the driver's, by its code; every other error as it is.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrNotFound
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() {
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY:
		return store.ErrExists
	case lib.SQLITE_CONSTRAINT_FOREIGNKEY:
		return store.ErrNotFound // what the record belongs to is gone
	case lib.SQLITE_FULL, lib.SQLITE_IOERR_SHMSIZE: // the latter is what an open says that has no room for its shared memory
		return durable.FullError(err)
	}
	return err
}

// unneeded is some for a deletion, which gives ErrConflict where other records refer to the one that was to go.
func unneeded(n int64, err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code() == lib.SQLITE_CONSTRAINT_FOREIGNKEY {
		return store.ErrConflict
	}
	return some(n, err)
}

// one translates the error of a query for one row.
func one[T any](row T, err error) (T, error) { return row, translate(err) }

// some gives ErrNotFound where a change met no row.
func some(n int64, err error) error {
	if err == nil && n == 0 {
		return store.ErrNotFound
	}
	return translate(err)
}
