package dir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"enplace"
	"enplace/internal/blob"
	"enplace/internal/durable"
)

// inMemory is how many bytes are read before a file is made: most blobs end within, and those that are there already cost
// no file at all.
const inMemory = 128 << 10

// written is content that was read whole: in a file of tmp, or still in memory.
type written struct {
	blob.Info
	memory []byte   // set when file is nil
	file   *os.File // open, in tmp
	name   string   // of file
}

// drop forgets it. It may be called more than once.
func (s *Store) drop(w *written) {
	if w.file != nil {
		_ = w.file.Close()
		_ = s.root.Remove(w.name)
		w.file = nil
	}
	w.memory = nil
}

// read reads all that r gives, at most limit bytes.
func (s *Store) read(ctx context.Context, r io.Reader, limit int64) (*written, error) {
	sum := sha256.New()
	// One byte past the limit tells over it from equal to it.
	in := io.TeeReader(io.LimitReader(contextReader{ctx, r}, min(limit, math.MaxInt64-1)+1), sum)
	var head bytes.Buffer
	n, err := io.CopyN(&head, in, inMemory)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	w := &written{memory: head.Bytes()}
	if err == nil { // there may be more
		if err := s.spill(w); err != nil {
			return nil, err
		}
		more, err := io.Copy(w.file, in)
		if err != nil {
			s.drop(w)
			return nil, durable.Full(err)
		}
		n += more
	}
	if n > limit {
		s.drop(w)
		return nil, enplace.TooLargef("has more than %d bytes, the limit", limit)
	}
	w.Info = blob.Info{Digest: enplace.NewDigest(sum.Sum(nil)), Bytes: n}
	return w, nil
}

// spill moves what is in memory to a file of tmp.
func (s *Store) spill(w *written) error {
	if w.file != nil {
		return nil
	}
	name := s.tempName()
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("making a temporary file: %w", durable.Full(err))
	}
	w.file, w.name = f, name
	if _, err := f.Write(w.memory); err != nil {
		s.drop(w)
		return fmt.Errorf("writing a temporary file: %w", durable.Full(err))
	}
	w.memory = nil
	return nil
}

// Put writes what r gives, at most limit bytes.
func (s *Store) Put(ctx context.Context, r io.Reader, limit int64) (blob.Info, error) {
	w, err := s.read(ctx, r, limit)
	if err != nil {
		return blob.Info{}, err
	}
	defer s.drop(w)
	defer s.pin(w.Digest)()
	name := file(w.Digest)
	if s.same(w.Info) {
		// It may be there only just, by a batch that is not on the disk yet.
		if err := s.touch(w.Digest); err != nil {
			return blob.Info{}, fmt.Errorf("renewing a blob: %w", err)
		}
		if err := s.syncFile(name); err != nil {
			return blob.Info{}, fmt.Errorf("syncing a blob: %w", err)
		}
		return w.Info, nil
	}
	if err := s.spill(w); err != nil {
		return blob.Info{}, err
	}
	if err := w.file.Sync(); err != nil {
		return blob.Info{}, fmt.Errorf("syncing a blob: %w", durable.Full(err))
	}
	if err := s.root.Rename(w.name, name); err != nil {
		return blob.Info{}, fmt.Errorf("naming a blob: %w", durable.Full(err))
	}
	if err := s.syncFolder(name); err != nil {
		return blob.Info{}, fmt.Errorf("syncing a blob: %w", err)
	}
	return w.Info, nil
}

// syncFile makes a file and its name durable.
func (s *Store) syncFile(name string) error {
	f, err := s.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return durable.Full(err)
	}
	return s.syncFolder(name)
}

// Batch starts a group of blobs.
func (s *Store) Batch(context.Context) (blob.Batch, error) {
	d, err := s.root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("starting a batch of blobs: %w", err)
	}
	return &batch{s: s, dir: d, temp: map[enplace.Digest]string{}, unpin: map[enplace.Digest]func(){}}, nil
}

// batch is a blob.Batch. Each blob in it is pinned until its end, whether it was there before or not.
type batch struct {
	s     *Store
	dir   *os.File                  // opened for this batch alone; see sync
	temp  map[enplace.Digest]string // names in tmp of what is to be named
	unpin map[enplace.Digest]func()
	ended bool
}

var errEnded = errors.New("the batch has ended")

func (b *batch) Add(ctx context.Context, r io.Reader, limit int64) (blob.Info, error) {
	if b.ended {
		return blob.Info{}, errEnded
	}
	w, err := b.s.read(ctx, r, limit)
	if err != nil {
		return blob.Info{}, err
	}
	defer b.s.drop(w)
	if b.unpin[w.Digest] != nil { // seen in this batch
		return w.Info, nil
	}
	unpin := b.s.pin(w.Digest)
	if b.s.same(w.Info) {
		err = b.s.touch(w.Digest)
	} else if err = b.s.spill(w); err == nil {
		err = w.file.Close()
		if err == nil {
			b.temp[w.Digest], w.file = w.name, nil // kept
		}
	}
	if err != nil {
		unpin()
		return blob.Info{}, fmt.Errorf("writing a blob: %w", durable.Full(err))
	}
	b.unpin[w.Digest] = unpin
	return w.Info, nil
}

// sync writes the whole file system out: one wait for any number of files. The kernel tells of bytes that it could not write once
// for each open file, so a descriptor shared with another batch could have told that one of what this one lost.
func (b *batch) sync() error {
	if err := unix.Syncfs(int(b.dir.Fd())); err != nil {
		return fmt.Errorf("syncing blobs: %w", durable.Full(err))
	}
	return nil
}

// Commit syncs the bytes before any of them has a name, and the names before it says so. Two syncs of the file system, where
// one for each of 20,000 files would take minutes.
func (b *batch) Commit(ctx context.Context) error {
	if b.ended {
		return errEnded
	}
	defer b.Discard()
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(b.temp) > 0 {
		if err := b.sync(); err != nil {
			return err
		}
	}
	for d, name := range b.temp {
		if err := b.s.root.Rename(name, file(d)); err != nil {
			return fmt.Errorf("naming blobs: %w", durable.Full(err))
		}
		delete(b.temp, d)
	}
	if len(b.unpin) > 0 {
		if err := b.sync(); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) Discard() error {
	if b.ended {
		return nil
	}
	b.ended = true
	errs := []error{b.dir.Close()}
	for d, name := range b.temp {
		if err := b.s.root.Remove(name); err != nil {
			errs = append(errs, fmt.Errorf("removing a temporary file: %w", err))
		}
		delete(b.temp, d)
	}
	for d, unpin := range b.unpin {
		unpin()
		delete(b.unpin, d)
	}
	return errors.Join(errs...)
}

// contextReader ends a read with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
