package dir

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"enplace"
	"enplace/internal/blob"
)

// Open gives a blob to read, or blob.ErrNotFound.
func (s *Store) Open(_ context.Context, d enplace.Digest) (blob.Blob, error) {
	r, err := s.open(d)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (s *Store) open(d enplace.Digest) (*reader, error) {
	name := file(d)
	if name == "" {
		return nil, blob.ErrNotFound
	}
	f, err := s.root.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, blob.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("opening a blob: %w", err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = blob.ErrNotFound
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("opening a blob: %w", err)
	}
	return &reader{f: f, digest: d, size: st.Size(), sum: sha256.New()}, nil
}

// reader reads a blob and hashes what it reads as long as it is read from its start without a gap.
type reader struct {
	f      *os.File
	digest enplace.Digest
	size   int64
	pos    int64
	hashed int64 // how many bytes from the start sum holds
	sum    hash.Hash
}

// Read withholds the last bytes until they are known to be right: a reader that counts, as HTTP does, never asks for io.EOF.
func (r *reader) Read(p []byte) (int, error) {
	if r.pos == 0 {
		r.sum.Reset()
		r.hashed = 0
	}
	if r.pos >= r.size {
		return 0, r.end(io.EOF)
	}
	n, err := r.f.ReadAt(p[:min(int64(len(p)), r.size-r.pos)], r.pos)
	if errors.Is(err, io.EOF) {
		if n == 0 { // it became shorter
			return 0, fmt.Errorf("reading %s: %w", r.digest, blob.ErrDamaged)
		}
		err = nil
	}
	if r.hashed == r.pos {
		r.sum.Write(p[:n])
		r.hashed += int64(n)
	}
	r.pos += int64(n)
	if r.pos == r.size && err == nil {
		if err := r.end(nil); err != nil {
			return 0, err
		}
	}
	return n, err
}

// end gives err where all was read in order and is right, or was not read in order; else blob.ErrDamaged.
func (r *reader) end(err error) error {
	if r.hashed == r.size && enplace.NewDigest(r.sum.Sum(nil)) != r.digest {
		return fmt.Errorf("reading %s: %w", r.digest, blob.ErrDamaged)
	}
	return err
}

func (r *reader) ReadAt(p []byte, off int64) (int, error) { return r.f.ReadAt(p, off) }

func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.pos
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return 0, errors.New("seeking before the start of a blob")
	}
	r.pos = offset
	return offset, nil
}

func (r *reader) Bytes() int64 { return r.size }

func (r *reader) Close() error { return r.f.Close() }
