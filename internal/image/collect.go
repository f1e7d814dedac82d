package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"enplace"
)

// Collect removes the images that keep refuses and gives their number and bytes. It never removes one that is acquired, nor
// one that was packed, stat-ed, verified or acquired within Grace. keep is called without a lock held; an image that
// comes into use after its answer is spared.
func (s *Store) Collect(ctx context.Context, keep func(enplace.Digest) bool) (n int, bytes int64, err error) {
	entries, err := os.ReadDir(s.images)
	if err != nil {
		return 0, 0, fmt.Errorf("collecting images: %w", err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return n, bytes, err
		}
		d := enplace.Digest("sha256:" + e.Name())
		if d.Hex() == "" || keep(d) {
			continue
		}
		size, err := s.remove(d)
		if err != nil {
			return n, bytes, fmt.Errorf("collecting image %s: %w", d, err)
		}
		if size > 0 {
			n++
			bytes += size
		}
	}
	return n, bytes, nil
}

// remove removes an image that nothing uses, and gives its size; 0 when it stays.
func (s *Store) remove(d enplace.Digest) (int64, error) {
	s.mu.Lock()
	m := s.mounts[d]
	var st unix.Stat_t
	if err := unix.Lstat(s.path(d), &st); err != nil {
		s.mu.Unlock()
		return 0, err
	}
	used := max(st.Atim.Nano(), st.Mtim.Nano())
	if m != nil && m.refs > 0 || time.Since(time.Unix(0, used)) < s.Grace {
		s.mu.Unlock()
		return 0, nil
	}
	if m != nil {
		s.forget(m)
	}
	delete(s.verified, d)
	err := os.Remove(s.path(d))
	unpacked := filepath.Join(s.tmp, "collected-"+d.Hex())
	_ = os.Rename(filepath.Join(s.unpackedDir(), d.Hex()), unpacked) // under the lock, so that nobody acquires half of it
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if m != nil {
		if err := m.unmount(); err != nil {
			return st.Size, err
		}
	}
	return st.Size, os.RemoveAll(unpacked)
}
