package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// After a command has ended, its output is read on for as long as more keeps coming, at most drainQuiet apart and drainLimit
// in all: a process that it left behind may hold the pipe for ever. What the command itself wrote is in the pipe by then,
// and always read to its end.
const (
	drainQuiet = 20 * time.Millisecond
	drainLimit = 250 * time.Millisecond
)

// stdio is the standard streams of a command: the ends that it gets, and ours.
type stdio struct {
	child  [3]*os.File
	shared []*os.File // of child, those to close once the command has them
	in     *os.File   // nil when it reads /dev/null
	out    *os.File   // nil when it goes to /dev/null
	err    *os.File
	tty    bool
	copies sync.WaitGroup
}

// openStdio makes what the request asks for.
func openStdio(r execRequest, null *os.File) (*stdio, error) {
	s := &stdio{child: [3]*os.File{null, null, null}}
	if r.TTY != nil {
		return s, s.openTTY(*r.TTY)
	}
	var err error
	for _, p := range []struct {
		want  bool
		child int
		ours  **os.File
	}{{r.Stdin, 0, &s.in}, {r.Stdout, 1, &s.out}, {r.Stderr, 2, &s.err}} {
		if p.want && err == nil {
			*p.ours, err = s.pipe(p.child)
		}
	}
	if r.Merged {
		s.child[2] = s.child[1]
	}
	if err != nil {
		s.closeShared()
		s.close()
		return nil, fmt.Errorf("opening pipes: %w", err)
	}
	return s, nil
}

// pipe opens a pipe for one of the command's streams and gives our end, the only one that does not block.
func (s *stdio) pipe(child int) (*os.File, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	ours, theirs := p[0], p[1]
	if child == 0 {
		ours, theirs = theirs, ours
	}
	s.child[child] = os.NewFile(uintptr(theirs), "pipe")
	s.shared = append(s.shared, s.child[child])
	if err := unix.SetNonblock(ours, true); err != nil {
		_ = unix.Close(ours)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(ours), "pipe"), nil
}

// openTTY opens a terminal for all three streams.
func (s *stdio) openTTY(size TTY) error {
	// Not by name in /dev/pts: a hostile root may have put anything there.
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("opening a terminal: %w", err)
	}
	master := os.NewFile(uintptr(fd), "terminal")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		_ = master.Close()
		return fmt.Errorf("unlocking a terminal: %w", err)
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		_ = master.Close()
		return fmt.Errorf("opening a terminal: %w", errno)
	}
	slave := os.NewFile(peer, "terminal")
	s.child, s.shared = [3]*os.File{slave, slave, slave}, []*os.File{slave}
	s.in, s.out, s.tty = master, master, true
	s.resize(size.Columns, size.Rows)
	return nil
}

// resize sets the size of the terminal; without one it does nothing.
func (s *stdio) resize(columns, rows int) {
	if s.tty && columns > 0 && rows > 0 {
		_ = unix.IoctlSetWinsize(rawFD(s.out), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(rows)})
	}
}

// closeShared closes the command's ends here, so that ours see when it closes its own.
func (s *stdio) closeShared() {
	for _, f := range s.shared {
		_ = f.Close()
	}
}

// close closes our ends.
func (s *stdio) close() {
	for _, f := range []*os.File{s.in, s.out, s.err} {
		if f != nil {
			_ = f.Close() // a terminal stands there twice, and its second close does nothing
		}
	}
}

// forward copies between the host and the command, until finish.
func (s *stdio) forward(in io.Reader, out, err io.Writer) {
	if s.in != nil {
		go func() {
			_, _ = io.Copy(s.in, in) // fails when the command has ended, or does not read
			if s.tty {
				_, _ = s.in.Write([]byte{4}) // end of transmission: a terminal has no other end of input
				return
			}
			_ = s.in.Close()
		}()
	}
	if s.out != nil {
		s.copies.Go(func() { copyOut(out, s.out) })
	}
	if s.err != nil {
		s.copies.Go(func() { copyOut(err, s.err) })
	}
}

// finish returns when the output of the command, which has ended, is on its way to the host.
func (s *stdio) finish() {
	for _, f := range []*os.File{s.out, s.err} {
		if f != nil {
			_ = f.SetReadDeadline(time.Unix(1, 0))
		}
	}
	s.copies.Wait()
	s.close()
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// copyOut copies until the end, or until a deadline says that the command has ended.
func copyOut(dst io.Writer, src *os.File) {
	buf := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buf)
	for {
		n, err := src.Read(buf[:])
		if n > 0 {
			if _, werr := dst.Write(buf[:n]); werr != nil {
				return // the host is gone, and the command with it
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			drain(dst, rawFD(src), buf[:])
			return
		case err != nil: // the end; EIO from a terminal
			return
		}
	}
}

// drain copies what is left after the command has ended.
func drain(dst io.Writer, fd int, buf []byte) {
	owed, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		owed = 0
	}
	for stop := time.Now().Add(drainLimit); owed > 0 || time.Now().Before(stop); {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(drainQuiet/time.Millisecond))
		if err == unix.EINTR {
			continue
		}
		if err != nil || ready == 0 {
			return
		}
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		owed -= n
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}
