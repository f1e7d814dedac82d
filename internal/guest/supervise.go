package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// launch is what to start, as process 1 tells a supervisor. Three descriptors travel beside it: standard input, output and
// error.
type launch struct {
	program   string
	argv, env []string
	dir       string
	tty       bool // standard input is the terminal that the session controls
}

// attr gives how to fork it. Each command has a session of its own, so no terminal but its own is in reach.
func (l launch) attr(files []uintptr) *syscall.ProcAttr {
	return &syscall.ProcAttr{Dir: l.dir, Env: l.env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: l.tty, Ctty: 0}}
}

// encode gives the fields, each ended by a NUL, behind their length. They hold no NUL: they were read as such fields.
func (l launch) encode() []byte {
	b := make([]byte, 4, 4096)
	for _, list := range [][]string{{l.program, l.dir, strconv.FormatBool(l.tty), strconv.Itoa(len(l.argv))}, l.argv, l.env} {
		for _, s := range list {
			b = append(append(b, s...), 0)
		}
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func decodeLaunch(b string) (launch, error) {
	f := strings.Split(strings.TrimSuffix(b, "\x00"), "\x00")
	if len(f) < 5 {
		return launch{}, fmt.Errorf("a launch of %d fields", len(f))
	}
	n, err := strconv.Atoi(f[3])
	if err != nil || n < 1 || n > len(f)-4 {
		return launch{}, fmt.Errorf("a launch of %q arguments", f[3])
	}
	return launch{program: f[0], dir: f[1], tty: f[2] == "true", argv: f[4 : 4+n], env: f[4+n:]}, nil
}

// report is what a supervisor tells process 1: a kind and two numbers.
type report struct{ Kind, A, B uint32 }

const (
	reportStarted = 1 // A: the process id
	reportFailed  = 2 // A: errno
	reportExited  = 3 // A: wait status; B: 1 when it left processes running

	reportBytes = 12
)

// supervisorFD is the supervisor's socket to process 1.
const supervisorFD = 3

// Supervise runs one command after the other, as process 1 asks for them on descriptor 3, and collects what they start. All
// descendants stay below it, which is how process 1 knows them. After a command that left processes running it takes no
// other, and returns when they have ended.
func Supervise() error {
	if err := harden(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	catchSignals()
	for {
		l, fds, err := receiveLaunch()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		pid, err := syscall.ForkExec(l.program, l.argv, l.attr(fds))
		for _, fd := range fds {
			_ = unix.Close(int(fd))
		}
		if err != nil {
			errno, _ := err.(syscall.Errno)
			if err := send(report{Kind: reportFailed, A: uint32(errno)}); err != nil {
				return err
			}
			continue
		}
		if err := send(report{Kind: reportStarted, A: uint32(pid)}); err != nil {
			return err
		}
		left, err := follow(pid)
		if err != nil || left {
			return err
		}
	}
}

// follow collects children until the command has ended and is reported. When it left some, follow stays until they are gone.
func follow(command int) (left bool, err error) {
	ws, err := collectUntil(command)
	if err != nil {
		return false, err
	}
	end := report{Kind: reportExited, A: uint32(ws)}
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR || err == nil && pid > 0 {
			continue
		}
		if err == nil {
			end.B = 1
		}
		break
	}
	if err := send(end); err != nil {
		return false, err
	}
	if end.B == 0 {
		return false, nil
	}
	_, _ = collectUntil(0) // ends by ECHILD
	return true, nil
}

// collectUntil collects children until that one has ended.
func collectUntil(pid int) (syscall.WaitStatus, error) {
	for {
		var ws syscall.WaitStatus
		got, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, err
		case got == pid:
			return ws, nil
		}
	}
}

func send(r report) error {
	var b [reportBytes]byte
	binary.BigEndian.PutUint32(b[0:], r.Kind)
	binary.BigEndian.PutUint32(b[4:], r.A)
	binary.BigEndian.PutUint32(b[8:], r.B)
	_, err := unix.Write(supervisorFD, b[:])
	return err
}

// receiveLaunch waits for the next launch and its descriptors.
func receiveLaunch() (launch, []uintptr, error) {
	buf := make([]byte, 32<<10)
	oob := make([]byte, unix.CmsgSpace(3*4))
	n, oobn, err := receive(buf, oob)
	if err != nil {
		return launch{}, nil, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) != 1 || n < 4 {
		return launch{}, nil, fmt.Errorf("a launch without descriptors: %w", err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 3 {
		return launch{}, nil, fmt.Errorf("a launch with %d descriptors: %w", len(fds), err)
	}
	size := 4 + int(binary.BigEndian.Uint32(buf))
	b := append(make([]byte, 0, max(size, n)), buf[:n]...)
	for len(b) < size {
		n, _, err := receive(buf, nil)
		if err != nil {
			return launch{}, nil, err
		}
		b = append(b, buf[:n]...)
	}
	l, err := decodeLaunch(string(b[4:]))
	return l, []uintptr{uintptr(fds[0]), uintptr(fds[1]), uintptr(fds[2])}, err
}

// receive reads from process 1; io.EOF says that it has no more for us.
func receive(buf, oob []byte) (n, oobn int, err error) {
	for {
		n, oobn, _, _, err = unix.Recvmsg(supervisorFD, buf, oob, unix.MSG_CMSG_CLOEXEC)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, 0, os.NewSyscallError("recvmsg", err)
		case n == 0:
			return 0, 0, io.EOF
		default:
			return n, oobn, nil
		}
	}
}

// catchSignals makes the process deaf to what a command's `kill -1` or `kill 1` sends. They are caught and not ignored,
// because what is ignored stays so in every command.
func catchSignals() {
	var all []os.Signal
	for s := syscall.Signal(1); s < 32; s++ {
		switch s {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG: // impossible, or harmless and frequent
		default:
			all = append(all, s)
		}
	}
	signal.Notify(make(chan os.Signal, 1), all...)
}
