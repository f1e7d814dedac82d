package guest

import (
	"context"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Init is `enplace-guest init`: it makes this process fit to be process 1 of a sandbox, and serves on ListenerFD.
func Init(ctx context.Context) error {
	if err := harden(); err != nil {
		return err
	}
	catchSignals()
	unix.Umask(0o022)
	if err := loopbackUp(); err != nil {
		return err
	}
	f := os.NewFile(ListenerFD, "listener")
	ln, err := net.FileListener(f)
	_ = f.Close()
	if err != nil {
		return fmt.Errorf("descriptor %d is not the host's listening socket: %w", ListenerFD, err)
	}
	return Serve(ctx, ln, Options{})
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
