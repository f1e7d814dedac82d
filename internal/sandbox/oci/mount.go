package oci

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// cloneMount makes a detached copy of what is at the path, with attributes set.
func cloneMount(path string, attrs uint64) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, &os.PathError{Op: "open_tree", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if err := setMountAttrs(f, attrs); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// setMountAttrs sets attributes on a detached mount and makes it private.
func setMountAttrs(f *os.File, attrs uint64) error {
	a := unix.MountAttr{Attr_set: attrs, Propagation: unix.MS_PRIVATE}
	if attrs&unix.MOUNT_ATTR__ATIME != 0 { // one of several ways, of which the kernel wants the others to be cleared
		a.Attr_clr = unix.MOUNT_ATTR__ATIME
	}
	err := unix.MountSetattr(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &a)
	return os.NewSyscallError("mount_setattr", err)
}

// withAttrs passes on a mount with attributes set on all of it.
func withAttrs(mount *os.File, err error, attrs uint64) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	if err := setMountAttrs(mount, attrs); err != nil {
		return nil, errors.Join(err, mount.Close())
	}
	return mount, nil
}

// idMap has a detached mount show the ids of the disk as the user namespace maps them.
func idMap(f *os.File, userNS *os.File) error {
	err := unix.MountSetattr(int(f.Fd()), "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(userNS.Fd())})
	return os.NewSyscallError("mount_setattr idmap", err)
}

// moveMount attaches a detached mount to a path.
func moveMount(f *os.File, path string) error {
	err := unix.MoveMount(int(f.Fd()), "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err != nil {
		return &os.PathError{Op: "move_mount", Path: path, Err: err}
	}
	return nil
}

// unmount takes away a mount, and is content when there is none.
func unmount(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "umount", Path: path, Err: err}
	}
	return nil
}

// mountsBelow gives the mount points at or below a path, the deepest first.
func mountsBelow(path string) ([]string, error) {
	f, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		at := mountinfoEscapes.Replace(fields[4])
		if at == path || strings.HasPrefix(at, path+"/") {
			found = append(found, at)
		}
	}
	slices.Reverse(found) // a mount is listed after the one that it is on
	return found, nil
}

var mountinfoEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// onOwnThread runs f on a thread that nobody uses afterwards, for what changes the thread for good, such as its mount
// namespace. The thread ends with the goroutine, as it is never unlocked.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			done <- f()
			return
		}
		// The first thread cannot end, and it is the one that /proc/self shows. While this goroutine holds it another
		// goroutine gets another.
		defer runtime.UnlockOSThread()
		done <- onOwnThread(f)
	}()
	return <-done
}

// place is where in a sandbox a mount goes.
type place struct {
	mount *os.File
	path  string
}

// moveMounts attaches the mounts to paths of this thread's mount namespace.
func moveMounts(places []place) error {
	for _, p := range places {
		if err := moveMount(p.mount, p.path); err != nil {
			return err
		}
	}
	return nil
}

func closePlaces(places []place) {
	for _, p := range places {
		p.mount.Close()
	}
}

// attach enters the mount namespace and attaches the mounts in turn. Missing folders are made, as root of the sandbox whose ids
// begin at idBase; the path of the first one made for each is given back.
func attach(mountNS *os.File, idBase uint32, places []place) (made []string, err error) {
	err = onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("leaving the shared working directory: %w", err)
		}
		if err := unix.Setns(int(mountNS.Fd()), unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("entering the mount namespace: %w", err)
		}
		made, err = attachBelow("/", idBase, places)
		return err
	})
	return made, err
}

// attachBelow attaches the mounts in turn below a root of this thread's mount namespace.
func attachBelow(root string, idBase uint32, places []place) (made []string, err error) {
	for _, p := range places {
		dir, first, err := openMountPoint(root, p.path, int(idBase))
		if err != nil {
			return made, fmt.Errorf("making the folder %s: %w", p.path, err)
		}
		if first != "" {
			made = append(made, first)
		}
		err = unix.MoveMount(int(p.mount.Fd()), "", dir, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
		unix.Close(dir)
		if err != nil {
			return made, fmt.Errorf("attaching %s: %w", p.path, err)
		}
	}
	return made, nil
}

// openMountPoint opens a folder by its path below a root, following no link, and makes what is missing of it. It acts with the file
// system ids of the sandbox's root, so that what it makes is root's inside, and so that it can do no more than root could.
func openMountPoint(root, path string, id int) (fd int, first string, err error) {
	if err := errors.Join(unix.Setfsgid(id), unix.Setfsuid(id)); err != nil {
		return -1, "", err
	}
	defer func() { _ = errors.Join(unix.Setfsuid(0), unix.Setfsgid(0)) }()
	if fd, err = unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return -1, "", err
	}
	walked := "/"
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		walked = filepath.Join(walked, part)
		below, made, err := openFolder(fd, part)
		unix.Close(fd)
		if err != nil {
			return -1, "", err
		}
		if fd = below; made {
			first = cmp.Or(first, walked)
		}
	}
	return fd, first, nil
}

// openFolder opens a folder that is in another, and makes it if it is missing.
func openFolder(parent int, name string) (fd int, made bool, err error) {
	err = unix.Mkdirat(parent, name, 0o755)
	if made = err == nil; made {
		err = unix.Fchmodat(parent, name, 0o755, 0) // whatever the umask
	}
	if ignore(err, unix.EEXIST, unix.EROFS) != nil {
		return -1, made, err
	}
	fd, err = unix.Openat2(parent, name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	return fd, made, err
}
