// Package blobtest is what every adapter of blob must pass. It stands beside the contract, so that a new adapter starts from
// a test that fails.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/internal/blob"
)

// Run runs the suite. open gives a store without blobs, and ends it with the test. damage changes the bytes of a blob behind
// the store's back, keeping their number.
func Run(t *testing.T, open func(*testing.T) blob.Store, damage func(*testing.T, blob.Store, enplace.Digest)) {
	for name, test := range map[string]func(*testing.T, blob.Store){
		"PutAndRead":        putAndRead,
		"Limit":             limit,
		"SourceFails":       sourceFails,
		"Cancelled":         cancelled,
		"NotFound":          notFound,
		"Seek":              seek,
		"ConcurrentPuts":    concurrentPuts,
		"Batch":             batch,
		"BatchDiscard":      batchDiscard,
		"BatchLimit":        batchLimit,
		"Collect":           collect,
		"CollectRewritten":  collectRewritten,
		"CollectBatch":      collectBatch,
		"CollectAndPutRace": collectAndPutRace,
		"Damaged": func(t *testing.T, s blob.Store) {
			damaged(t, s, func(d enplace.Digest) { damage(t, s, d) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// tick is more than the times of any store are coarse.
const tick = 25 * time.Millisecond

// content gives n bytes that are the same in every run, and their digest.
func content(n int) ([]byte, enplace.Digest) {
	r := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b, enplace.DigestOf(b)
}

func put(t *testing.T, s blob.Store, b []byte) enplace.Digest {
	t.Helper()
	i, err := s.Put(t.Context(), bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if i.Digest != enplace.DigestOf(b) || i.Bytes != int64(len(b)) {
		t.Fatalf("Put gave %+v", i)
	}
	return i.Digest
}

func read(t *testing.T, s blob.Store, d enplace.Digest) []byte {
	t.Helper()
	f, err := s.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	if f.Bytes() != int64(len(b)) {
		t.Errorf("Bytes is %d, and %d were read", f.Bytes(), len(b))
	}
	return b
}

func gone(t *testing.T, s blob.Store, d enplace.Digest) {
	t.Helper()
	if _, err := s.Stat(t.Context(), d); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Stat gave %v, not ErrNotFound", err)
	}
	if _, err := s.Open(t.Context(), d); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Open gave %v, not ErrNotFound", err)
	}
}

func putAndRead(t *testing.T, s blob.Store) {
	for _, n := range []int{0, 1, 128<<10 - 1, 128 << 10, 128<<10 + 1, 3 << 20} {
		want, d := content(n)
		put(t, s, want)
		put(t, s, want) // there already: a success
		if !bytes.Equal(read(t, s, d), want) {
			t.Errorf("%d bytes came back as others", n)
		}
		if i, err := s.Stat(t.Context(), d); err != nil || i != (blob.Info{Digest: d, Bytes: int64(n)}) {
			t.Errorf("Stat gave %+v, %v", i, err)
		}
	}
}

func limit(t *testing.T, s blob.Store) {
	for _, n := range []int{0, 1, 1000, 128 << 10, 1 << 20} {
		b, d := content(n)
		if n > 0 {
			_, err := s.Put(t.Context(), bytes.NewReader(b), int64(n)-1)
			if enplace.KindOf(err) != enplace.KindTooLarge {
				t.Errorf("one byte over %d gave %v", n-1, err)
			}
			gone(t, s, d)
			if n > 1 {
				gone(t, s, enplace.DigestOf(b[:n-1]))
			}
		}
		if _, err := s.Put(t.Context(), bytes.NewReader(b), int64(n)); err != nil {
			t.Errorf("%d bytes with the limit %d: %v", n, n, err)
		}
	}
}

func sourceFails(t *testing.T, s blob.Store) {
	broken := errors.New("broken pipe of the test")
	for _, n := range []int{0, 10, 1 << 20} {
		b, d := content(n)
		_, err := s.Put(t.Context(), io.MultiReader(bytes.NewReader(b), failing{broken}), 2<<20)
		if !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", n, err)
		}
		gone(t, s, d)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func cancelled(t *testing.T, s blob.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	b, d := content(1 << 20)
	first := true
	_, err := s.Put(ctx, readerFunc(func(p []byte) (int, error) {
		if !first {
			cancel()
		}
		first = false
		return copy(p, b), nil
	}), 1<<30)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Put gave %v", err)
	}
	gone(t, s, d)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func notFound(t *testing.T, s blob.Store) {
	_, d := content(7)
	hex := d.Hex()
	for _, d := range []enplace.Digest{
		d, "", "sha256:", enplace.Digest(hex), "sha256:" + enplace.Digest(strings.ToUpper(hex)),
		enplace.Digest("sha256:" + hex[:62]), "sha256:../../../../etc/passwd", enplace.Digest("sha256:" + hex + "/.."),
	} {
		gone(t, s, d)
	}
}

func seek(t *testing.T, s blob.Store) {
	want, _ := content(100_000)
	f, err := s.Open(t.Context(), put(t, s, want))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// As net/http serves a range: the size first, then a part.
	if n, err := f.Seek(0, io.SeekEnd); err != nil || n != 100_000 {
		t.Fatalf("the end is at %d, %v", n, err)
	}
	if n, err := f.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
	if _, err := f.Seek(-10, io.SeekCurrent); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); err != nil || !bytes.Equal(b, want[99_990:]) {
		t.Errorf("the last ten bytes: %v", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); err != nil || !bytes.Equal(b, want) {
		t.Errorf("all of it again: %v", err)
	}
	p := make([]byte, 10)
	if n, err := f.ReadAt(p, 500); n != 10 || err != nil || !bytes.Equal(p, want[500:510]) {
		t.Errorf("ReadAt: %d, %v", n, err)
	}
	if n, err := f.ReadAt(p, 99_995); n != 5 || err != io.EOF {
		t.Errorf("ReadAt over the end: %d, %v", n, err)
	}
	if _, err := f.Seek(-1, io.SeekStart); err == nil {
		t.Error("a seek before the start was taken")
	}
}

func concurrentPuts(t *testing.T, s blob.Store) {
	want, d := content(300_000)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if i, err := s.Put(t.Context(), bytes.NewReader(want), 300_000); err != nil || i.Digest != d {
				t.Errorf("Put: %+v, %v", i, err)
			}
			f, err := s.Open(t.Context(), d)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
				t.Errorf("other bytes: %v", err)
			}
		})
	}
	wg.Wait()
}

func begin(t *testing.T, s blob.Store) blob.Batch {
	t.Helper()
	b, err := s.Batch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func add(t *testing.T, b blob.Batch, p []byte) enplace.Digest {
	t.Helper()
	i, err := b.Add(t.Context(), bytes.NewReader(p), int64(len(p)))
	if err != nil {
		t.Fatal(err)
	}
	if i.Digest != enplace.DigestOf(p) || i.Bytes != int64(len(p)) {
		t.Fatalf("Add gave %+v", i)
	}
	return i.Digest
}

func batch(t *testing.T, s blob.Store) {
	there, _ := content(5)
	put(t, s, there)
	b := begin(t, s)
	all := [][]byte{there}
	for _, n := range []int{0, 10, 11, 200_000, 10} { // one of them twice
		p, _ := content(n)
		all = append(all, p)
	}
	for _, p := range all {
		add(t, b, p)
	}
	if err := b.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if !bytes.Equal(read(t, s, enplace.DigestOf(p)), p) {
			t.Errorf("%d bytes came back as others", len(p))
		}
	}
	if err := b.Discard(); err != nil {
		t.Error(err)
	}
	read(t, s, enplace.DigestOf(all[1]))
	if _, err := b.Add(t.Context(), strings.NewReader("late"), 4); err == nil {
		t.Error("a batch that ended took more")
	}
	if err := begin(t, s).Commit(t.Context()); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
}

func batchDiscard(t *testing.T, s blob.Store) {
	there, _ := content(5)
	put(t, s, there)
	b := begin(t, s)
	small, _ := content(10)
	large, _ := content(1 << 20)
	for _, p := range [][]byte{there, small, large} {
		add(t, b, p)
	}
	if err := b.Discard(); err != nil {
		t.Fatal(err)
	}
	gone(t, s, enplace.DigestOf(small))
	gone(t, s, enplace.DigestOf(large))
	read(t, s, enplace.DigestOf(there))
	if err := b.Commit(t.Context()); err == nil {
		t.Error("a batch that was discarded was committed")
	}
}

func batchLimit(t *testing.T, s blob.Store) {
	b := begin(t, s)
	p, d := content(200_000)
	if _, err := b.Add(t.Context(), bytes.NewReader(p), 199_999); enplace.KindOf(err) != enplace.KindTooLarge {
		t.Errorf("one byte over: %v", err)
	}
	q, _ := content(10)
	add(t, b, q)
	if err := b.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone(t, s, d)
	read(t, s, enplace.DigestOf(q))
}

func damaged(t *testing.T, s blob.Store, damage func(enplace.Digest)) {
	want, d := content(100_000)
	put(t, s, want)
	damage(d)
	f, err := s.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 2 { // a reader that starts over is told again
		if b, err := io.ReadAll(f); !errors.Is(err, blob.ErrDamaged) || len(b) >= len(want) {
			t.Errorf("%d bytes and %v of a damaged blob", len(b), err)
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
	}
	// One that counts, and never asks for the end, is told too.
	if n, err := io.CopyN(io.Discard, f, f.Bytes()); !errors.Is(err, blob.ErrDamaged) || n == f.Bytes() {
		t.Errorf("%d bytes and %v of a damaged blob", n, err)
	}
	put(t, s, want) // mends it
	if !bytes.Equal(read(t, s, d), want) {
		t.Error("putting the bytes again did not mend the blob")
	}
}
