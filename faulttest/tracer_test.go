package faulttest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A tracer watches the system calls of one server and kills it on entry to a chosen one, so that a kill falls between two steps
// that a random moment seldom separates. It is a process of its own, this test's program once more, since whoever traces waits
// for all its threads at once. It is our own and not strace, which counts calls for each thread, and a call of a Go program is
// on any thread, and which would follow the sandboxes too.

// tracerVar has this program trace: "PID CLASS N".
const tracerVar = "ENPLACE_FAULT_TRACE"

// point is a system call to be killed at: the n-th of its class, from 1.
type point struct {
	Class string
	N     int
}

func (p point) String() string { return fmt.Sprintf("%s %d", p.Class, p.N) }

// The classes of system calls that part one step from the next.
const (
	classRename = "rename" // between fsync and rename
	classSync   = "sync"   // what was written is not on the disk yet
	classMount  = "mount"  // between mount and record, and back
	classRemove = "remove"
	classFolder = "folder" // of a sandbox, of a cgroup
	classSpawn  = "spawn"  // runc, mkfs
	classRecord = "record" // a write to the database: between two records, and within one
	classAnswer = "answer" // between commit and answer
	classLoop   = "loop"   // a loop device is bound or freed
	classSignal = "signal" // something is ended
)

// classOf gives the class of a call that is about to be made, or "".
func classOf(pid int, c *entry) string {
	switch c.nr {
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT:
		return classRename
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS:
		return classSync
	case unix.SYS_MOUNT, unix.SYS_MOVE_MOUNT, unix.SYS_FSMOUNT, unix.SYS_UMOUNT2:
		return classMount
	case unix.SYS_UNLINKAT:
		return classRemove
	case unix.SYS_MKDIRAT:
		return classFolder
	case unix.SYS_PWRITE64:
		return classRecord
	case unix.SYS_KILL, unix.SYS_PIDFD_SEND_SIGNAL:
		return classSignal
	case unix.SYS_IOCTL:
		const loopIoctls = 0x4c // LOOP_CONFIGURE, LOOP_CLR_FD and the like
		if c.args[1]>>8 == loopIoctls {
			return classLoop
		}
	case unix.SYS_CLONE:
		if c.args[0]&unix.CLONE_THREAD == 0 {
			return classSpawn
		}
	case unix.SYS_CLONE3:
		if flags := peek(pid, c.args[0], 8); len(flags) == 8 && *(*uint64)(unsafe.Pointer(&flags[0]))&unix.CLONE_THREAD == 0 {
			return classSpawn
		}
	case unix.SYS_WRITE:
		if bytes.HasPrefix(peek(pid, c.args[1], 10), []byte("HTTP/1.1 2")) {
			return classAnswer
		}
	}
	return ""
}

// what says what a call is about, for a report: a path, or the file behind a descriptor.
func (c *entry) what(pid int) string {
	at := map[uint64]int{unix.SYS_RENAMEAT: 3, unix.SYS_RENAMEAT2: 3, unix.SYS_LINKAT: 3, unix.SYS_UNLINKAT: 1, unix.SYS_MKDIRAT: 1,
		unix.SYS_MOUNT: 1, unix.SYS_UMOUNT2: 0, unix.SYS_MOVE_MOUNT: 3}
	if arg, ok := at[c.nr]; ok {
		path, _, _ := bytes.Cut(peek(pid, c.args[arg], 256), []byte{0})
		return string(path)
	}
	link, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, int32(c.args[0]))) // empty for what is no descriptor
	return link
}

// peek reads memory of a process, as much as there is.
func peek(pid int, address uint64, n int) []byte {
	buf := make([]byte, n)
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil
	}
	defer mem.Close()
	got, _ := mem.ReadAt(buf, int64(address))
	return buf[:max(got, 0)]
}

// entry is struct ptrace_syscall_info of linux/ptrace.h, as it is on entry to a call.
type entry struct {
	op   uint8
	_    [3]uint8
	_    uint32
	_, _ uint64
	nr   uint64
	args [6]uint64
	_    uint64
}

const (
	ptraceSeize       = 0x4206
	ptraceSyscallInfo = 0x420e
	opEntry           = 1
)

