package blobtest

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/internal/blob"
)

func collect(t *testing.T, s blob.Store) {
	kept, _ := content(100)
	dropped, _ := content(200)
	k, d := put(t, s, kept), put(t, s, dropped)
	keep := func(x enplace.Digest) bool { return x == k }

	if n, size, err := s.Collect(t.Context(), time.Now().Add(-time.Hour), keep); n != 0 || size != 0 || err != nil {
		t.Errorf("collecting what is older than an hour: %d, %d, %v", n, size, err)
	}
	f, err := s.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, size, err := s.Collect(t.Context(), time.Now().Add(time.Hour), keep); n != 1 || size != 200 || err != nil {
		t.Errorf("collecting: %d, %d, %v", n, size, err)
	}
	gone(t, s, d)
	read(t, s, k)
	if b, err := io.ReadAll(f); err != nil || !bytes.Equal(b, dropped) {
		t.Errorf("a blob that was open when it was collected: %v", err)
	}
}

func collectRewritten(t *testing.T, s blob.Store) {
	none := func(enplace.Digest) bool { return false }
	b, d := content(64)
	put(t, s, b)
	before := time.Now()
	put(t, s, b)
	if n, _, err := s.Collect(t.Context(), before, none); n != 0 || err != nil {
		t.Errorf("a blob written again was collected: %d, %v", n, err)
	}
	read(t, s, d)
}

func collectBatch(t *testing.T, s blob.Store) {
	none := func(enplace.Digest) bool { return false }
	b, d := content(64)
	put(t, s, b)
	group := begin(t, s)
	add(t, group, b)
	if n, _, err := s.Collect(t.Context(), time.Now().Add(time.Hour), none); n != 0 || err != nil {
		t.Errorf("a blob of a batch under way was collected: %d, %v", n, err)
	}
	if err := group.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	read(t, s, d)
}

// collectAndPutRace: a blob that is put again while it is collected stays, whichever comes first.
func collectAndPutRace(t *testing.T, s blob.Store) {
	for round := range 5 {
		var all [][]byte
		for i := range 8 {
			all = append(all, fmt.Appendf(nil, "blob %d of round %d", i, round))
			put(t, s, all[i])
		}
		// The clock has to pass before, or what is put again would rightly count as older too.
		before := time.Now().Add(tick)
		time.Sleep(2 * tick)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := s.Collect(t.Context(), before, func(enplace.Digest) bool { return false }); err != nil {
				t.Error(err)
			}
		})
		for _, b := range all {
			wg.Go(func() { put(t, s, b) })
		}
		wg.Wait()
		for _, b := range all {
			read(t, s, enplace.DigestOf(b))
		}
	}
}
