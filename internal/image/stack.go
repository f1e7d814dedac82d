package image

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// StackOptions say what to stack.
type StackOptions struct {
	Layers []*Layer // lowest first; at least one

	// UserNS is a descriptor of the user namespace that the layers are id-mapped by: what belongs to 0 in an image belongs to
	// the namespace's root. -1 for none.
	UserNS int

	// Upper and Work make the stack writable: folders of one file system, Work empty and on none of the paths of Upper. They
	// are not id-mapped (the kernel would refuse to write), so Upper must belong to the host's ids of the namespace's root.
	Upper, Work string

	// Volatile turns fsync in a writable stack into nothing, for an Upper that is packed or thrown away before it could
	// matter: package managers sync every file. After a crash of the host Work refuses to be used again.
	Volatile bool
}

// Stack gives a detached mount of the layers: a clone of the only one, or an overlay of several. Without Upper it is read
// only at every depth, nosuid and nodev; with it, nodev. It is private: no mount below it is propagated. Attach puts it
// into a mount namespace, and closing the file without that dissolves it.
//
// The layers can be closed when the stack stands, but keep them for as long as it is in use: they keep Collect away.
func Stack(o StackOptions) (*os.File, error) {
	if len(o.Layers) == 0 {
		return nil, errors.New("stacking images: no layers")
	}
	if (o.Upper == "") != (o.Work == "") {
		return nil, errors.New("stacking images: an upper directory goes with a work directory")
	}
	state := &o.Layers[0].shared.store.attached
	if !state.needed.Load() {
		m, err := stack(o)
		if !errors.Is(err, unix.EINVAL) {
			return m, err
		}
	}
	m, err := stackAttached(o)
	if err == nil {
		state.needed.Store(true)
	}
	return m, err
}

// stack works on detached mounts alone: cloning one takes Linux 6.15, and handing one to overlayfs 6.13.
func stack(o StackOptions) (*os.File, error) {
	clones, err := cloneLayers(o)
	defer closeAll(&clones)
	if err != nil {
		return nil, err
	}
	if len(clones) == 1 && o.Upper == "" {
		m := clones[0]
		clones = nil
		return finish(m, o)
	}
	c, err := newOverlay(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for i := len(clones) - 1; i >= 0; i-- {
		c.setFD("lowerdir+", clones[i])
	}
	if o.Upper != "" {
		for key, dir := range map[string]string{"upperdir": o.Upper, "workdir": o.Work} {
			f, err := openDir(dir)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			c.setFD(key, f)
		}
	}
	m, err := c.mount(0)
	if err != nil {
		return nil, err
	}
	return finish(m, o)
}

// newOverlay turns off, explicitly, whatever would write notes into the upper directory that mean nothing anywhere else:
// it is to be packed and stacked again.
func newOverlay(o StackOptions) (*fsContext, error) {
	c, err := newFSContext("overlay")
	if err != nil {
		return nil, err
	}
	c.set("source", "enplace")
	for _, option := range [][2]string{{"xino", "off"}, {"index", "off"}, {"metacopy", "off"}, {"redirect_dir", "off"}} {
		c.set(option[0], option[1])
	}
	if o.Upper != "" && o.Volatile {
		c.flag("volatile")
	}
	return c, nil
}

func finish(m *os.File, o StackOptions) (*os.File, error) {
	attributes := uint64(layerAttributes)
	if o.Upper != "" {
		attributes = unix.MOUNT_ATTR_NODEV
	}
	if err := setAttributes(m, &unix.MountAttr{Attr_set: attributes, Propagation: unix.MS_PRIVATE}); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// cloneLayers gives detached, id-mapped clones of all layers. On an error it gives those that were made.
func cloneLayers(o StackOptions) (clones []*os.File, err error) {
	for _, l := range o.Layers {
		m, err := l.clone(o.UserNS)
		if err != nil {
			return clones, fmt.Errorf("stacking image %s: %w", l.Digest(), err)
		}
		clones = append(clones, m)
	}
	return clones, nil
}

func (l *Layer) clone(userNS int) (*os.File, error) {
	fd, err := unix.OpenTree(l.FD(), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cloning mount: %w", err)
	}
	m := os.NewFile(uintptr(fd), "clone of "+string(l.Digest()))
	if userNS < 0 {
		return m, nil
	}
	if err := setAttributes(m, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(userNS)}); err != nil {
		m.Close()
		return nil, fmt.Errorf("mapping ids: %w", err)
	}
	return m, nil
}

func openDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// closeAll closes in its own time: of a detached mount this waits for every processor of the kernel, longer than all else that
// makes a stack.
func closeAll(files *[]*os.File) {
	left := *files
	go func() {
		for _, f := range left {
			f.Close()
		}
	}()
}

// Attach puts a detached mount at a path of the caller's mount namespace, and keeps it private there. The path is trusted:
// links in it are followed.
func Attach(mount *os.File, path string) error {
	target, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("attaching mount: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	defer unix.Close(target)
	return moveTo(int(mount.Fd()), target)
}

// AttachAt is Attach below a folder whose content is not trusted: rel may have no link in any part of it and cannot lead out
// of the folder.
func AttachAt(mount, dirfd int, rel string) error {
	target, err := unix.Openat2(dirfd, rel, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return fmt.Errorf("attaching mount: %w", &os.PathError{Op: "open", Path: rel, Err: err})
	}
	defer unix.Close(target)
	return moveTo(mount, target)
}

func moveTo(mount, target int) error {
	if err := unix.MoveMount(mount, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("attaching mount: %w", err)
	}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_PRIVATE}); err != nil {
		return fmt.Errorf("attaching mount: making it private: %w", err)
	}
	return nil
}
