package dir_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"
)

// BenchmarkImport is the import of a project: 20,000 small files, durable at its end.
func BenchmarkImport(b *testing.B) {
	s := open(b, b.TempDir())
	p := make([]byte, 2048)
	var n uint64
	for b.Loop() {
		group, err := s.Batch(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for range 20_000 {
			n++
			binary.LittleEndian.PutUint64(p, n)
			if _, err := group.Add(b.Context(), bytes.NewReader(p), 1<<20); err != nil {
				b.Fatal(err)
			}
		}
		if err := group.Commit(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPut is one file of 1 GiB, written durably and read back with its check.
func BenchmarkPut(b *testing.B) {
	s := open(b, b.TempDir())
	const size = 1 << 30
	b.SetBytes(size)
	var seed byte
	for b.Loop() {
		seed++
		i, err := s.Put(b.Context(), io.LimitReader(rand.NewChaCha8([32]byte{seed}), size), size)
		if err != nil {
			b.Fatal(err)
		}
		f, err := s.Open(b.Context(), i.Digest)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, f); err != nil {
			b.Fatal(err)
		}
		_ = f.Close()
	}
}
