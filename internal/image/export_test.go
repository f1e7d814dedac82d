package image

// Modes are the ways of mounting, best first.
var Modes = []string{string(modeFile), string(modeLoop), string(modeDirectories)}

// Force has a store mount in one way, whatever the host is able to, and with attached as on a kernel that does not stack
// detached mounts.
func Force(s *Store, how string, attached bool) {
	s.mode = mode(how)
	s.attached.needed.Store(attached)
}
