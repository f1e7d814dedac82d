package oci

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

const ownMountsMark = "ENPLACE_OWN_MOUNTS"

// OwnMounts puts the program into a mount namespace of its own, by running it again there with the same arguments: whatever is
// mounted from then on goes with the last process that lives in it, also when it is killed, and no process of the host takes a
// copy along that keeps it busy. It returns nil in the program that runs there. Called before anything else is started.
func OwnMounts() error {
	if os.Getenv(ownMountsMark) == fmt.Sprint(os.Getpid()) {
		return os.Unsetenv(ownMountsMark)
	}
	runtime.LockOSThread() // the namespace is this thread's, and exec keeps this thread
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("keeping mounts from the host: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	env := append(os.Environ(), fmt.Sprintf("%s=%d", ownMountsMark, os.Getpid()))
	return fmt.Errorf("running again in a mount namespace: %w", syscall.Exec(self, os.Args, env))
}
