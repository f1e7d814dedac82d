package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Kernels before 6.15 clone only what is attached to the caller's mount namespace, and before 6.13 overlayfs takes paths
// only. There, layers are attached below mnt/ of the store while they are mounted, and their clones while a stack is made.
// mnt/ is a mount of its own, private, so nothing reaches other namespaces, and detaching it takes all of it away.
type attachedState struct {
	needed atomic.Bool // detached mounts were found not to be enough

	mu    sync.Mutex
	ready bool
}

func (s *Store) mountDir() string { return filepath.Join(s.dir, "mnt") }

// prepare makes mnt/.
func (a *attachedState) prepare(dir string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ready {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	a.ready = true
	return nil
}

func (a *attachedState) close(dir string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ready {
		return nil
	}
	a.ready = false
	return detachAll(dir)
}

// detachAll takes away every mount at dir, with all below it. None there is no error.
func detachAll(dir string) error {
	for {
		err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		switch {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT), errors.Is(err, unix.EPERM):
			return nil
		case err != nil:
			return &os.PathError{Op: "unmount", Path: dir, Err: err}
		}
	}
}

// attach puts the mount below mnt/, once.
func (m *mounted) attach() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.attachedAt != "" {
		return nil
	}
	if err := m.store.attached.prepare(m.store.mountDir()); err != nil {
		return err
	}
	// A place of its own: an earlier mount of the same image may be on its way out.
	at, err := os.MkdirTemp(m.store.mountDir(), m.digest.Hex()+"-")
	if err != nil {
		return err
	}
	if err := Attach(m.mount, at); err != nil {
		return errors.Join(err, os.Remove(at))
	}
	m.attachedAt = at
	return nil
}

// detach undoes attach. m.mu is held.
func (m *mounted) detach() error {
	if m.attachedAt == "" {
		return nil
	}
	at := m.attachedAt
	m.attachedAt = ""
	if err := detachAll(at); err != nil {
		return err
	}
	err := os.Remove(at)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return err
}

// stackAttached is stack for those kernels.
func stackAttached(o StackOptions) (*os.File, error) {
	for _, l := range o.Layers {
		if err := l.shared.attach(); err != nil {
			return nil, fmt.Errorf("stacking image %s: %w", l.Digest(), err)
		}
	}
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
	dir, err := os.MkdirTemp(o.Layers[0].shared.store.mountDir(), "stack-")
	if err != nil {
		return nil, fmt.Errorf("stacking images: %w", err)
	}
	defer os.RemoveAll(dir)
	for i, clone := range clones {
		at := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(at, 0o700); err != nil {
			return nil, fmt.Errorf("stacking images: %w", err)
		}
		if err := Attach(clone, at); err != nil {
			return nil, err
		}
		defer func() { _ = detachAll(at) }() // the overlay has clones of its own by then
	}
	m, err := overlayOfPaths(o, clones, "lowerdir+")
	if errors.Is(err, unix.EINVAL) { // "lowerdir+" is of Linux 6.7
		m, err = overlayOfPaths(o, clones, "lowerdir")
	}
	if err != nil {
		return nil, err
	}
	return finish(m, o)
}

// overlayOfPaths names everything through /proc, because fsconfig takes strings of at most 255 bytes.
func overlayOfPaths(o StackOptions, lowers []*os.File, key string) (*os.File, error) {
	c, err := newOverlay(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var paths []string
	for i := len(lowers) - 1; i >= 0; i-- {
		paths = append(paths, procPath(lowers[i]))
	}
	if key == "lowerdir" {
		paths = []string{strings.Join(paths, ":")}
	}
	for _, p := range paths {
		c.set(key, p)
	}
	if o.Upper != "" {
		for key, dir := range map[string]string{"upperdir": o.Upper, "workdir": o.Work} {
			f, err := openDir(dir)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			c.set(key, procPath(f))
		}
	}
	return c.mount(0)
}
