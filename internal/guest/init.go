package guest

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Init is `enplace-guest init`: it makes this process fit to be process 1 of a sandbox, and serves on ListenerFD.
func Init(ctx context.Context) error {
	if err := harden(); err != nil {
		return err
	}
	if err := limitProcess(); err != nil {
		return err
	}
	catchSignals()
	unix.Umask(0o022)
	if err := loopbackUp(); err != nil {
		return err
	}
	ln, err := inherit()
	if err != nil {
		return err
	}
	return Serve(ctx, ln, Options{})
}

// maxOpenFiles is what servers and package managers are content with, and small enough for the programs that go through all
// descriptors.
const maxOpenFiles = 65536

// limitProcess sets the limits that every process of the sandbox inherits: on open files, and no core dumps. It lowers them, which
// needs no right; the runtime would need one over the namespace, which is not root's.
func limitProcess() error {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	files.Max = min(files.Max, maxOpenFiles)
	files.Cur = files.Max
	// By syscall.Setrlimit, which keeps Go from giving commands the limit that it started with.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files.Cur, Max: files.Max}); err != nil {
		return os.NewSyscallError("setrlimit", err)
	}
	return os.NewSyscallError("setrlimit", unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
}

// loopbackUp brings lo up. Without the capability to do so it is enough that somebody else did.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo); err != nil {
		return fmt.Errorf("looking at the loopback interface: %w", err)
	}
	if lo.Uint16()&unix.IFF_UP != 0 {
		return nil
	}
	lo.SetUint16(lo.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bringing the loopback interface up: %w", err)
	}
	return nil
}
