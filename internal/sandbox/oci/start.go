package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"enplace"
	"enplace/internal/durable"
	"enplace/internal/sandbox"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// validID is what an owner's id may be: it is a file name of ours.
var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// Start gives a waiting sandbox an owner, or makes one first.
func (r *Runtime) Start(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	if err := checkSpec(s); err != nil {
		return nil, err
	}
	if s.Durable != "" && !r.Abilities().Durable {
		return nil, enplace.Errorf(enplace.KindUnavailable, "durable sandboxes cannot be had here: they need loop devices, mkfs.ext4 and a runtime that is not gVisor").
			WithFix("enplace doctor").WithFix("use --runtime runc")
	}
	if err := r.roomOnDisk(); err != nil {
		return nil, err
	}
	if err := r.reserve(s.ID); err != nil {
		return nil, err
	}
	c, err := r.start(ctx, s)
	err = r.full(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		delete(r.owned, s.ID)
		return nil, err
	}
	r.owned[s.ID] = c
	if !c.alive() { // its end came before it was in the books
		delete(r.owned, s.ID)
	}
	return c, nil
}

// roomOnDisk refuses to start what could fill the disk: volumes take their room as they are written to, and together they may
// have more than there is.
func (r *Runtime) roomOnDisk() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(r.dir, &fs); err != nil {
		return fmt.Errorf("looking for room on the disk: %w", err)
	}
	if free := int64(fs.Bavail) * fs.Bsize; free < r.spare {
		return enplace.Errorf(enplace.KindUnavailable, "the disk of the server has %d MiB left, and %d are kept free, so nothing more is started", free>>20, r.spare>>20).
			WithFix("free some room on the server, or keep what tasks leave for a shorter time: enplace serve --retention")
	}
	return nil
}

// full gives an error for people where the disk of the host is full. Whatever fails then, fails for that: of a volume the kernel
// says that it is broken, and the runtime says what it likes.
func (r *Runtime) full(err error) error {
	if err != nil && enplace.KindOf(err) == enplace.KindInternal && r.free() < 1<<20 {
		return durable.FullError(err)
	}
	return durable.Full(err)
}

// free gives the bytes that the disk has left; more than any disk has where that is not known.
func (r *Runtime) free() int64 {
	var fs unix.Statfs_t
	if unix.Statfs(r.dir, &fs) != nil {
		return math.MaxInt64
	}
	return int64(fs.Bavail) * fs.Bsize
}

func checkSpec(s sandbox.Spec) error {
	if !validID.MatchString(s.ID) {
		return enplace.Invalidf("%q cannot be the id of a sandbox", s.ID)
	}
	if len(s.Root) == 0 {
		return enplace.Invalidf("a sandbox needs a root image")
	}
	if s.Durable != "" && (!validID.MatchString(s.Durable) || s.Keep) {
		return enplace.Invalidf("the durable volume %q needs a name, and nothing else is kept", s.Durable)
	}
	for _, m := range s.Mounts {
		if s.Durable != "" && m.Writable {
			return enplace.Invalidf("the mount %s of a durable sandbox cannot be writable: it would not last", m.Path)
		}
		if m.Path != filepath.Clean(m.Path) || !filepath.IsAbs(m.Path) || m.Path == "/" {
			return enplace.Invalidf("%q is no place for a mount", m.Path)
		}
		if m.Cache != "" && (len(m.Images) > 0 || m.Writable || !validID.MatchString(m.Cache) || m.CacheMiB <= 0) {
			return enplace.Invalidf("the cache %q needs a name, a size and nothing else", m.Cache)
		}
		if m.Cache == "" && len(m.Images) == 0 && !m.Writable {
			return enplace.Invalidf("the mount %s has neither images nor a writable layer", m.Path)
		}
	}
	return nil
}

// reserve takes the id, so that two starts with one id cannot both go on.
func (r *Runtime) reserve(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return enplace.Errorf(enplace.KindBusy, "the server is shutting down")
	}
	if _, taken := r.owned[id]; taken {
		return enplace.Conflictf("%s has a sandbox already; stop it first", id)
	}
	r.owned[id] = nil
	return nil
}

func (r *Runtime) start(ctx context.Context, s sandbox.Spec) (*container, error) {
	var wanted []sandbox.Mount
	for _, m := range s.Mounts {
		if m.Cache != "" {
			wanted = append(wanted, m)
		}
	}
	// Before anything is made: waiting for a cache may take as long as another's build.
	held, err := r.caches.acquire(ctx, wanted)
	if err != nil {
		return nil, err
	}
	k := newKey(s.Root, s.Limits.DiskMiB)
	c, err := r.obtain(ctx, k, s)
	if err != nil {
		r.caches.release(ctx, held)
		return nil, err
	}
	if err := c.own(ctx, s, held); err != nil {
		err = c.stopped(err)
		if e := c.Stop(context.WithoutCancel(ctx)); e != nil {
			r.log.Error("stopping a sandbox that failed to start", "sandbox", c.name, "id", s.ID, "error", e)
		}
		if c.held == nil { // it ended before it had them
			r.caches.release(ctx, held)
		}
		return nil, fmt.Errorf("starting a sandbox: %w", err)
	}
	return c, nil
}

