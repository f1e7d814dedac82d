// Package dir keeps blobs as files of one directory, for a server with its own disk. It is apart from the contract so that a
// server whose blobs lie in an object store needs no line changed above it.
//
// A blob with the digest sha256:aabbbb… is the file aa/bbbb…; what is being written lies in tmp and gets its name only when
// its bytes are on the disk. Whatever a crash leaves in tmp was never acknowledged, and is removed by Open.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"enplace"
	"enplace/internal/blob"
	"enplace/internal/durable"
)

const tmp = "tmp"

// clockTick is how far the times that the kernel gives to files may lag behind the clock.
const clockTick = 10 * time.Millisecond

// Store is a blob.Store in a directory.
type Store struct {
	root *os.Root
	dir  *os.File      // the directory itself, to sync its names
	temp atomic.Uint64 // names of files in tmp

	// pins counts who relies on a blob that was there before: a Put until it is done, a Batch until its end. Collect leaves
	// these alone, also where their time is old.
	mu   sync.Mutex
	pins map[enplace.Digest]int
}

var _ blob.Store = (*Store)(nil)

// Open opens the directory, making it with mode 0700 when there is none. No other process may use it: the caller holds the
// lock on the data directory.
func Open(name string) (_ *Store, err error) {
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of blobs: %w", err)
	}
	s := &Store{pins: map[enplace.Digest]int{}}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if s.root, err = os.OpenRoot(name); err != nil {
		return nil, fmt.Errorf("opening the folder of blobs: %w", err)
	}
	if s.dir, err = s.root.Open("."); err != nil {
		return nil, fmt.Errorf("opening the folder of blobs: %w", err)
	}
	if err := s.root.RemoveAll(tmp); err != nil {
		return nil, fmt.Errorf("removing what was never finished: %w", err)
	}
	// All folders now, so that no write has to think of a folder that is not on the disk yet.
	folders := []string{tmp}
	for i := range 256 {
		folders = append(folders, fmt.Sprintf("%02x", i))
	}
	for _, f := range folders {
		if err := s.root.Mkdir(f, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("making the folder of blobs: %w", durable.Full(err))
		}
	}
	if err := errors.Join(s.dir.Sync(), durable.SyncFolder(filepath.Dir(name))); err != nil {
		return nil, fmt.Errorf("making the folder of blobs: %w", durable.Full(err))
	}
	return s, nil
}

// Close closes the directory. Blobs that are open stay so.
func (s *Store) Close() error {
	var errs []error
	if s.dir != nil {
		errs = append(errs, s.dir.Close())
	}
	if s.root != nil {
		errs = append(errs, s.root.Close())
	}
	return errors.Join(errs...)
}

// file is where a digest's bytes lie, or "" for what is no digest.
func file(d enplace.Digest) string {
	h := d.Hex()
	if h == "" {
		return ""
	}
	return path.Join(h[:2], h[2:])
}

func (s *Store) tempName() string { return path.Join(tmp, strconv.FormatUint(s.temp.Add(1), 36)) }

// pin keeps Collect from a blob until the function it gives is called.
func (s *Store) pin(d enplace.Digest) (unpin func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins[d]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pins[d]--; s.pins[d] == 0 {
			delete(s.pins, d)
		}
	}
}

// Stat gives the size, or blob.ErrNotFound.
func (s *Store) Stat(_ context.Context, d enplace.Digest) (blob.Info, error) {
	name := file(d)
	if name == "" {
		return blob.Info{}, blob.ErrNotFound
	}
	st, err := s.root.Lstat(name)
	if errors.Is(err, os.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
		return blob.Info{}, blob.ErrNotFound
	}
	if err != nil {
		return blob.Info{}, fmt.Errorf("looking up a blob: %w", err)
	}
	return blob.Info{Digest: d, Bytes: st.Size()}, nil
}

// Collect removes the blobs that keep refuses and that were last written before then.
func (s *Store) Collect(ctx context.Context, before time.Time, keep func(enplace.Digest) bool) (n int, bytes int64, err error) {
	before = before.Add(-clockTick)
	for i := range 256 {
		if err := ctx.Err(); err != nil {
			return n, bytes, err
		}
		folder := fmt.Sprintf("%02x", i)
		d, err := s.root.Open(folder)
		if err != nil {
			return n, bytes, fmt.Errorf("listing blobs: %w", err)
		}
		names, err := d.Readdirnames(-1)
		_ = d.Close()
		if err != nil {
			return n, bytes, fmt.Errorf("listing blobs: %w", err)
		}
		for _, name := range names {
			digest := enplace.Digest("sha256:" + folder + name)
			if digest.Hex() == "" || keep(digest) {
				continue
			}
			size, err := s.remove(digest, before)
			if err != nil {
				return n, bytes, err
			}
			if size >= 0 {
				n++
				bytes += size
			}
		}
	}
	return n, bytes, nil
}

// remove removes one blob and gives its size, or -1 where it is pinned, too young or gone. Looking and removing are one step
// for whoever pins: after a pin the blob is there, or is seen not to be.
func (s *Store) remove(d enplace.Digest, before time.Time) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins[d] > 0 {
		return -1, nil
	}
	st, err := s.root.Lstat(file(d))
	if errors.Is(err, os.ErrNotExist) || err == nil && !st.ModTime().Before(before) {
		if err == nil && time.Until(st.ModTime()) > clockTick { // of a time when the clock was ahead: it counts from now
			return -1, s.touch(d)
		}
		return -1, nil
	}
	if err == nil {
		err = s.root.Remove(file(d))
	}
	if err != nil {
		return -1, fmt.Errorf("removing a blob: %w", err)
	}
	return st.Size(), nil
}

// syncFolder makes a name durable.
func (s *Store) syncFolder(name string) error {
	d, err := s.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer d.Close()
	return durable.Full(d.Sync())
}

// same reports whether the blob is there with its right bytes. A damaged file is not, and gets replaced.
func (s *Store) same(i blob.Info) bool {
	f, err := s.open(i.Digest)
	if err != nil {
		return false
	}
	defer f.Close()
	if f.Bytes() != i.Bytes {
		return false
	}
	_, err = io.Copy(io.Discard, f)
	return err == nil
}

// touch makes a blob count as written now.
func (s *Store) touch(d enplace.Digest) error {
	now := time.Now()
	return s.root.Chtimes(file(d), now, now)
}
