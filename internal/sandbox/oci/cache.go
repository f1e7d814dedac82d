package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"enplace"
	"enplace/internal/sandbox"
)

// caches keeps volumes that last beyond the sandbox. Ids on them are those that a sandbox sees, so that any sandbox can have
// one, whatever its range.
type caches struct {
	dir     string
	volumes *volumes

	held holds

	mu   sync.Mutex
	used map[string]string // loop devices of those mounted
}

// acquire waits for the named caches to be free and takes them, in the order of their names, so that two sandboxes cannot wait
// for each other.
func (c *caches) acquire(ctx context.Context, mounts []sandbox.Mount) ([]string, error) {
	var names []string
	for _, m := range mounts {
		names = append(names, m.Cache)
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		return nil, enplace.Invalidf("one cache is mounted twice")
	}
	for i, name := range names {
		if err := c.take(ctx, name); err != nil {
			c.release(ctx, names[:i])
			return nil, err
		}
	}
	return names, nil
}

func (c *caches) take(ctx context.Context, name string) error {
	if err := c.held.take(ctx, name); err != nil {
		return enplace.Errorf(enplace.KindBusy, "the cache %s is in use by another sandbox; try again when that has ended", name).WithCause(err)
	}
	return nil
}

// release lets go of caches once their mounts are gone.
func (c *caches) release(ctx context.Context, names []string) {
	for _, name := range names {
		c.mu.Lock()
		device := c.used[name]
		c.mu.Unlock()
		// One that stays busy is not clean, and is made anew by whoever comes next.
		_ = loopFreed(ctx, device, c.image(name))
		c.mu.Lock()
		delete(c.used, name)
		c.mu.Unlock()
		c.held.release(name)
	}
}

func (c *caches) image(name string) string { return filepath.Join(c.dir, name+".img") }

// mount gives a cache as the sandbox sees it. One that cannot be mounted, that a crash left unclean, or that has another size
// is thrown away and made anew: it is a cache.
func (c *caches) mount(ctx context.Context, m sandbox.Mount, userNS *os.File) (*os.File, error) {
	mount, err := c.open(ctx, m)
	if err != nil {
		return nil, err
	}
	if err := idMap(mount, userNS); err != nil {
		return nil, errors.Join(err, mount.Close())
	}
	return withAttrs(mount, nil, volumeAttrs)
}

func (c *caches) open(ctx context.Context, m sandbox.Mount) (*os.File, error) {
	if !c.volumes.limited {
		dir := filepath.Join(c.dir, m.Cache)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		return cloneMount(dir, volumeAttrs)
	}
	image := c.image(m.Cache)
	if c.usable(ctx, image, m.CacheMiB) {
		if mount, device, err := mountImage(image, volumeAttrs, false); err == nil {
			c.note(m.Cache, device)
			return mount, nil
		}
	}
	if err := os.RemoveAll(image); err != nil {
		return nil, err
	}
	if err := c.volumes.format(ctx, image, m.CacheMiB, passing); err != nil {
		return nil, fmt.Errorf("making the cache %s: %w", m.Cache, err)
	}
	mount, device, err := mountImage(image, volumeAttrs, false)
	if err != nil {
		return nil, err
	}
	c.note(m.Cache, device)
	return mount, nil
}

func (c *caches) note(name, device string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used[name] = device
}

func (c *caches) usable(ctx context.Context, image string, mib int) bool {
	have, err := os.Stat(image)
	if err != nil || !cleanlyUnmounted(image) {
		return false
	}
	template, err := c.volumes.template(ctx, mib, passing)
	if err != nil {
		return false
	}
	want, err := os.Stat(template)
	return err == nil && have.Size() == want.Size()
}

// DropCache removes a cache, once no sandbox has it.
func (r *Runtime) DropCache(ctx context.Context, name string) error {
	if !validID.MatchString(name) {
		return nil
	}
	c := &r.caches
	if err := c.take(ctx, name); err != nil {
		return err
	}
	defer c.release(ctx, []string{name})
	return errors.Join(os.RemoveAll(c.image(name)), os.RemoveAll(filepath.Join(c.dir, name)))
}
