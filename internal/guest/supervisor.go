package guest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"enplace"
)

// maxIdle is how many supervisors wait for their next command: starting one costs a millisecond, keeping one some memory.
const maxIdle = 2

// supervisor is process 1's end of a supervisor.
type supervisor struct {
	kid  *kid
	conn *net.UnixConn
}

// supervisor gives an idle supervisor, or a new one.
func (t *table) supervisor() (*supervisor, error) {
	t.mu.Lock()
	for len(t.idle) > 0 {
		s := t.idle[len(t.idle)-1]
		t.idle = t.idle[:len(t.idle)-1]
		s.kid.idle = false
		if s.kid.alive() {
			t.mu.Unlock()
			return s, nil
		}
		_ = s.conn.Close()
	}
	t.mu.Unlock()
	return t.newSupervisor()
}

// release takes back a supervisor that has no process below it.
func (t *table) release(s *supervisor) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.kid.alive() && len(t.idle) < maxIdle {
		s.kid.idle = true
		t.idle = append(t.idle, s)
		return
	}
	_ = s.conn.Close() // ends it
}

// newSupervisor starts our own program again.
func (t *table) newSupervisor() (*supervisor, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "supervisor"), os.NewFile(uintptr(fds[1]), "supervisor")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	null := t.null.Fd()
	k, err := t.spawn("/proc/self/exe", []string{"enplace-guest", "run"}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=32MiB"}, // few threads: they count as processes
		Files: []uintptr{null, null, os.Stderr.Fd(), theirs.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}, false)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("starting a supervisor: %w", err)
	}
	return &supervisor{kid: k, conn: conn.(*net.UnixConn)}, nil
}

// ask gives a command to a supervisor. One that something inside killed before it read the command is passed over.
func (t *table) ask(l launch, stdio [3]*os.File) (*supervisor, error) {
	b := l.encode()
	rights := unix.UnixRights(rawFD(stdio[0]), rawFD(stdio[1]), rawFD(stdio[2]))
	for tries := 0; ; tries++ {
		s, err := t.supervisor()
		if err != nil {
			return nil, err
		}
		n, _, err := s.conn.WriteMsgUnix(b, rights, nil)
		if err == nil && n < len(b) {
			_, err = s.conn.Write(b[n:])
		}
		if err == nil {
			return s, nil
		}
		_ = s.conn.Close()
		if tries == maxIdle {
			return nil, enplace.Errorf(enplace.KindBusy, "something in the sandbox kills whatever starts there").WithFix("start another task").WithCause(err)
		}
	}
}

// started waits for the answer to ask. errno says why the command cannot be run; err, that the supervisor was killed.
func (s *supervisor) started() (pid int, errno syscall.Errno, err error) {
	r, err := s.read()
	switch {
	case err != nil:
		return 0, 0, err
	case r.Kind == reportStarted:
		return int(r.A), 0, nil
	case r.Kind == reportFailed:
		return 0, syscall.Errno(r.A), nil
	}
	return 0, 0, fmt.Errorf("a supervisor reported %d", r.Kind)
}

// gaveUp reports, of a supervisor that is gone, whether it ended by itself: where the sandbox has no processes or memory left Go's
// runtime exits. One that something inside killed ended by a signal.
func (s *supervisor) gaveUp() bool {
	<-s.kid.ended
	return s.kid.status.Exited()
}

// ended waits for the end of the command; err says that the supervisor was killed, with the command or by it.
func (s *supervisor) ended() (ws syscall.WaitStatus, left bool, err error) {
	r, err := s.read()
	if err == nil && r.Kind != reportExited {
		err = fmt.Errorf("a supervisor reported %d", r.Kind)
	}
	return syscall.WaitStatus(r.A), r.B != 0, err
}

func (s *supervisor) read() (report, error) {
	var b [reportBytes]byte
	if _, err := io.ReadFull(s.conn, b[:]); err != nil {
		return report{}, err
	}
	return report{binary.BigEndian.Uint32(b[0:]), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])}, nil
}

// rawFD gives the descriptor and leaves it non-blocking, which File.Fd may not.
func rawFD(f *os.File) int {
	fd := -1
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(p uintptr) { fd = int(p) })
	}
	return fd
}