func ptrace(request, pid int, address, data uintptr) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(request), uintptr(pid), address, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// TestMain lets this program be a tracer.
func TestMain(m *testing.M) {
	if s := os.Getenv(tracerVar); s != "" {
		var pid int
		var at point
		_, err := fmt.Sscan(s, &pid, &at.Class, &at.N)
		if err == nil {
			err = trace(pid, at)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// trace attaches to a process, says so, follows its threads until it is gone, and prints what it counted and where it killed.
func trace(pid int, at point) error {
	runtime.LockOSThread()
	if err := seize(pid); err != nil {
		return fmt.Errorf("attaching to %d: %w", pid, err)
	}
	fmt.Println("attached")
	seen := traced{counts: map[string]int{}, Kinds: map[string][]point{}}
	for {
		var status unix.WaitStatus
		thread, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return json.NewEncoder(os.Stdout).Encode(seen)
		case err != nil:
			return err
		case !status.Stopped():
			continue
		}
		signal := 0
		switch sig := status.StopSignal(); {
		case sig == unix.SIGTRAP|0x80:
			seen.call(pid, thread, at)
		case status>>16 != 0: // a new thread, or that it stopped as it was asked to
		default:
			signal = int(sig)
		}
		_ = unix.PtraceSyscall(thread, signal) // it may be gone
	}
}

// traced is what a tracer saw.
type traced struct {
	counts map[string]int
	Kinds  map[string][]point // by class, and what the call was about
	Killed string             // on entry to what; empty when it did not kill
}

// digits are the parts of a path that differ from run to run: digests, ids, numbers, what is random.
var digits = regexp.MustCompile(`[0-9a-z]*[0-9][0-9a-z]*|\b[a-z]{1,2}\b`)

func (s *traced) call(pid, thread int, at point) {
	var c entry
	if ptrace(ptraceSyscallInfo, thread, unsafe.Sizeof(c), uintptr(unsafe.Pointer(&c))) != nil || c.op != opEntry {
		return
	}
	class := classOf(pid, &c)
	if class == "" {
		return
	}
	s.counts[class]++
	here := point{class, s.counts[class]}
	about := c.what(pid)
	kind := class + " " + digits.ReplaceAllString(about, "#")
	s.Kinds[kind] = append(s.Kinds[kind], here)
	if here == at {
		s.Killed = fmt.Sprint(here, " ", about)
		_ = unix.Kill(pid, unix.SIGKILL) // before it goes on, so the call is never made
	}
}

// seize attaches to every thread; those that they make are attached by the kernel. Processes that they make are not.
func seize(pid int) error {
	known := map[string]bool{}
	for fresh := true; fresh; {
		fresh = false
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		for _, t := range threads {
			if known[t.Name()] {
				continue
			}
			known[t.Name()], fresh = true, true
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			err = ptrace(ptraceSeize, id, 0, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE)
			if err == nil {
				err = unix.PtraceInterrupt(id)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EPERM) { // it ended, or is attached since it was made
				return err
			}
		}
	}
	return nil
}

// tracer is a tracer at work.
type tracer struct {
	cmd *exec.Cmd
	out *json.Decoder
}

// startTracer has a server killed at a point; the zero one only counts.
func startTracer(t *testing.T, pid int, at point) *tracer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %d", tracerVar, pid, cmp.Or(at.Class, "none"), at.N))
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, len("attached\n"))
	if _, err := io.ReadFull(pipe, ready); err != nil {
		t.Fatalf("the tracer did not attach: %v", err)
	}
	return &tracer{cmd: cmd, out: json.NewDecoder(pipe)}
}

// end gives what it saw, once the server is gone.
func (tr *tracer) end(t *testing.T) (seen traced) {
	t.Helper()
	if err := errors.Join(tr.out.Decode(&seen), tr.cmd.Wait()); err != nil {
		t.Fatalf("the tracer: %v", err)
	}
	return seen
}

// serverPID finds the server that uses a data directory.
func serverPID(t *testing.T, data string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(b), "\x00serve\x00") || !strings.Contains(string(b), data) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && startOf(fmt.Sprint(pid)) != "" {
			return pid
		}
	}
	t.Fatal("the server's process is not found")
	return 0
}
