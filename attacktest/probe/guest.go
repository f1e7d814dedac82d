package main

import (
	"bytes"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// processOne are attempts at the guest: its memory, descriptors, environment and limits.
func processOne() []attempt {
	all := []attempt{
		{"ptrace attach", apart(func() error { return unix.PtraceAttach(1) })},
		{"ptrace seize", apart(func() error { return unix.PtraceSeize(1) })},
		{"process_vm_readv", func() error {
			var b [8]byte
			_, err := unix.ProcessVMReadv(1, []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
			return err
		}},
		{"descriptors of the guest", stealDescriptors},
		{"kill process 1", func() error { return stillThere(unix.SIGKILL) }},
		{"stop process 1", func() error { return stillThere(unix.SIGSTOP) }},
		{"limits of process 1", func() error { return unix.Prlimit(1, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}, nil) }},
		{"limits of process 1, named by more bits than it has", call(unix.SYS_PRLIMIT64, 1<<32+1, unix.RLIMIT_NOFILE, limit3, 0)},
	}
	for _, name := range []string{"root/etc/shadow", "cwd/etc", "exe", "environ", "mem", "maps", "fd/0", "fd/3", "fdinfo/3", "syscall", "stack", "auxv"} {
		all = append(all, attempt{"read /proc/1/" + name, func() error {
			f, err := os.Open("/proc/1/" + name)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.Read(make([]byte, 16))
			return err
		}})
	}
	for _, name := range []string{"mem", "oom_score_adj", "exe", "uid_map", "setgroups", "timens_offsets", "comm"} {
		all = append(all, attempt{"write /proc/1/" + name, func() error { return put("/proc/1/"+name, "1") }})
	}
	return all
}

var limit3 = text("\x03\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00")

// stealDescriptors goes for the socket on which the host speaks to the guest.
func stealDescriptors() error {
	process, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return err
	}
	for n := range 64 {
		if _, err := unix.PidfdGetfd(process, n, 0); err == nil {
			return nil
		}
	}
	return errors.New("none of 64 could be had")
}

// stillThere sends a signal to process 1, and is refused when it goes on as if nothing had been.
func stillThere(s unix.Signal) error {
	if err := unix.Kill(1, s); err != nil {
		return err
	}
	b, err := os.ReadFile("/proc/1/stat")
	if err != nil {
		return nil //nolint:nilerr // it is gone
	}
	if state := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])[0][0]; state == 'T' || state == 'Z' {
		return nil
	}
	return errors.New("it does not mind")
}

func put(path, content string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Close())
}
