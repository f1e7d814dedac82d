package project

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"enplace/internal/base"
	"enplace/internal/blob/dir"
	"enplace/internal/image"
	"enplace/internal/store"
	"enplace/internal/store/sqlite"
)

// After the clock was set ahead everything looks old, what a build or an import has just written as well. It is kept until dates can
// be relied on again.
func TestCollectAfterTheClockWasSet(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	st, err := sqlite.Open(t.Context(), filepath.Join(folder, "db"))
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := dir.Open(filepath.Join(folder, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	images, err := image.Open(filepath.Join(folder, "images"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []func() error{images.Close, blobs.Close, st.Close} {
			if err := c(); err != nil {
				t.Error(err)
			}
		}
	})
	settled := false
	s := New(Config{Store: st, Blobs: blobs, Images: images, Runtime: &dropped{}, Logger: slog.New(slog.DiscardHandler), Now: time.Now, LogDir: filepath.Join(folder, "logs"),
		Base: func() (base.Base, bool) { return base.Base{}, false }, Settled: func(time.Duration) bool { return settled }})
	if _, err := blobs.Put(t.Context(), strings.NewReader("on its way"), 100); err != nil {
		t.Fatal(err)
	}
	packed, err := images.Pack(t.Context(), fstest.MapFS{})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.PutStep(t.Context(), "step", store.StepResult{}, time.Now().Add(-10*365*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-24 * time.Hour)
	for _, file := range []string{filepath.Join("blobs", "*", "*"), filepath.Join("images", "sha256", packed.Digest.Hex())} {
		found, err := filepath.Glob(filepath.Join(folder, file))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		if err := os.Chtimes(found[0], old, old); err != nil {
			t.Fatal(err)
		}
	}
	for _, settled = range []bool{false, true} {
		done, err := s.Collect(t.Context())
		all := done.Steps == 1 && done.Images == 1 && done.Blobs == 1
		none := done == Collected{}
		if err != nil || settled && !all || !settled && !none {
			t.Errorf("settled is %v: %+v, %v", settled, done, err)
		}
	}
	if _, err := images.Stat(packed.Digest); err == nil {
		t.Error("the image is still there")
	}
}
