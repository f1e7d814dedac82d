package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"enplace"
)

// Collect removes the images that keep refuses and gives their number and the bytes of their files. It never removes one that
// is acquired, one that was packed, stat-ed, verified or acquired within Grace, nor one that an image of the store refers to.
// keep is called without a lock held; an image that comes into use after its answer is spared.
func (s *Store) Collect(ctx context.Context, keep func(enplace.Digest) bool) (n int, bytes int64, err error) {
	entries, err := os.ReadDir(s.images)
	if err != nil {
		return 0, 0, fmt.Errorf("collecting images: %w", err)
	}
	var refused []enplace.Digest
	for _, e := range entries {
		d := enplace.Digest("sha256:" + e.Name())
		if d.Hex() == "" {
			continue
		}
		if err := s.learn(d); err != nil {
			return 0, 0, fmt.Errorf("collecting images: %w", err)
		}
		if !keep(d) {
			refused = append(refused, d)
		}
	}
	for again := true; again; { // what goes may be what kept others
		var left []enplace.Digest
		for _, d := range refused {
			if err := ctx.Err(); err != nil {
				return n, bytes, err
			}
			size, removed, err := s.remove(d)
			if err != nil {
				return n, bytes, fmt.Errorf("collecting image %s: %w", d, err)
			}
			if !removed {
				left = append(left, d)
				continue
			}
			n++
			bytes += size
		}
		again = len(left) < len(refused)
		refused = left
	}
	return n, bytes, nil
}

// learn finds out what an image refers to, without marking it as used. A damaged one is of no use, and keeps nothing.
func (s *Store) learn(d enplace.Digest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.refers[d]; ok {
		return nil
	}
	f, err := os.OpenFile(s.path(d), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NOATIME, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	h, err := readHeader(f)
	if err == nil {
		s.refers[d] = h.images()
	}
	return nil
}

// isReferred says whether an image of the store reads the bytes of another. The lock is held.
func (s *Store) isReferred(d enplace.Digest) bool {
	for _, refers := range s.refers {
		if slices.Contains(refers, d) {
			return true
		}
	}
	return false
}

// remove removes an image that nothing uses, and gives its size.
func (s *Store) remove(d enplace.Digest) (size int64, removed bool, err error) {
	s.mu.Lock()
	m := s.mounts[d]
	var st unix.Stat_t
	if err := unix.Lstat(s.path(d), &st); err != nil {
		s.mu.Unlock()
		return 0, false, err
	}
	idle := time.Since(time.Unix(0, max(st.Atim.Nano(), st.Mtim.Nano())))
	if m != nil && m.refs > 0 || idle < s.Grace || s.isReferred(d) {
		if idle < 0 { // of a time when the clock was ahead: it counts from now, or would stay until then
			_ = os.Chtimes(s.path(d), time.Now(), time.Now())
		}
		s.mu.Unlock()
		return 0, false, nil
	}
	if m != nil {
		s.forget(m)
	}
	delete(s.verified, d)
	if err = os.Remove(s.path(d)); err == nil {
		delete(s.refers, d)
	}
	unpacked := filepath.Join(s.tmp, "collected-"+d.Hex())
	_ = os.Rename(filepath.Join(s.unpackedDir(), d.Hex()), unpacked) // under the lock, so that nobody acquires half of it
	s.mu.Unlock()
	if err != nil {
		return 0, false, err
	}
	if m != nil {
		if err := m.unmount(); err != nil {
			return st.Size, true, err
		}
	}
	return st.Size, true, os.RemoveAll(unpacked)
}
