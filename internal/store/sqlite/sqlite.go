// Package sqlite is the store in one SQLite file, for a server that is alone with its data directory. It is apart from the
// contract so that nothing above knows which database runs; the queries, in package db, are written for PostgreSQL as well.
//
// Writes go through one connection, one transaction at a time: SQLite has one writer, and waiting in Go is fair and ends
// with the context, where its own busy loop is neither. Reads go through a pool and see the last commit.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	_ "modernc.org/sqlite" // registers the driver

	"enplace/internal/durable"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

// Store is a store.Store in one file.
type Store struct {
	writer, readers *sql.DB
	write, read     *db.Queries
}

var _ store.Store = (*Store)(nil)

// Open opens the database file at path, made with mode 0600 when there is none, and migrates it. No other process may have
// it open so: the caller holds the lock on the data directory.
func Open(ctx context.Context, path string) (*Store, error) {
	if err := create(path); err != nil {
		return nil, fmt.Errorf("creating the database: %w", err)
	}
	return open(ctx, path, migrate)
}

// OpenBeside opens a database that is there, also while a server has it open: for a change that needs no server and that no server
// holds in memory. SQLite has such writers wait for each other. A database of another schema is refused and not migrated: the
// server may be of another version.
func OpenBeside(ctx context.Context, path string) (*Store, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	return open(ctx, path, current)
}

func open(ctx context.Context, path string, prepare func(context.Context, *sql.DB) error) (_ *Store, err error) {
	s := &Store{}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	// FULL: a commit is on the disk before it is acknowledged, in WAL mode too.
	s.writer, err = sql.Open("sqlite", dsn(path, "immediate", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "journal_size_limit(67108864)"))
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	s.writer.SetMaxOpenConns(1)
	if err := prepare(ctx, s.writer); err != nil {
		return nil, translate(err)
	}
	s.readers, err = sql.Open("sqlite", dsn(path, "deferred", "query_only(1)"))
	if err != nil {
		return nil, fmt.Errorf("opening the database for reading: %w", err)
	}
	n := max(4, runtime.GOMAXPROCS(0))
	s.readers.SetMaxOpenConns(n)
	s.readers.SetMaxIdleConns(n)
	// Preparing every query here also proves each against the schema as it is now.
	if s.write, err = db.Prepare(ctx, s.writer); err != nil {
		return nil, fmt.Errorf("preparing the database: %w", err)
	}
	if s.read, err = db.Prepare(ctx, s.readers); err != nil {
		return nil, fmt.Errorf("preparing the database for reading: %w", err)
	}
	return s, nil
}

// create makes the file before SQLite does: with its mode, that the log beside it inherits, and with its name on the disk.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), durable.SyncFolder(filepath.Dir(path)))
}

func dsn(path, txlock string, pragmas ...string) string {
	q := url.Values{"_txlock": {txlock}, "_pragma": append([]string{"busy_timeout(10000)", "trusted_schema(0)"}, pragmas...)}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}).String()
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.readers.PingContext(ctx); err != nil {
		return fmt.Errorf("asking the database: %w", err)
	}
	return nil
}

// Close closes the database. Its log is written back to the file.
func (s *Store) Close() error {
	var errs []error
	// The writer last: the connection that closes last writes the log back, and readers may not write.
	for _, q := range []*db.Queries{s.read, s.write} {
		if q != nil {
			errs = append(errs, q.Close())
		}
	}
	for _, d := range []*sql.DB{s.readers, s.writer} {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	return errors.Join(errs...)
}

// change runs fn in a transaction of the writer. An error of fn leaves nothing.
func (s *Store) change(ctx context.Context, fn func(*db.Queries) error) error {
	return transact(ctx, s.writer, s.write, fn)
}

// view runs fn on one state of the database, whatever is committed meanwhile.
func (s *Store) view(ctx context.Context, fn func(*db.Queries) error) error {
	return transact(ctx, s.readers, s.read, fn)
}

func transact(ctx context.Context, d *sql.DB, q *db.Queries, fn func(*db.Queries) error) error {
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return translate(err)
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := fn(q.WithTx(tx)); err != nil {
		return translate(err)
	}
	return translate(tx.Commit())
}
