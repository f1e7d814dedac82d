package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// loopAttempts bounds how often a free loop device is asked for: between being told of one and taking it, somebody else may.
const loopAttempts = 64

// attachLoop puts a loop device over a file. The kernel frees the device when its last user, after the descriptor that is given
// the mount, has gone: nothing is left behind by a process that dies.
func attachLoop(image string, readOnly bool) (*os.File, error) {
	mode, flags := os.O_RDWR, uint32(unix.LO_FLAGS_AUTOCLEAR)
	if readOnly {
		mode, flags = os.O_RDONLY, flags|unix.LO_FLAGS_READ_ONLY
	}
	backing, err := os.OpenFile(image, mode, 0)
	if err != nil {
		return nil, err
	}
	defer backing.Close()
	ctl, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("asking for a loop device: %w", err)
	}
	defer ctl.Close()
	for range loopAttempts {
		n, err := unix.IoctlRetInt(int(ctl.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("asking for a loop device: %w", err)
		}
		dev, err := openLoop(n, mode)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(backing.Fd()), Info: unix.LoopInfo64{Flags: flags}}
		copy(config.Info.File_name[:unix.LO_NAME_SIZE-1], image)
		err = unix.IoctlLoopConfigure(int(dev.Fd()), &config)
		if err == nil {
			return dev, nil
		}
		dev.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("putting %s over %s: %w", dev.Name(), filepath.Base(image), err)
		}
	}
	return nil, errors.New("no loop device could be had: others took each one first")
}

// openLoop opens a loop device, and makes its node where nobody else does, as in a container with a /dev of its own.
func openLoop(n, mode int) (*os.File, error) {
	path := fmt.Sprintf("/dev/loop%d", n)
	dev, err := os.OpenFile(path, mode, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(7, uint32(n)))); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("making %s: %w", path, err)
		}
		dev, err = os.OpenFile(path, mode, 0)
	}
	return dev, err
}

// mountImage mounts the ext4 file system of an image file, detached. The loop device lives as long as the mount.
func mountImage(image string, attrs int, readOnly bool) (mount *os.File, device string, err error) {
	dev, err := attachLoop(image, readOnly)
	if err != nil {
		return nil, "", err
	}
	defer dev.Close()
	fsfd, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, "", fmt.Errorf("opening ext4: %w", err)
	}
	defer unix.Close(fsfd)
	err = unix.FsconfigSetString(fsfd, "source", dev.Name())
	if err == nil && readOnly {
		err = unix.FsconfigSetFlag(fsfd, "ro")
	} else if err == nil {
		// The kernel would otherwise fill the inode tables of the sparse file with zeros.
		err = unix.FsconfigSetFlag(fsfd, "noinit_itable")
	}
	if err == nil {
		err = unix.FsconfigCreate(fsfd)
	}
	if err != nil {
		return nil, "", fmt.Errorf("mounting %s: %w", filepath.Base(image), err)
	}
	fd, err := unix.Fsmount(fsfd, unix.FSMOUNT_CLOEXEC, attrs)
	if err != nil {
		return nil, "", fmt.Errorf("mounting %s: %w", filepath.Base(image), err)
	}
	return os.NewFile(uintptr(fd), image), dev.Name(), nil
}

// loopFreed waits until a loop device is no longer over the file: the last mount goes when the kernel has taken apart the mount
// namespaces of the processes that ended.
func loopFreed(ctx context.Context, device, image string) error {
	if device == "" {
		return nil
	}
	return poll(ctx, func() (bool, error) { return loopFile(device) != image, nil })
}

// loopFile gives the file that a loop device is over, or "".
func loopFile(device string) string {
	b, _ := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "loop/backing_file"))
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), " (deleted)")
}

// freeLoopsBelow takes away the loop devices over files below a directory.
func freeLoopsBelow(ctx context.Context, dir string) error {
	devices, err := filepath.Glob("/sys/block/loop*")
	if err != nil {
		return err
	}
	for _, d := range devices {
		image := loopFile(d)
		if !strings.HasPrefix(image, dir+"/") {
			continue
		}
		device := "/dev/" + filepath.Base(d)
		if f, err := os.OpenFile(device, os.O_RDONLY, 0); err == nil {
			_ = unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0)
			f.Close()
		}
		if err := loopFreed(ctx, device, image); err != nil {
			return fmt.Errorf("freeing %s: %w", device, err)
		}
	}
	return nil
}
