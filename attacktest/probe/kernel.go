package main

import (
	"errors"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call makes a system call by its number.
func call(number uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
}

// barred is call for what must be refused before its arguments are looked at: any other error means that it was let in.
func barred(number uintptr, args ...uintptr) func() error {
	return func() error {
		err := call(number, args...)()
		if err == nil || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EACCES) {
			return err
		}
		return nil
	}
}

func text(s string) uintptr {
	b := append([]byte(s), 0)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

var kept [][]byte // what system calls point at

// apart runs f on a thread that is thrown away, as what it does to the thread cannot be undone.
func apart(f func() error) func() error {
	return func() error {
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			done <- f()
		}()
		return <-done
	}
}

const atCWD = ^uintptr(99) // AT_FDCWD

func namespaces() []attempt {
	all := mounts()
	for name, flag := range map[string]int{"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID,
		"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME} {
		all = append(all, attempt{"unshare " + name, apart(func() error { return unix.Unshare(flag) })})
	}
	for _, ns := range []string{"user", "mnt", "net", "pid", "ipc", "uts", "cgroup"} {
		all = append(all, attempt{"setns of process 1: " + ns, apart(func() error {
			f, err := os.Open("/proc/1/ns/" + ns)
			if err != nil {
				return err
			}
			defer f.Close()
			return unix.Setns(int(f.Fd()), 0)
		})})
	}
	return append(all, attempt{"chroot and climb out", apart(chrootOut)})
}

func mounts() []attempt {
	return []attempt{
		{"mount tmpfs", call(unix.SYS_MOUNT, text("x"), text("/tmp"), text("tmpfs"))},
		{"mount proc", call(unix.SYS_MOUNT, text("x"), text("/tmp"), text("proc"))},
		{"mount sysfs", call(unix.SYS_MOUNT, text("x"), text("/tmp"), text("sysfs"))},
		{"mount cgroup", call(unix.SYS_MOUNT, text("x"), text("/tmp"), text("cgroup"), 0, text("rdma"))},
		{"mount overlay", call(unix.SYS_MOUNT, text("x"), text("/tmp"), text("overlay"), 0, text("lowerdir=/env,upperdir=/task/u,workdir=/task/w"))},
		{"bind mount", call(unix.SYS_MOUNT, text("/task"), text("/env"), 0, unix.MS_BIND)},
		{"remount /proc/sys", call(unix.SYS_MOUNT, 0, text("/proc/sys"), 0, unix.MS_BIND|unix.MS_REMOUNT)},
		{"make / shared", call(unix.SYS_MOUNT, 0, text("/"), 0, unix.MS_REC|unix.MS_SHARED)},
		{"umount /proc/sys", call(unix.SYS_UMOUNT2, text("/proc/sys"), unix.MNT_DETACH)},
		{"umount /sys", call(unix.SYS_UMOUNT2, text("/sys"), unix.MNT_DETACH)},
		{"umount what hides the block devices", call(unix.SYS_UMOUNT2, text("/sys/devices/virtual/block"), unix.MNT_DETACH)},
		{"fsopen", call(unix.SYS_FSOPEN, text("tmpfs"))},
		{"fspick", call(unix.SYS_FSPICK, atCWD, text("/"))},
		{"open_tree clone", call(unix.SYS_OPEN_TREE, atCWD, text("/"), unix.OPEN_TREE_CLONE)},
		{"mount_setattr", barred(unix.SYS_MOUNT_SETATTR, atCWD, text("/proc/sys"))},
		{"move_mount", barred(unix.SYS_MOVE_MOUNT, atCWD, text("/env"), atCWD, text("/tmp"))},
		{"pivot_root", call(unix.SYS_PIVOT_ROOT, text("/task"), text("/task"))},
	}
}

// chrootOut leaves a chroot by the old trick, and looks whether what it finds above is more than the sandbox's own root.
func chrootOut() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	before, err := os.Stat("/run/enplace")
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll("/tmp/jail", 0o755), unix.Chdir("/"), unix.Chroot("/tmp/jail")); err != nil {
		return err
	}
	for range 64 {
		if err := unix.Chdir(".."); err != nil {
			return err
		}
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	after, err := os.Stat("/run/enplace")
	if err == nil && os.SameFile(before, after) {
		return errors.New("above there is the sandbox's own root")
	}
	return nil
}

