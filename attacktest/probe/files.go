package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// hostFiles are attempts at the host through files of the kernel, and at devices.
func hostFiles() []attempt {
	var all []attempt
	for _, path := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug", "/proc/sys/vm/overcommit_memory",
		"/proc/sys/vm/drop_caches", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces",
		"/proc/sys/kernel/yama/ptrace_scope", "/proc/sys/fs/inotify/max_user_instances",
		"/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/bus/pci/00/00.0", "/proc/mtrr",
		"/sys/kernel/uevent_helper", "/sys/kernel/mm/ksm/run", "/sys/power/state", "/sys/module/kernel/parameters/crash_kexec_post_notifiers",
		"/sys/block/loop0/queue/nr_requests", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/release_agent",
		"/sys/fs/cgroup/rdma/release_agent", "/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
		"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/memory/notify_on_release", "/sys/fs/cgroup/devices/devices.allow",
		"/run/enplace/egress.sock", "/etc/resolv.conf", "/etc/hosts", "/etc/hostname",
	} {
		all = append(all, attempt{"write " + path, func() error { return put(path, "1") }})
	}
	for _, path := range []string{"/proc/kcore", "/proc/keys", "/proc/kmsg", "/proc/vmallocinfo", "/proc/slabinfo",
		"/proc/timer_list", "/proc/sched_debug", "/proc/kpagecount", "/proc/kpageflags", "/proc/acpi/wakeup", "/sys/kernel/debug/x", "/sys/firmware/acpi/tables/DSDT", "/sys/kernel/security/lsm"} {
		all = append(all, attempt{"read " + path, func() error {
			b, err := os.ReadFile(path)
			if err == nil && len(b) == 0 {
				return errors.New("empty")
			}
			return err
		}})
	}
	return append(all, attempt{"backing files of loop devices", func() error {
		found, _ := filepath.Glob("/sys/block/*/loop/backing_file")
		if len(found) == 0 {
			return errors.New("none to be seen")
		}
		b, err := os.ReadFile(found[0])
		if err == nil {
			fmt.Printf("# %s: %s", found[0], b)
		}
		return err
	}})
}

// devices are attempts to make or open a device of the host.
func devices() []attempt {
	var all []attempt
	for _, d := range []struct {
		name         string
		mode         uint32
		major, minor uint32
	}{{"disk", unix.S_IFBLK, 254, 0}, {"loop", unix.S_IFBLK, 7, 0}, {"mem", unix.S_IFCHR, 1, 1}, {"kmsg", unix.S_IFCHR, 1, 11},
		{"fuse", unix.S_IFCHR, 10, 229}, {"kvm", unix.S_IFCHR, 10, 232}, {"loop-control", unix.S_IFCHR, 10, 237}, {"tun", unix.S_IFCHR, 10, 200}} {
		for _, dir := range []string{"/task", "/dev", "/dev/shm", "/run", "/tmp"} {
			all = append(all, attempt{fmt.Sprintf("device %s in %s", d.name, dir), func() error {
				path := filepath.Join(dir, "dev-"+d.name)
				defer os.Remove(path)
				if err := unix.Mknod(path, d.mode|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
					return err
				}
				f, err := os.Open(path)
				if err == nil {
					f.Close()
				}
				return err
			}})
		}
	}
	for _, path := range []string{"/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/loop-control", "/dev/loop0", "/dev/vda", "/dev/sda", "/dev/net/tun", "/dev/vsock", "/dev/console"} {
		all = append(all, attempt{"open " + path, func() error {
			fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK, 0)
			if err == nil {
				unix.Close(fd)
			}
			return err
		}})
	}
	return append(all, attempt{"a whiteout in the working directory is a device", func() error {
		defer os.Remove("/task/whiteout")
		if err := unix.Mknod("/task/whiteout", unix.S_IFCHR, 0); err != nil {
			return err
		}
		_, err := os.Open("/task/whiteout")
		return err
	}})
}
