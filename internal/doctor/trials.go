package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func uintptrOf(v *uint32) uintptr { return uintptr(unsafe.Pointer(v)) }

// inUserNamespace gives a user namespace as sandboxes have: root inside is id 1<<20 here.
func inUserNamespace(ctx context.Context, use func(ns *os.File) error) error {
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 1 << 20, Size: 65536}}
	cmd := exec.CommandContext(ctx, "cat") // waits for the end of its input
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids}
	cmd.Stdout = io.Discard
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("making one: %w", err)
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
	if err == nil {
		err = errors.Join(use(ns), ns.Close())
	}
	return errors.Join(err, in.Close(), cmd.Wait())
}

func userNamespaces(ctx context.Context, _ Config) (string, error) {
	if err := inUserNamespace(ctx, func(*os.File) error { return nil }); err != nil {
		return "", err
	}
	limit, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	if err != nil {
		return "", err
	}
	return "at most " + strings.TrimSpace(string(limit)), nil
}

// newMount makes a detached mount of a kind. Nobody else sees it, and it goes with its descriptor.
func newMount(kind string, set func(fs int) error) error {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fsopen %s: %w", kind, err)
	}
	defer unix.Close(fs)
	if err := set(fs); err != nil {
		return err
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("making %s: %w", kind, err)
	}
	m, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("mounting %s: %w", kind, err)
	}
	return unix.Close(m)
}

func detachedMounts(context.Context, Config) (string, error) {
	if err := newMount("tmpfs", func(int) error { return nil }); err != nil {
		return "", err
	}
	return "made without a path", nil
}

// overlayDirs makes what an overlay needs on the data directory's file system.
func overlayDirs(c Config, try func(lower, upper, work string) error) error {
	return scratch(c, func(dir string) error {
		names := [3]string{filepath.Join(dir, "lower"), filepath.Join(dir, "upper"), filepath.Join(dir, "work")}
		for _, n := range names {
			if err := os.Mkdir(n, 0o755); err != nil {
				return err
			}
		}
		return try(names[0], names[1], names[2])
	})
}

func overlay(_ context.Context, c Config) (string, error) {
	err := overlayDirs(c, func(lower, upper, work string) error {
		return newMount("overlay", func(fs int) error {
			return errors.Join(unix.FsconfigSetString(fs, "lowerdir", lower), unix.FsconfigSetString(fs, "upperdir", upper),
				unix.FsconfigSetString(fs, "workdir", work))
		})
	})
	if err != nil {
		return "", err
	}
	return "works on the data directory", nil
}

func overlayByHandle(_ context.Context, c Config) (string, error) {
	err := overlayDirs(c, func(lower, upper, work string) error {
		var dirs []*os.File
		defer func() {
			for _, d := range dirs {
				_ = d.Close() // opened for their descriptors only
			}
		}()
		for _, p := range []string{lower, upper, work} {
			d, err := os.OpenFile(p, unix.O_PATH|unix.O_DIRECTORY, 0)
			if err != nil {
				return err
			}
			dirs = append(dirs, d)
		}
		return newMount("overlay", func(fs int) error {
			return errors.Join(unix.FsconfigSetFd(fs, "lowerdir+", int(dirs[0].Fd())), unix.FsconfigSetFd(fs, "upperdir", int(dirs[1].Fd())),
				unix.FsconfigSetFd(fs, "workdir", int(dirs[2].Fd())))
		})
	})
	if err != nil {
		return "", err
	}
	return "works on the data directory", nil
}

func idMapped(ctx context.Context, c Config) (string, error) {
	err := scratch(c, func(dir string) error {
		return inUserNamespace(ctx, func(ns *os.File) error {
			tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
			if err != nil {
				return fmt.Errorf("open_tree: %w", err)
			}
			defer unix.Close(tree)
			attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())}
			if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, attr); err != nil {
				return fmt.Errorf("mount_setattr: %w", err)
			}
			return nil
		})
	})
	if err != nil {
		return "", err
	}
	return "work on the data directory", nil
}

// erofs mounts an empty file: a kernel that knows EROFS, and takes files for it, refuses its content and not its kind.
func erofs(_ context.Context, c Config) (string, error) {
	said := ""
	err := scratch(c, func(dir string) error {
		image := filepath.Join(dir, "image")
		if err := os.WriteFile(image, make([]byte, 8192), 0o600); err != nil {
			return err
		}
		err := newMount("erofs", func(fs int) error { return unix.FsconfigSetString(fs, "source", image) })
		switch {
		case errors.Is(err, unix.ENODEV):
			return errors.New("this kernel does not know it")
		case errors.Is(err, unix.ENOTBLK):
			said = "over loop devices: mounting a file itself needs Linux 6.12"
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EUCLEAN), err == nil:
			said = "straight from a file"
		default:
			return err
		}
		return nil
	})
	return said, err
}

func loopDevices(context.Context, Config) (string, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer control.Close()
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return "", fmt.Errorf("asking for a free one: %w", err)
	}
	f, err := os.Open(fmt.Sprintf("/dev/loop%d", n))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/dev/loop%d is free", n), f.Close()
}

// controlGroups makes a cgroup and looks for the files that limits are written to.
func controlGroups(context.Context, Config) (string, error) {
	const root = "/sys/fs/cgroup"
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return "", fmt.Errorf("%s: %w", root, err)
	}
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		have, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
		if err != nil {
			return "", err
		}
		for _, need := range []string{"memory", "pids", "cpu"} {
			if !strings.Contains(" "+strings.TrimSpace(string(have))+" ", " "+need+" ") {
				return "", fmt.Errorf("version 2 without the controller %s", need)
			}
		}
		return "version 2", tryCgroup(root, "cgroup.procs")
	}
	for controller, file := range map[string]string{"memory": "memory.limit_in_bytes", "pids": "pids.max", "cpu": "cpu.cfs_quota_us"} {
		if err := tryCgroup(filepath.Join(root, controller), file); err != nil {
			return "", fmt.Errorf("version 1, controller %s: %w", controller, err)
		}
	}
	return "version 1 with memory, pids and cpu", nil
}

func tryCgroup(hierarchy, file string) error {
	dir := filepath.Join(hierarchy, fmt.Sprintf("enplace-doctor-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	_, err := os.Stat(filepath.Join(dir, file))
	if rm := unix.Rmdir(dir); err == nil && !errors.Is(rm, unix.ENOENT) { // another Check may have been faster
		err = rm
	}
	return err
}
