package oci

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"enplace"
	"enplace/internal/sandbox"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// specVersion is old enough for the runtimes of Debian 12: crun 1.8 refuses 1.2.0 and later.
const specVersion = "1.0.2"

// capabilities are those that containers have by default. All of them count inside the sandbox's own namespaces only.
var capabilities = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD", "CAP_NET_BIND_SERVICE",
	"CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
}

// maskedPaths and readonlyPaths tell about the host, or would let root inside change it.
var (
	maskedPaths = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
		"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/block", "/sys/devices/virtual/powercap", "/sys/firmware",
		"/sys/fs/ext4",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// machinery are the paths of a sandbox that are made by the adapter and the runtime, or last no longer than the sandbox: no
// part of what a build writes.
var machinery = []string{"dev", "etc/hostname", "etc/hosts", "etc/resolv.conf", "proc", "run", "sys", "task", "tmp"}

// hostFiles are small files that every sandbox has in place of whatever its images hold, so that nothing of the machine which
// made the images is believed.
var hostFiles = map[string]string{
	"hostname":    hostname + "\n",
	"hosts":       "127.0.0.1 localhost " + hostname + "\n::1 localhost ip6-localhost ip6-loopback\n",
	"resolv.conf": "# There is no resolver here: names are resolved by the proxy at " + sandbox.ProxyAddress + ".\n",
}

const hostname = "sandbox"

// spec describes the container of a sandbox to the runtime.
func (r *Runtime) spec(c *container) *specs.Spec {
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: c.idBase, Size: idsPerSandbox}}
	adj := 500 // when the host runs out of memory, sandboxes go before the host's own services
	s := &specs.Spec{
		Version:  specVersion,
		Hostname: hostname,
		Root:     &specs.Root{Path: rootPoint},
		Mounts:   r.mounts(c),
		Process: &specs.Process{
			Args: []string{sandbox.GuestPath, "init"},
			Env:  []string{"PATH=" + sandbox.DefaultPath},
			Cwd:  "/",
			Capabilities: &specs.LinuxCapabilities{
				Bounding: capabilities, Effective: capabilities, Permitted: capabilities},
			NoNewPrivileges: true,
			OOMScoreAdj:     &adj,
		},
		Linux: &specs.Linux{
			UIDMappings:   ids,
			GIDMappings:   ids,
			CgroupsPath:   filepath.Join(cgroupParent, c.name),
			MaskedPaths:   maskedPaths,
			ReadonlyPaths: readonlyPaths,
			Resources:     r.resources(c.limits),
		},
	}
	s.Linux.Namespaces = []specs.LinuxNamespace{{Type: specs.UserNamespace, Path: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), c.userNS.Fd())}}
	for _, t := range []specs.LinuxNamespaceType{specs.MountNamespace, specs.PIDNamespace,
		specs.IPCNamespace, specs.UTSNamespace, specs.NetworkNamespace, specs.CgroupNamespace} {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: t})
	}
	if r.engine.gvisor {
		r.gvisorSpec(c, s)
	}
	return s
}

// resources are the limits until the sandbox has an owner, or from the first where it has one by then.
func (r *Runtime) resources(l enplace.Limits) *specs.LinuxResources {
	res := &specs.LinuxResources{}
	if !r.engine.unified { // where there is nothing but a bare hierarchy, crun fails to put a filter on devices
		res.Devices = []specs.LinuxDeviceCgroup{{Access: "rwm"}}
	}
	if !r.cgroups.limits {
		return res
	}
	memory := int64(l.MemoryMiB) << 20
	quota, period, pids := int64(l.CPUs*cpuPeriod), uint64(cpuPeriod), int64(l.Processes+guestTasks)
	res.Memory = &specs.LinuxMemory{Limit: &memory}
	if r.cgroups.swap {
		res.Memory.Swap = &memory
	}
	res.CPU = &specs.LinuxCPU{Quota: &quota, Period: &period}
	res.Pids = &specs.LinuxPids{Limit: &pids}
	return res
}

func (r *Runtime) mounts(c *container) []specs.Mount {
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=1m"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5",
			"max=" + maxTerminals}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=256m"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/run", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=755", "size=64m"}},
		bind(filepath.Join(c.dir, gateSocket), sandbox.EgressSocket, "ro", "nosuid", "nodev", "noexec"),
		bind(r.caBundle, sandbox.CAPath, "ro", "nosuid", "nodev", "noexec"),
		bind(filepath.Join(r.dir, etcDir, guestProgram), sandbox.GuestPath, "ro", "nosuid", "nodev"),
		bind(filepath.Join(r.dir, etcDir, shimProgram), sandbox.ShimPath, "ro", "nosuid", "nodev"),
	}
	if c.claim != nil {
		mounts = append(mounts, bind(filepath.Join(c.dir, volumeDir, volumeTmp), "/tmp", "nosuid", "nodev"))
	} else {
		mounts = append(mounts, bind(filepath.Join(c.dir, volumeDir, volumeTask), sandbox.TaskDir, "nosuid", "nodev"))
	}
	for name := range hostFiles {
		mounts = append(mounts, bind(filepath.Join(r.dir, etcDir, name), "/etc/"+name, "ro", "nosuid", "nodev", "noexec"))
	}
	if r.engine.mountsCgroups() {
		mounts = append(mounts, specs.Mount{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup",
			Options: []string{"ro", "nosuid", "noexec", "nodev", "relatime"}})
	}
	return mounts
}

func bind(source, destination string, options ...string) specs.Mount {
	return specs.Mount{Destination: destination, Type: "bind", Source: source, Options: append([]string{"bind"}, options...)}
}

// maxTerminals is how many terminals a sandbox can have open, of the 3072 that the kernel gives to all containers together.
const maxTerminals = "128"

// writeBundle writes the container's description where the runtime looks for it.
func (r *Runtime) writeBundle(c *container) error {
	s := r.spec(c)
	profile, err := seccomp.GetDefaultProfile(s)
	if err != nil {
		return fmt.Errorf("making the seccomp profile: %w", err)
	}
	keepLimits(profile)
	if r.engine.gvisor {
		gvisorSeccomp(profile)
	}
	s.Linux.Seccomp = profile
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.dir, "config.json"), b, 0o600)
}

// keepLimits changes a seccomp profile so that a process can set no limits but its own: what a command does to process 1, which has the
// same user and the same rights, would be felt by every later command. The kernel looks at 32 bits of the process id only.
func keepLimits(profile *specs.LinuxSeccomp) {
	const call = "prlimit64"
	for i, rule := range profile.Syscalls {
		profile.Syscalls[i].Names = slices.DeleteFunc(rule.Names, func(name string) bool { return name == call })
	}
	for _, arg := range []specs.LinuxSeccompArg{
		{Index: 0, Value: 0xffffffff, ValueTwo: 0, Op: specs.OpMaskedEqual}, // of the caller
		{Index: 2, Value: 0, Op: specs.OpEqualTo},                           // to be read only
	} {
		profile.Syscalls = append(profile.Syscalls, specs.LinuxSyscall{Names: []string{call}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{arg}})
	}
}