func calls() []attempt {
	type handle struct {
		bytes uint32
		kind  int32
		id    [8]byte
	}
	root := &handle{bytes: 8, kind: 1, id: [8]byte{2}}
	return []attempt{
		{"open_by_handle_at", call(unix.SYS_OPEN_BY_HANDLE_AT, 0, uintptr(unsafe.Pointer(root)), 0)},
		{"io_uring_setup", barred(unix.SYS_IO_URING_SETUP, 1, 0)},
		{"bpf", barred(unix.SYS_BPF, 0, 0, 0)},
		{"perf_event_open", barred(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0)},
		{"userfaultfd", call(unix.SYS_USERFAULTFD, 0)},
		{"userfaultfd of user mode only", call(unix.SYS_USERFAULTFD, 1)},
		{"keyctl", barred(unix.SYS_KEYCTL, 0, ^uintptr(2), 1)},
		{"add_key", barred(unix.SYS_ADD_KEY, text("user"), text("x"), text("x"), 1, ^uintptr(2))},
		{"request_key", barred(unix.SYS_REQUEST_KEY, text("user"), text("x"), 0, 0)},
		{"init_module", barred(unix.SYS_INIT_MODULE, 0, 0, 0)},
		{"finit_module", barred(unix.SYS_FINIT_MODULE, 0, 0, 0)},
		{"delete_module", barred(unix.SYS_DELETE_MODULE, text("ext4"), 0)},
		{"kexec_load", barred(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0)},
		{"reboot", barred(unix.SYS_REBOOT, 0, 0, 0)},
		{"swapon", barred(unix.SYS_SWAPON, text("/task"), 0)},
		{"acct", barred(unix.SYS_ACCT, text("/task/acct"))},
		{"quotactl", barred(unix.SYS_QUOTACTL, 0, 0, 0, 0)},
		{"settimeofday", barred(unix.SYS_SETTIMEOFDAY, 0, 0)},
		{"clock_settime", barred(unix.SYS_CLOCK_SETTIME, 0, 0)},
		{"syslog", barred(unix.SYS_SYSLOG, 3, 0, 0)},
		{"fanotify_init", barred(unix.SYS_FANOTIFY_INIT, unix.FAN_CLASS_CONTENT, 0)},
		{"sethostname", barred(unix.SYS_SETHOSTNAME, text("x"), 1)},
		{"vhangup", barred(unix.SYS_VHANGUP)},
		{"move_pages", barred(unix.SYS_MOVE_PAGES, 1, 0, 0, 0, 0, 0)},
	}
}

func sockets() []attempt {
	var all []attempt
	for name, family := range map[string]int{"vsock": unix.AF_VSOCK, "alg": unix.AF_ALG, "rds": unix.AF_RDS, "tipc": unix.AF_TIPC, "can": unix.AF_CAN, "bluetooth": unix.AF_BLUETOOTH, "smc": unix.AF_SMC} {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET, unix.SOCK_RAW} {
			all = append(all, attempt{"socket of " + name, call(unix.SYS_SOCKET, uintptr(family), uintptr(kind), 0)})
		}
	}
	return append(all, attempt{"take the loopback interface down", func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		lo, err := unix.NewIfreq("lo")
		if err != nil {
			return err
		}
		lo.SetUint16(0)
		return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
	}})
}

func privileges() []attempt {
	return []attempt{
		{"real-time scheduling", func() error {
			return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
		}},
		{"nice below 0", func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }},
		{"raise the limit on open files", func() error {
			return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
		}},
		{"core dumps", func() error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}) }},
		{"lock all memory", func() error {
			b := make([]byte, 64<<20)
			return unix.Mlock(b)
		}},
		{"escape the OOM killer", func() error { return put("/proc/self/oom_score_adj", "-1000") }},
	}
}
