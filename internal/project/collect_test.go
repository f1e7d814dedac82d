package project

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"enplace"
	"enplace/internal/sandbox"
	"enplace/internal/store/sqlite"
)

// dropped notes the caches that it is asked to drop; nothing else of a runtime is called here.
type dropped struct {
	sandbox.Runtime
	caches []string
}

func (d *dropped) DropCache(_ context.Context, name string) error {
	d.caches = append(d.caches, name)
	return nil
}

// A server that is killed while it deletes an environment leaves downloads and logs that no record names. Collect finds them.
func TestDeletionCutShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st, err := sqlite.Open(t.Context(), filepath.Join(dir, "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	rt, logs := &dropped{}, filepath.Join(dir, "logs")
	s := New(Config{Store: st, Runtime: rt, Logger: slog.New(slog.DiscardHandler), Now: time.Now, LogDir: logs})
	kept, gone := enplace.NewID(enplace.PrefixEnvironment, time.Now()), enplace.NewID(enplace.PrefixEnvironment, time.Now())
	if err := st.CreateEnvironment(t.Context(), enplace.Environment{ID: kept, Name: "kept", Slug: "kept", Owner: "operator"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{kept, gone} {
		if err := os.MkdirAll(filepath.Join(logs, id), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.sweepDeleted(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(logs)
	if err != nil || len(left) != 1 || left[0].Name() != kept || !slices.Equal(rt.caches, []string{gone}) {
		t.Errorf("logs of %v are left, %v; the caches %v were dropped", left, err, rt.caches)
	}
}
