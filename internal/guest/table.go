package guest

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// table holds the children that process 1 started itself: supervisors, and commands that are the sandbox's only one. Every
// other process is below one of them, or is an orphan that the kernel gave to process 1.
type table struct {
	// mu is held across fork and entry, and across reaping: no status is lost and, while it is held, no child's id is reused.
	mu   sync.Mutex
	grew sync.Cond // a child was entered
	kids map[int]*kid
	idle []*supervisor
	null *os.File
}

// kid is a child of process 1.
type kid struct {
	pid    int
	sole   bool
	idle   bool               // a supervisor without a command; guarded by table.mu
	ended  chan struct{}      // closed when it was reaped
	status syscall.WaitStatus // set before ended is closed
}

func newTable(null *os.File) *table {
	t := &table{kids: map[int]*kid{}, null: null}
	t.grew.L = &t.mu
	return t
}

// spawn starts a child. argv[0] need not be the program.
func (t *table) spawn(program string, argv []string, attr *syscall.ProcAttr, sole bool) (*kid, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	pid, err := syscall.ForkExec(program, argv, attr)
	if err != nil {
		return nil, err
	}
	k := &kid{pid: pid, sole: sole, ended: make(chan struct{})}
	t.kids[pid] = k
	t.grew.Signal()
	return k, nil
}

// reap collects every child and orphan, for ever.
func (t *table) reap() {
	for {
		// Waits without collecting: that is done under the lock.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
		t.mu.Lock()
		if err == unix.ECHILD {
			for len(t.kids) == 0 {
				t.grew.Wait()
			}
		}
		t.collect(syscall.WNOHANG)
		t.mu.Unlock()
	}
}

// collect reaps what has ended, and without WNOHANG waits until no child is left. The caller holds mu.
func (t *table) collect(flags int) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, flags, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil || pid == 0:
			return
		}
		if k := t.kids[pid]; k != nil {
			delete(t.kids, pid)
			k.status = ws
			close(k.ended)
		}
	}
}

// alive reports whether the child has not been reaped yet.
func (k *kid) alive() bool {
	select {
	case <-k.ended:
		return false
	default:
		return true
	}
}
