package oci

import (
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// gvisorSeccomp changes a seccomp profile so that runsc means by it what others mean, and so that it keeps what Linux keeps by
// itself.
//
// runsc answers every refused call with EPERM, also where the profile wants ENOSYS: clone3, for which C libraries fall back to
// clone on no other answer, and then make no thread. A call to be traced that nobody traces does get ENOSYS. So that nobody
// does, the right to trace such calls is refused.
//
// Process 1 of gVisor dies by SIGKILL and stops by SIGSTOP, whoever inside sends it, where that of Linux does neither. A guest
// that is stopped keeps no deadline. So no process can signal it.
func gvisorSeccomp(profile *specs.LinuxSeccomp) {
	rules := []specs.LinuxSyscall{
		{Names: []string{"ptrace"}, Args: unlessItTracesFilters()},
		{Names: []string{"kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open"}, Args: unlessProcess1()},
		{Names: []string{"tkill"}, Args: unlessItEndsOrStops()},
	}
	for i, rule := range profile.Syscalls {
		if rule.Action == specs.ActErrno && rule.ErrnoRet != nil && *rule.ErrnoRet == uint(unix.ENOSYS) {
			profile.Syscalls[i].Action, profile.Syscalls[i].ErrnoRet = specs.ActTrace, nil
		}
		profile.Syscalls[i].Names = slices.DeleteFunc(rule.Names, func(name string) bool {
			return slices.ContainsFunc(rules, func(r specs.LinuxSyscall) bool { return slices.Contains(r.Names, name) })
		})
	}
	for _, rule := range rules {
		rule.Action = specs.ActAllow
		profile.Syscalls = append(profile.Syscalls, rule)
	}
}

// Each of these is a list of which one has to hold: that is what several conditions on one argument mean. The kernel looks at 32 bits
// of process ids and signals, so nothing is asked of the others.

// bit asks for a bit of an argument to be set, or not.
func bit(argument uint, n int, set bool) specs.LinuxSeccompArg {
	c := specs.LinuxSeccompArg{Index: argument, Value: 1 << n, Op: specs.OpMaskedEqual}
	if set {
		c.ValueTwo = c.Value
	}
	return c
}

func unlessProcess1() []specs.LinuxSeccompArg {
	args := []specs.LinuxSeccompArg{bit(0, 0, false)}
	for n := 1; n < 32; n++ {
		args = append(args, bit(0, n, true))
	}
	return args
}

// unlessItEndsOrStops allows tkill, whose thread may be one of process 1, all signals but SIGKILL, which is 9, and SIGSTOP, which is 19.
func unlessItEndsOrStops() []specs.LinuxSeccompArg {
	args := []specs.LinuxSeccompArg{bit(1, 0, false), bit(1, 2, true), bit(1, 5, true), bit(1, 6, true)}
	for _, signal := range []uint64{1, 3, 11, 17, 25, 27} { // the others without these bits
		args = append(args, specs.LinuxSeccompArg{Index: 1, Value: 0xffffffff, ValueTwo: signal, Op: specs.OpMaskedEqual})
	}
	return args
}

func unlessItTracesFilters() []specs.LinuxSeccompArg {
	const options = 3 // the argument that has them, for two of the requests
	args := []specs.LinuxSeccompArg{
		{Index: options, Value: unix.PTRACE_O_TRACESECCOMP, ValueTwo: 0, Op: specs.OpMaskedEqual},
		{Index: 0, Value: unix.PTRACE_SETOPTIONS, Op: specs.OpLessThan},
		{Index: 0, Value: unix.PTRACE_SEIZE, Op: specs.OpGreaterThan},
	}
	for request := uint64(unix.PTRACE_SETOPTIONS + 1); request < unix.PTRACE_SEIZE; request++ {
		args = append(args, specs.LinuxSeccompArg{Index: 0, Value: request, Op: specs.OpEqualTo})
	}
	return args
}
