package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"enplace"
	"enplace/internal/store"
)

// Times are microseconds since 1970 in columns, and UTC outside.

func micros(t time.Time) int64 { return t.UnixMicro() }

func fromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }

func microsPtr(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	us := t.UnixMicro()
	return &us
}

func fromMicrosPtr(us *int64) *time.Time {
	if us == nil {
		return nil
	}
	t := fromMicros(*us)
	return &t
}

// kept is a time as it comes out of a column, for those that stand in nested values.
func kept(t time.Time) time.Time { return fromMicros(micros(t)) }

func keptPtr(t *time.Time) *time.Time { return fromMicrosPtr(microsPtr(t)) }

// nullable gives NULL for "": a column that refers to another record holds its name or nothing.
func nullable(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func intPtr(n *int64) *int {
	if n == nil {
		return nil
	}
	i := int(*n)
	return &i
}

func int64Ptr(n *int) *int64 {
	if n == nil {
		return nil
	}
	i := int64(*n)
	return &i
}

func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encoding %T: %w", v, err)
	}
	return string(b), nil
}

func decode(s string, v any) error {
	if err := json.Unmarshal([]byte(s), v); err != nil {
		return fmt.Errorf("decoding the stored %T: %w", v, err)
	}
	return nil
}

// newest reads the cursor of a list that begins with what came last. Ids say the order in which things came.
func newest(p enplace.Page) (before string, err error) {
	before = "~" // behind every id
	err = store.ParseCursor(p.Cursor, &before)
	return before, err
}

// lastUsed is where a list by time of use goes on.
type lastUsed struct {
	at   int64
	hash string
}

// latest reads the cursor of a list that begins with what was used last.
func latest(p enplace.Page) (lastUsed, error) {
	pos := lastUsed{at: math.MaxInt64}
	err := store.ParseCursor(p.Cursor, &pos.at, &pos.hash)
	return pos, err
}

// newestN reads the cursor of a list by number that begins with the highest.
func newestN(p enplace.Page) (int64, error) {
	n := int64(math.MaxInt64)
	err := store.ParseCursor(p.Cursor, &n)
	return n, err
}

// following reads the cursor of a list by name.
func following(p enplace.Page) (after string, err error) {
	err = store.ParseCursor(p.Cursor, &after)
	return after, err
}

func fetch(p enplace.Page) int32 { return int32(store.Fetch(p)) }

// convert turns rows into what they stand for.
func convert[R, T any](rows []R, err error, from func(R) (T, error)) ([]T, error) {
	if err != nil {
		return nil, translate(err)
	}
	out := make([]T, 0, len(rows))
	for _, r := range rows {
		v, err := from(r)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
