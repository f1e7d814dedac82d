package guest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How a command and all that it started is killed, so that a hostile root inside leaves no survivor:
//
// A command runs below a supervisor, which is a child subreaper: whatever daemonises stays below it. Process 1 does the
// killing, because nothing inside can stop or kill it. Where nothing else lives in the sandbox it uses kill(-1), which the
// kernel does under the lock that fork needs: nobody escapes. Otherwise it walks /proc. Process ids are given out upwards,
// and so are they listed; a walk that reads on until the list ends meets even a process that forks and exits all the time,
// but for one that the ids wrapped around under, and that cannot happen in two walks in a row. A supervisor that was killed
// leaves its orphans to process 1, where only a Sole command has others, so all of those go. Whoever outruns all of this for
// sweepLimit forfeits every other process of the sandbox to kill(-1).
const sweepLimit = 2 * time.Second

// kill ends a child of process 1 and everything that it started. It returns when nothing of it is left.
func (t *table) kill(root *kid) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.kids {
		if k != root && !k.idle && !root.sole {
			t.sweep(root)
			return
		}
	}
	t.killEverything()
}

// killAll ends every process but this one. It returns when none is left.
func (t *table) killAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.killEverything()
}

// killEverything is killAll for a caller that holds mu.
func (t *table) killEverything() {
	_ = syscall.Kill(-1, syscall.SIGKILL) // ESRCH: there is none
	t.collect(0)
	t.idle = nil
}

// sweep kills what is below root and then root itself; or, when root is dead, all orphans. The caller holds mu, so that
// nothing is reaped or started meanwhile.
func (t *table) sweep(root *kid) {
	start := time.Now()
	below := root.pid
	if !root.alive() || dead(root.pid) {
		below = 1
	}
	for clean := 0; clean < 2; {
		killed := t.walk(below, start)
		switch {
		case killed == 0:
			clean++
		case time.Since(start) > sweepLimit:
			t.killEverything()
			return
		default:
			clean = 0
			time.Sleep(100 * time.Microsecond) // the dead need a moment to die
		}
		if clean == 2 && below != 1 && dead(root.pid) { // killed under our eyes: what it had is with process 1 now
			below, clean = 1, 0
		}
	}
	if below != 1 {
		_ = syscall.Kill(root.pid, syscall.SIGKILL)
	}
}

// walk kills every process below the one given, or every orphan when that is 1, and gives how many it met alive.
func (t *table) walk(below int, start time.Time) int {
	proc, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 1 // never taken for nobody there
	}
	defer unix.Close(proc)
	met := 0
	for buf := make([]byte, 2048); time.Since(start) <= 2*sweepLimit; {
		n, err := unix.Getdents(proc, buf)
		if err != nil {
			return met + 1
		}
		if n == 0 {
			return met
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil || pid == 1 || t.kids[pid] != nil {
				continue
			}
			target, err := t.below(pid, below)
			switch {
			case err != nil:
				met++ // not known, so not clean
			case target && !dead(pid):
				met++
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	return met + 1
}

// below reports whether a process stands below an ancestor without another child of process 1 in between. A parent that goes
// while we climb has already passed its children on, so the climb starts again.
func (t *table) below(pid, ancestor int) (bool, error) {
	for range 64 {
		for at := pid; ; {
			st, err := readStat(at)
			if errors.Is(err, errGone) {
				if at == pid {
					return false, nil
				}
				break
			}
			switch {
			case err != nil:
				return false, err
			case st.parent == ancestor:
				return true, nil
			case st.parent <= 1, t.kids[st.parent] != nil:
				return false, nil
			}
			at = st.parent
		}
	}
	return true, nil // its ancestors die faster than we read: nothing honest does that
}

// dead reports whether a process has ended, reaped or not. The state alone does not tell: a process whose first thread has
// ended shows as a zombie while its others run on.
func dead(pid int) bool {
	st, err := readStat(pid)
	return errors.Is(err, errGone) || err == nil && (st.state == 'Z' || st.state == 'X') && st.threads <= 1
}

// stat is what matters of /proc/PID/stat.
type stat struct {
	state   byte
	parent  int
	threads int
}

var errGone = errors.New("no such process")

// readStat reads the state of a process. errGone says that there is none; any other error, that nothing is known, such as
// when the guest is out of descriptors.
func readStat(pid int) (stat, error) {
	b := make([]byte, 1024)
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		var n int
		n, err = unix.Read(fd, b)
		b = b[:max(n, 0)]
		_ = unix.Close(fd)
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH):
		return stat{}, errGone
	case err != nil:
		return stat{}, err
	}
	// The name stands in parentheses and may hold any byte, parentheses and spaces too; nothing after it does.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 18 || len(f[0]) != 1 {
		return stat{}, fmt.Errorf("the state of process %d reads %q", pid, b)
	}
	st := stat{state: f[0][0]}
	if st.parent, err = strconv.Atoi(string(f[1])); err != nil {
		return stat{}, err
	}
	st.threads, err = strconv.Atoi(string(f[17]))
	return st, err
}

// harden keeps other processes, though they run as the same user with the same capabilities, from our memory, descriptors
// and environment, and lets no command inherit a descriptor. It comes before anything can be started.
func harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_DUMPABLE)", err)
	}
	return os.NewSyscallError("close_range", unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC))
}
