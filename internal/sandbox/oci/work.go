package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"enplace"
	"enplace/internal/durable"
	"enplace/internal/sandbox"

	"golang.org/x/sys/unix"
)

// keptAttrs are those of a kept volume's mount: it is there to be read.
const keptAttrs = volumeAttrs | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOEXEC

// Work opens a working directory.
func (r *Runtime) Work(ctx context.Context, id string) (*sandbox.Work, error) {
	if !validID.MatchString(id) {
		return nil, sandbox.ErrNotFound
	}
	r.mu.Lock()
	c, known := r.owned[id]
	r.mu.Unlock()
	if c == nil && known {
		return nil, enplace.Conflictf("%s is starting; its files can be read in a moment", id)
	}
	if c != nil && c.claim != nil {
		return nil, sandbox.ErrNotFound
	}
	if c != nil {
		w, err := c.liveWork(ctx)
		if !errors.Is(err, sandbox.ErrStopped) {
			return w, err
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return r.keptWork(id)
}

// liveWork opens the folder that the sandbox writes to.
func (c *container) liveWork(ctx context.Context) (*sandbox.Work, error) {
	_, release, err := c.use(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	root, err := os.OpenRoot(filepath.Join(c.volume.dir, volumeTask))
	if err != nil {
		return nil, fmt.Errorf("opening the working directory: %w", err)
	}
	c.works.Add(1)
	return &sandbox.Work{Root: root, Release: sync.OnceValue(func() error {
		c.works.Add(-1)
		return root.Close()
	})}, nil
}

// keptWork opens what Keep kept.
func (r *Runtime) keptWork(id string) (*sandbox.Work, error) {
	if root, err := os.OpenRoot(filepath.Join(r.dir, workDir, id, volumeTask)); err == nil {
		return &sandbox.Work{Root: root, Release: root.Close}, nil
	}
	mount, _, err := mountImage(r.keptImage(id), keptAttrs, true)
	if errors.Is(err, os.ErrNotExist) {
		return nil, sandbox.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("opening a kept working directory: %w", err)
	}
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d/%s", mount.Fd(), volumeTask))
	if err != nil {
		return nil, errors.Join(err, mount.Close())
	}
	return &sandbox.Work{Root: root, Release: sync.OnceValue(func() error { return errors.Join(root.Close(), mount.Close()) })}, nil
}

func (r *Runtime) keptImage(id string) string { return filepath.Join(r.dir, workDir, id+".img") }

// keepVolume makes the volume of a sandbox the kept one of its owner, in place of an earlier one.
func (r *Runtime) keepVolume(name, id string) error {
	from, to := filepath.Join(r.dir, sandboxesDir, name, volumeImage), r.keptImage(id)
	if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
		from, to = filepath.Join(r.dir, sandboxesDir, name, volumeDir), filepath.Join(r.dir, workDir, id)
		if err := os.RemoveAll(to); err != nil {
			return err
		}
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("keeping a working directory: %w", err)
	}
	return durable.SyncFolder(filepath.Join(r.dir, workDir))
}

// Discard drops a kept working directory.
func (r *Runtime) Discard(_ context.Context, id string) error {
	if !validID.MatchString(id) {
		return nil
	}
	if err := errors.Join(os.RemoveAll(r.keptImage(id)), os.RemoveAll(filepath.Join(r.dir, workDir, id))); err != nil {
		return fmt.Errorf("discarding a working directory: %w", err)
	}
	return durable.SyncFolder(filepath.Join(r.dir, workDir))
}
