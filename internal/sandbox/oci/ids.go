package oci

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"enplace"

	"golang.org/x/sys/unix"
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

// userNamespace makes the user namespace of a sandbox, which maps the range to 0.
//
// It belongs to the range's first id and not to root. The kernel counts what a user has of certain things (inotify instances,
// pending signals and timers, message queues) for each owner of a namespace above as well, so that of namespaces which all belong to root,
// one could use up what root and all the others have.
//
// The namespace needs a process for the moment in which it is opened: this program again, held by ptrace before its first
// instruction, so that nothing of it ever runs.
func userNamespace(base uint32) (ns *os.File, err error) {
	err = onOwnThread(func() error { // the id, ptrace and Pdeathsig are the thread's
		if err := actAs(base); err != nil {
			return fmt.Errorf("making a user namespace: %w", err)
		}
		mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(base), Size: idsPerSandbox}}
		p, err := os.StartProcess("/proc/self/exe", []string{"enplace"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: mapping,
			GidMappings: mapping,
			// Root of the range is mapped by root, so that leaving a group gives no rights; apt, su and others do so.
			GidMappingsEnableSetgroups: true,

			Ptrace:    true,
			Pdeathsig: syscall.SIGKILL,
		}})
		if err != nil {
			return fmt.Errorf("making a user namespace: %w", err)
		}
		defer func() {
			_ = p.Kill()
			_, _ = p.Wait()
		}()
		if ns, err = os.Open("/proc/" + strconv.Itoa(p.Pid) + "/ns/user"); err != nil {
			return fmt.Errorf("opening a user namespace: %w", err)
		}
		return nil
	})
	return ns, err
}

// actAs gives the thread, alone and for good, another effective user, with the rights that it has as root.
func actAs(uid uint32) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
		return os.NewSyscallError("setresuid", errno)
	}
	return keepRights()
}

// asRootOf runs f on a thread for which files belong to root of a sandbox, and which has the rights of the host's root all the same.
func asRootOf(idBase uint32, f func() error) error {
	return onOwnThread(func() error {
		if err := errors.Join(unix.Setfsgid(int(idBase)), unix.Setfsuid(int(idBase)), keepRights()); err != nil {
			return err
		}
		return f()
	})
}

// keepRights gives the thread the rights again that a change of its user took.
func keepRights() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	for i := range caps {
		caps[i].Effective = caps[i].Permitted
	}
	return os.NewSyscallError("capset", unix.Capset(&header, &caps[0]))
}
