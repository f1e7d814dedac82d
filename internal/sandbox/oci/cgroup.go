package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"enplace"

	"golang.org/x/sys/unix"
)

// cgroupParent is the cgroup that all sandboxes' are in.
const cgroupParent = "/enplace"

// guestTasks are the threads that the guest itself takes of the limit on processes.
const guestTasks = 32

// cgroups writes limits to cgroup files and reads what was used, on either version of cgroups. The runtime makes the cgroups;
// writing to them by hand is some fifty times faster than running it to change a limit.
type cgroups struct {
	root    string // where the hierarchy, or with version 1 the hierarchies, are mounted
	v2      bool
	limits  bool // memory, cpu and pids can be limited
	swap    bool // so can memory with swap
	unified bool // version 1 only: the runtime uses the empty hierarchy of version 2 beside those of version 1
}

func newCgroups() cgroups {
	c := cgroups{root: "/sys/fs/cgroup"}
	var st unix.Statfs_t
	if unix.Statfs(c.root, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
		c.v2 = true
		have, _ := os.ReadFile(filepath.Join(c.root, "cgroup.controllers"))
		c.limits = true
		for _, need := range []string{"memory", "cpu", "pids"} {
			c.limits = c.limits && bytes.Contains(have, []byte(need))
		}
		swap, _ := filepath.Glob(filepath.Join(c.root, "*", "memory.swap.max"))
		c.swap = len(swap) > 0
		return c
	}
	c.limits = true
	_, err := os.Stat(filepath.Join(c.root, "memory/memory.memsw.limit_in_bytes"))
	c.swap = err == nil
	for _, need := range []string{"memory", "cpu", "pids"} {
		_, err := os.Stat(filepath.Join(c.root, need, "cgroup.procs"))
		c.limits = c.limits && err == nil
	}
	return c
}

func (c cgroups) file(name, controller, file string) string {
	if c.v2 {
		return filepath.Join(c.root, cgroupParent, name, file)
	}
	return filepath.Join(c.root, controller, cgroupParent, name, file)
}

func (c cgroups) write(name, controller, file, value string) error {
	f, err := os.OpenFile(c.file(name, controller, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}

// set puts limits on a sandbox that runs.
func (c cgroups) set(name string, l enplace.Limits) error {
	if !c.limits {
		return nil
	}
	memory := strconv.FormatInt(int64(l.MemoryMiB)<<20, 10)
	quota := strconv.FormatInt(int64(l.CPUs*cpuPeriod), 10)
	tasks := strconv.Itoa(l.Processes + guestTasks)
	if c.v2 {
		err := errors.Join(
			c.write(name, "", "memory.max", memory),
			c.write(name, "", "cpu.max", quota+" "+strconv.Itoa(cpuPeriod)),
			c.write(name, "", "pids.max", tasks))
		if e := c.write(name, "", "memory.swap.max", "0"); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
		return err
	}
	return errors.Join(
		c.setMemoryV1(name, memory),
		c.write(name, "cpu", "cpu.cfs_quota_us", quota),
		c.write(name, "pids", "pids.max", tasks))
}

// cpuPeriod is in microseconds, the kernel's default.
const cpuPeriod = 100_000

// setMemoryV1 sets memory, and memory with swap to the same. The kernel refuses the first to be over the second at any
// moment, so which one goes first depends on whether the limit rises.
func (c cgroups) setMemoryV1(name, bytes string) error {
	const limit, both = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	err := c.write(name, "memory", limit, bytes)
	swapErr := c.write(name, "memory", both, bytes)
	if err != nil {
		err = c.write(name, "memory", limit, bytes)
	}
	if swapErr != nil && !errors.Is(swapErr, fs.ErrNotExist) {
		err = errors.Join(err, swapErr)
	}
	return err
}

// used gives the peak of memory and the number of processes killed for want of it; zero where the kernel does not say.
func (c cgroups) used(name string) (peak int64, kills int) {
	if !c.limits {
		return 0, 0
	}
	peakFile, eventsFile := "memory.max_usage_in_bytes", "memory.oom_control"
	if c.v2 {
		peakFile, eventsFile = "memory.peak", "memory.events"
	}
	if b, err := os.ReadFile(c.file(name, "memory", peakFile)); err == nil {
		peak, _ = strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	}
	if b, err := os.ReadFile(c.file(name, "memory", eventsFile)); err == nil {
		for line := range strings.Lines(string(b)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				kills, _ = strconv.Atoi(strings.TrimSpace(n))
			}
		}
	}
	return peak, kills
}

// freeze stops every process of the sandbox where it is, and returns when all have stopped.
func (c cgroups) freeze(ctx context.Context, name string) error {
	controller, file, value, state, stopped := "freezer", "freezer.state", "FROZEN", "freezer.state", "FROZEN"
	if c.v2 || c.unified {
		controller, file, value, state, stopped = "unified", "cgroup.freeze", "1", "cgroup.events", "frozen 1"
	}
	if err := c.write(name, controller, file, value); err != nil {
		return fmt.Errorf("freezing the sandbox: %w", err)
	}
	return poll(ctx, func() (bool, error) {
		b, err := os.ReadFile(c.file(name, controller, state))
		return bytes.Contains(b, []byte(stopped)), err
	})
}

// thaw lets the processes go on.
func (c cgroups) thaw(name string) error {
	if c.v2 || c.unified {
		return c.write(name, "unified", "cgroup.freeze", "0")
	}
	return c.write(name, "freezer", "freezer.state", "THAWED")
}

// remove kills what is left in the sandbox's cgroups and removes them.
func (c cgroups) remove(ctx context.Context, name string) error {
	for _, dir := range c.dirs(name) {
		err := poll(ctx, func() (bool, error) {
			killIn(dir)
			err := removeTree(dir)
			return err == nil, ignore(err, unix.EBUSY)
		})
		if err != nil {
			return fmt.Errorf("removing the cgroup %s: %w", dir, err)
		}
	}
	return nil
}

func (c cgroups) dirs(name string) []string {
	if c.v2 {
		return []string{filepath.Join(c.root, cgroupParent, name)}
	}
	found, _ := filepath.Glob(filepath.Join(c.root, "*", cgroupParent, name))
	return found
}

// removeTree removes a cgroup and those below it, which root inside may have made. Cgroups' files cannot be removed, and
// need not be.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			_ = removeTree(filepath.Join(dir, e.Name()))
		}
	}
	return ignore(unix.Rmdir(dir), unix.ENOENT)
}

// killIn kills the processes of a cgroup and of those below it.
func killIn(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return nil
		}
		b, _ := os.ReadFile(path)
		for pid := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(pid); err == nil && n > 1 {
				_ = unix.Kill(n, unix.SIGKILL)
			}
		}
		return nil
	})
}

// ignore gives nil for the errors named, and err for others.
func ignore(err error, these ...error) error {
	for _, e := range these {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

// settleTime bounds the wait for the kernel to let go of something.
const settleTime = 10 * time.Second

// poll asks again and again until the answer is yes, for the things that the kernel ends in its own time and tells nobody
// of. It gives up at the end of ctx, or after settleTime.
func poll(ctx context.Context, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for wait := 200 * time.Microsecond; ; wait = min(2*wait, 20*time.Millisecond) {
		ok, err := ask()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}