// obtain gives a waiting sandbox, or makes one.
func (r *Runtime) obtain(ctx context.Context, k key, s sandbox.Spec) (*container, error) {
	if s.Durable != "" {
		return r.createDurable(ctx, k, s)
	}
	if r.engine.gvisor {
		return r.create(ctx, k, s.Limits, s.Mounts)
	}
	if c := r.pool.take(k, expected(s.Mounts)); c != nil {
		return c, nil
	}
	return r.create(ctx, k, enplace.DefaultTaskLimits, nil)
}

// own gives the container an owner.
func (c *container) own(ctx context.Context, s sandbox.Spec, held []string) error {
	ctx, release, err := c.use(ctx)
	if err != nil {
		return err
	}
	defer release()
	c.id, c.held = s.ID, held
	var group errgroup.Group
	group.Go(func() error { return c.attach(ctx, s.Mounts) })
	group.Go(func() error {
		if err := c.writeOwner(s.Keep); err != nil {
			return fmt.Errorf("writing down the owner: %w", err)
		}
		c.gate.Set(s.ID, s.Egress)
		return c.limit(s.Limits)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	setup := s.Setup
	setup.ReadOnly = slices.Clone(setup.ReadOnly)
	for _, m := range s.Mounts {
		if m.Cache == "" && !m.Writable && !slices.Contains(setup.ReadOnly, m.Path) {
			setup.ReadOnly = append(setup.ReadOnly, m.Path)
		}
	}
	if err := c.client.Setup(ctx, setup); err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	if c.claim != nil {
		c.claim.started = true
	}
	c.keep = s.Keep // not before: one that fails to start has nothing to keep
	return nil
}

// limit puts limits in force, where they are not those that it was made with.
func (c *container) limit(l enplace.Limits) error {
	d := c.limits
	if l.MemoryMiB == d.MemoryMiB && l.CPUs == d.CPUs && l.Processes == d.Processes {
		return nil
	}
	if err := c.r.cgroups.set(c.name, l); err != nil {
		return fmt.Errorf("setting limits: %w", err)
	}
	return nil
}

// attach brings the mounts into the running sandbox, outer ones first.
func (c *container) attach(ctx context.Context, mounts []sandbox.Mount) (err error) {
	if len(mounts) == 0 || c.r.engine.gvisor { // they came with it
		return nil
	}
	places, err := c.places(ctx, outerFirst(mounts))
	defer closePlaces(places)
	if err != nil {
		return err
	}
	c.made, err = attach(c.mountNS, c.idBase, places)
	return err
}

// outerFirst sorts mounts so that one that is inside of another comes after it.
func outerFirst(mounts []sandbox.Mount) []sandbox.Mount {
	mounts = slices.Clone(mounts)
	slices.SortStableFunc(mounts, func(a, b sandbox.Mount) int {
		return cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/"))
	})
	return mounts
}

// places gives what the mounts are and where they go. What it gives along with an error is to be closed as well.
func (c *container) places(ctx context.Context, mounts []sandbox.Mount) (places []place, err error) {
	for i, m := range mounts {
		mount, err := c.mount(ctx, i, m)
		if err != nil {
			return places, fmt.Errorf("mounting %s: %w", m.Path, err)
		}
		places = append(places, place{mount, m.Path})
	}
	return places, nil
}

// mount gives the detached mount that the n-th mount of the sandbox is.
func (c *container) mount(ctx context.Context, n int, m sandbox.Mount) (*os.File, error) {
	switch {
	case m.Cache != "":
		return c.r.caches.mount(ctx, m, c.userNS)
	case m.Writable:
		upper, work, err := c.volume.layer(filepath.Join(volumeMounts, strconv.Itoa(n)), c.idBase)
		if err != nil {
			return nil, err
		}
		c.writes = append(c.writes, writable{m.Path, upper})
		if len(m.Images) == 0 {
			return cloneMount(upper, volumeAttrs)
		}
		mount, err := c.stack(ctx, m.Images, upper, work)
		return withAttrs(mount, err, volumeAttrs)
	default:
		if mount := c.takeAhead(m.Images); mount != nil {
			if _, err := c.acquire(ctx, m.Images); err != nil {
				return nil, errors.Join(err, mount.Close())
			}
			return mount, nil
		}
		return c.stack(ctx, m.Images, "", "") // read only, nosuid and nodev as all stacks are
	}
}
