package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"enplace"
)

// maxIdle bounds the images that stay mounted while nobody has them: the kernel's cache of their files is dropped with the
// mount.
const maxIdle = 16

// mounted is an image that all its layers share. refs is guarded by the store's lock; mu is held while it is mounted.
type mounted struct {
	store  *Store
	digest enplace.Digest
	refs   int

	mu         sync.Mutex
	mount      *os.File // nil until it is mounted
	attachedAt string   // where, on kernels that need it; see attached.go
}

// Layer is an acquired image: mounted, and kept by Collect until Close. It is safe for concurrent use.
type Layer struct {
	shared *mounted
	close  sync.Once
}

// Acquire verifies an image and what it refers to, unless this process has already, and mounts it detached, read only, nosuid and nodev. All
// layers of one image share one mount, which is part of no mount namespace and cannot outlive the process. ErrNotFound, or
// what Verify gives.
func (s *Store) Acquire(ctx context.Context, d enplace.Digest) (*Layer, error) {
	m := s.take(d)
	if err := m.ensure(ctx); err != nil {
		s.release(m)
		return nil, err
	}
	return &Layer{shared: m}, nil
}

func (s *Store) take(d enplace.Digest) *mounted {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.mounts[d]
	if m == nil {
		m = &mounted{store: s, digest: d}
		s.mounts[d] = m
	}
	if d.Hex() != "" {
		s.touch(d)
	}
	if i := slices.Index(s.idle, m); i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
	m.refs++
	return m
}

// release gives back one reference. The mount stays for a while in case it is wanted again; one that failed does not.
func (s *Store) release(m *mounted) {
	s.mu.Lock()
	m.refs--
	var drop *mounted
	switch {
	case m.refs > 0:
	case m.mount == nil:
		s.forget(m)
	default:
		s.idle = append(s.idle, m)
		if len(s.idle) > maxIdle {
			drop = s.idle[0]
			s.forget(drop)
		}
	}
	s.mu.Unlock()
	if drop != nil {
		_ = drop.unmount() // nobody uses it; at worst it goes with the process
	}
}

// forget takes a mount without references out of the books. The store's lock is held.
func (s *Store) forget(m *mounted) {
	delete(s.mounts, m.digest)
	if i := slices.Index(s.idle, m); i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
}

func (m *mounted) ensure(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mount != nil {
		return nil
	}
	o, err := m.store.openVerified(ctx, m.digest)
	if err != nil {
		return err
	}
	defer o.Close()
	mount, err := m.store.mount(ctx, m.digest, o)
	if err != nil {
		return fmt.Errorf("mounting image %s: %w", m.digest, err)
	}
	m.mount = mount
	return nil
}

func (m *mounted) unmount() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mount == nil {
		return nil
	}
	err := errors.Join(m.detach(), m.mount.Close())
	m.mount = nil
	return err
}

// FD is a descriptor of the root of the detached mount, for openat and the like. It is the layer's: it is valid until Close,
// and is not to be closed or moved.
func (l *Layer) FD() int { return int(l.shared.mount.Fd()) }

// Digest names the image.
func (l *Layer) Digest() enplace.Digest { return l.shared.digest }

// Close gives the layer back. Stacks made of it go on working, but nothing keeps the image's file any more. Closing twice is
// no error.
func (l *Layer) Close() error {
	l.close.Do(func() { l.shared.store.release(l.shared) })
	return nil
}
