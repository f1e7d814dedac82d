package base

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// shiftedIDs is where the ids of the last step's container begin on this machine: above those that sandboxes are given.
const shiftedIDs = 4_000_000_000

// bindShifted mounts dir at mnt so that its owners count from shiftedIDs: what root of the container writes belongs to root
// on disk, although that root is nobody outside.
func bindShifted(ctx context.Context, dir, mnt string) error {
	ns, err := shiftedNamespace(ctx)
	if err != nil {
		return err
	}
	defer ns.Close()
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(tree)
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NODEV, Userns_fd: uint64(ns.Fd()), Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, attr); err != nil {
		return fmt.Errorf("mount_setattr (the filesystem must be able to map ids; ext4, xfs and btrfs are): %w", err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, mnt, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// shiftedNamespace opens a user namespace with the shifted ids. A namespace needs a process to be made; this one waits for
// the end of its input, and its namespace outlives it by the descriptor.
func shiftedNamespace(ctx context.Context) (*os.File, error) {
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: shiftedIDs, Size: maxID + 1}}
	cmd := exec.CommandContext(ctx, "cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = io.Discard
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("making a user namespace: %w", err)
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
	closed := errors.Join(in.Close(), cmd.Wait())
	if err != nil {
		return nil, err
	}
	return ns, closed
}

func unmount(path string) error {
	if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// clear removes all that a making has left, or one that was killed. Nothing is deleted while something is still mounted
// below: it might be the machine's own.
func (b *Builder) clear(ctx context.Context) error {
	if err := b.dropContainer(ctx); err != nil {
		return err
	}
	mounts, err := mountsBelow(b.cfg.Dir)
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(mounts) {
		if err := unmount(m); err != nil {
			return fmt.Errorf("unmounting %s: %w", m, err)
		}
	}
	left, err := mountsBelow(b.cfg.Dir)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("still mounted: %v", left)
	}
	return errors.Join(os.RemoveAll(b.work()), os.RemoveAll(filepath.Join(b.cfg.Dir, "mnt")))
}

// mountsBelow lists the mount points below a folder in the order they were made (proc_pid_mountinfo(5)).
func mountsBelow(dir string) ([]string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var found []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if p := unescape.Replace(fields[4]); strings.HasPrefix(p, dir+"/") {
			found = append(found, p)
		}
	}
	return found, lines.Err()
}
