package image

import (
	"golang.org/x/sys/unix"

	"enplace"
)

// Modes are the ways of mounting, best first.
var Modes = []string{string(modeFile), string(modeLoop), string(modeDirectories)}

// Force has a store mount in one way, whatever the host is able to, and with attached as on a kernel that does not stack
// detached mounts.
func Force(s *Store, how string, attached bool) {
	s.mode = mode(how)
	s.attached.needed.Store(attached)
}

// Drop takes an idle image out of the books, as happens when too many are idle, and gives what then unmounts it.
func Drop(s *Store, d enplace.Digest) (unmount func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.mounts[d]
	s.forget(m)
	return m.unmount
}

// Killed takes a store's lock away, as the kernel does with that of a killed process.
func Killed(s *Store) error { return unix.Flock(int(s.lock.Fd()), unix.LOCK_UN) }
