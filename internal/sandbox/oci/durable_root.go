package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"enplace"
	"enplace/internal/image"
	"enplace/internal/sandbox"

	"golang.org/x/sys/unix"
)

// createDurable makes a container whose root is on a durable volume. It is made for its owner: the root of one that waits cannot be
// exchanged.
func (r *Runtime) createDurable(ctx context.Context, k key, s sandbox.Spec) (*container, error) {
	claim, err := r.durables.claim(ctx, s)
	if err != nil {
		return nil, err
	}
	c := r.newContainer(k, s.Limits, nil)
	c.claim = claim
	return r.make(ctx, c)
}

// openDurable mounts the volume. The mount shows its ids as those of the sandbox.
func (c *container) openDurable(ctx context.Context) error {
	dir := filepath.Join(c.dir, volumeDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	mount, device, err := mountImage(c.claim.image, volumeAttrs, false)
	if err != nil {
		return c.r.durables.damaged(c.claim.name, err)
	}
	c.claim.device = device
	// Before the ids are mapped: then root of the host has none here.
	if err := emptyTmp(ctx, fmt.Sprintf("/proc/self/fd/%d", mount.Fd()), 0); err != nil {
		return errors.Join(fmt.Errorf("emptying /tmp: %w", err), mount.Close())
	}
	if err := idMap(mount, c.userNS); err != nil {
		return errors.Join(err, mount.Close())
	}
	v := &volume{dir: dir, image: c.claim.image, device: device}
	if err := c.r.volumes.place(v, mount); err != nil {
		return err
	}
	c.volume = v
	return nil
}

// emptyTmp makes the folder of a volume that is /tmp anew.
func emptyTmp(ctx context.Context, volume string, owner uint32) error {
	dir := filepath.Join(volume, volumeTmp)
	return errors.Join(removeFolders(ctx, volume, volumeTmp), makeOwned(dir, owner), os.Chmod(dir, os.ModeSticky|0o777))
}

// mountDurableRoot stacks the images below the volume, for good: what is synced inside is synced. The kernel writes to an id-mapped
// upper layer as whoever mounted the stack, which must have ids there, so that is done as root of the sandbox.
func (c *container) mountDurableRoot(ctx context.Context) (*os.File, error) {
	layers, err := c.acquire(ctx, c.key.digests())
	if err != nil {
		return nil, err
	}
	var mount *os.File
	upper, work := filepath.Join(c.volume.dir, volumeRoot, "upper"), filepath.Join(c.volume.dir, volumeRoot, "work")
	err = asRootOf(c.idBase, func() (err error) {
		mount, err = image.Stack(image.StackOptions{Layers: layers, UserNS: int(c.userNS.Fd()), Upper: upper, Work: work})
		if err != nil {
			return err
		}
		if err = writableRoot(mount); err == nil {
			err = mountPoints(fmt.Sprintf("/proc/self/fd/%d", mount.Fd()))
		}
		if err != nil {
			return errors.Join(err, mount.Close())
		}
		return nil
	})
	return mount, err
}

// writableRoot makes sure of what the kernel tells nobody: a stack whose work folder it cannot use turns read only.
func writableRoot(mount *os.File) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(mount.Fd()), &st); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return errors.New("the kernel gives it read only")
	}
	return nil
}

// mountPoints puts in order what the runtime mounts files on. Root of the sandbox may have made anything of it, which must neither
// keep the sandbox from starting nor lead the runtime astray. What is a mount of its own, such as /proc, nobody inside can exchange.
func mountPoints(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := inOrder(root, "etc", os.ModeDir); err != nil {
		return err
	}
	for name := range hostFiles {
		if err := inOrder(root, filepath.Join("etc", name), 0); err != nil {
			return err
		}
	}
	return nil
}

// inOrder takes away what is not of that type: a link holds nothing and goes, all else gets another name.
func inOrder(root *os.Root, name string, want os.FileMode) error {
	st, err := root.Lstat(name)
	if err != nil || st.Mode().Type() == want {
		return ignore(err, os.ErrNotExist)
	}
	if st.Mode().Type() == os.ModeSymlink {
		return root.Remove(name)
	}
	aside := name + ".displaced"
	if err := root.RemoveAll(aside); err != nil {
		return err
	}
	return root.Rename(name, aside)
}

// closeDurable puts the volume away. When it returns nil, all that was written to it is on the disk.
func (c *container) closeDurable(ctx context.Context) error {
	var errs []error
	if v := c.volume; v != nil {
		_ = removeFolders(ctx, v.dir, volumeTmp) // for its room; the next start does it in any case
		errs = append(errs, v.sync())
		v.trim() // which sees what is free once that is on the disk
		errs = append(errs, v.unmount())
	}
	errs = append(errs, loopFreed(ctx, c.claim.device, c.claim.image), syncFile(c.claim.image), c.r.durables.release(c.claim))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("putting away the volume %s: %w", c.claim.name, err)
	}
	return nil
}

// Egress gives the sandbox another policy.
func (c *container) Egress(e enplace.Egress) { c.gate.Set(c.id, e) }
