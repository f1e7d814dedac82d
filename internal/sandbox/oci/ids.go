package oci

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"enplace"
)

// idsPerSandbox is how many user and group ids every sandbox has: what one container usually has, so that every uid of a
// distribution, nobody included, exists inside.
const idsPerSandbox = 65536

// idRanges hands out ranges of host ids, so that root of one sandbox is nobody to the host and to every other sandbox.
type idRanges struct {
	base  uint32
	count int // ranges

	mu   sync.Mutex
	used map[int]bool
	next int
}

func newIDRanges(base, ids uint32) *idRanges {
	return &idRanges{base: base, count: int(ids / idsPerSandbox), used: map[int]bool{}}
}

// take gives the first id of a range that nobody has. Ranges come in turn, so that one is not used again at once.
func (r *idRanges) take() (uint32, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range r.count {
		n := r.next
		r.next = (r.next + 1) % r.count
		if !r.used[n] {
			r.used[n] = true
			return r.base + uint32(n)*idsPerSandbox, nil
		}
	}
	return 0, enplace.Errorf(enplace.KindBusy, "all %d ranges of user ids are in use by sandboxes; wait for one to end, or stop one", r.count)
}

func (r *idRanges) release(base uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.used, int(base-r.base)/idsPerSandbox)
}

// userNamespace makes a user namespace that maps the range to 0, for mounts to be id-mapped by. It is not the one that
// the runtime makes for the container, yet it maps the same ids, and the kernel goes by the ids alone.
//
// The namespace needs a process for the moment in which it is opened: this program again, held by ptrace before its first
// instruction, so that nothing of it ever runs.
func userNamespace(base uint32) (*os.File, error) {
	runtime.LockOSThread() // Ptrace and Pdeathsig are the thread's
	defer runtime.UnlockOSThread()
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(base), Size: idsPerSandbox}}
	p, err := os.StartProcess("/proc/self/exe", []string{"enplace"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: mapping,
		GidMappings: mapping,
		Ptrace:      true,
		Pdeathsig:   syscall.SIGKILL,
	}})
	if err != nil {
		return nil, fmt.Errorf("making a user namespace: %w", err)
	}
	defer func() {
		_ = p.Kill()
		_, _ = p.Wait()
	}()
	f, err := os.Open("/proc/" + strconv.Itoa(p.Pid) + "/ns/user")
	if err != nil {
		return nil, fmt.Errorf("opening a user namespace: %w", err)
	}
	return f, nil
}
