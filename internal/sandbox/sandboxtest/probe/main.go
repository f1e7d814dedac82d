// Command probe makes one attempt at something that a sandbox must refuse, or use up, and says on its output how that ended:
// "ok", or the error. The conformance suite runs it inside.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Println("usage: probe ATTEMPT [ARGUMENT]")
		os.Exit(2)
	}
	arg := ""
	if len(os.Args) > 2 {
		arg = os.Args[2]
	}
	if err := attempt(os.Args[1], arg); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ok")
}

func attempt(what, arg string) error {
	switch what {
	case "keyctl":
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
		return err
	case "bpf":
		return syscall(unix.SYS_BPF, 0, 0, 0)
	case "perf":
		return syscall(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0)
	case "io_uring":
		return syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
	case "userns":
		return unix.Unshare(unix.CLONE_NEWUSER)
	case "mountns":
		return unix.Unshare(unix.CLONE_NEWNS)
	case "clone3":
		return syscall(unix.SYS_CLONE3, 0, 0, 0)
	case "kill", "tkill":
		return signal(what, os.Args[2:])
	case "trace":
		return trace(arg)
	case "open_tree":
		root := []byte("/\x00")
		return syscall(unix.SYS_OPEN_TREE, unix.AT_FDCWD&0xffffffff, uintptr(unsafe.Pointer(&root[0])), unix.OPEN_TREE_CLONE)
	case "mount_setattr":
		return unix.MountSetattr(unix.AT_FDCWD, arg, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	case "remount":
		return unix.Mount("", arg, "", unix.MS_REMOUNT|unix.MS_BIND, "")
	case "unmount":
		return unix.Unmount(arg, unix.MNT_DETACH)
	case "dial":
		conn, err := net.DialTimeout("tcp", arg, 2*time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	case "abstract":
		conn, err := net.Dial("unix", "@"+arg)
		if err == nil {
			conn.Close()
		}
		return err
	case "xattr":
		return unix.Setxattr(arg, "user.suite", []byte("kept"), 0)
	case "xattr-read":
		_, err := unix.Getxattr(arg, "user.suite", make([]byte, 16))
		return err
	case "deep":
		return deep(arg)
	case "memory":
		return memory(arg)
	case "hold":
		fmt.Println("holding")
		_, err := bufio.NewReader(os.Stdin).ReadByte()
		return err
	}
	return fmt.Errorf("no attempt %q", what)
}

// signal sends a signal, SIGKILL unless another is given, to an id that may be longer than one can be.
func signal(call string, args []string) error {
	id, err := strconv.ParseUint(args[0], 10, 64)
	number := uint64(unix.SIGKILL)
	if err == nil && len(args) > 1 {
		number, err = strconv.ParseUint(args[1], 10, 64)
	}
	if err != nil {
		return err
	}
	if call == "tkill" {
		return syscall(unix.SYS_TKILL, uintptr(id), uintptr(number), 0)
	}
	return syscall(unix.SYS_KILL, uintptr(id), uintptr(number), 0)
}

// trace seizes a child of its own with these options of ptrace.
func trace(options string) error {
	n, err := strconv.ParseUint(options, 0, 32)
	if err != nil {
		return err
	}
	child := exec.Command("/bin/sleep", "60")
	if err := child.Start(); err != nil {
		return err
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(child.Process.Pid), 0, uintptr(n), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func syscall(number, a, b, c uintptr) error {
	if _, _, errno := unix.Syscall(number, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

// deep makes a folder that many levels deep.
func deep(levels string) error {
	n, err := strconv.Atoi(levels)
	for range n {
		if err == nil {
			err = os.Mkdir("d", 0o755)
		}
		if err == nil {
			err = os.Chdir("d")
		}
	}
	return err
}

// memory touches that many MiB.
func memory(mib string) error {
	n, err := strconv.Atoi(mib)
	if err != nil {
		return err
	}
	b := make([]byte, n<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Println("touched", len(b))
	return nil
}
