package oci

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"enplace"
	"enplace/internal/egress"
	"enplace/internal/guest"
	"enplace/internal/image"
	"enplace/internal/sandbox"

	"golang.org/x/sys/unix"
)

// The entries of a sandbox's folder.
const (
	volumeDir   = "volume" // where the volume is mounted
	volumeImage = "volume.img"
	gateSocket  = "egress.sock"
	guestSocket = "guest.sock"
)

// container is one sandbox, with an owner or waiting for one. Its fields are set by create and start, which one goroutine runs, and
// read by others only after they have been.
type container struct {
	r      *Runtime
	key    key
	limits enplace.Limits  // that it is made with
	cold   []sandbox.Mount // so too, outer ones first
	name   string          // of the container, the folder and the cgroup
	dir    string
	idBase uint32

	folder  *os.File // dir, held open
	userNS  *os.File
	mountNS *os.File
	process *os.File // process 1, as a pidfd
	layers  []*image.Layer
	ahead   atomic.Pointer[ahead]
	volume  *volume
	claim   *claim // on a durable volume, which volume is then
	gate    *egress.Gate
	client  *guest.Client
	said    *tail         // the guest's own messages
	heard   chan struct{} // all of them

	// Of the owner.
	id     string
	keep   bool
	writes []writable
	made   []string // folders made for mounts
	held   []string // cache volumes

	life     context.Context // ends when the sandbox is to end, or has
	end      context.CancelFunc
	stopping atomic.Bool   // on purpose
	done     chan struct{} // nothing is left
	err      error         // of the end; after done

	using sync.RWMutex // held by whoever uses what clear takes away
	works atomic.Int32 // open live working directories
}

// writable is a mount with a writable layer.
type writable struct{ path, upper string }

var _ sandbox.Sandbox = (*container)(nil)

// socket gives a path of a socket in the sandbox's folder that is short enough to be bound, which the folder's may not be.
func (c *container) socket(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", c.folder.Fd(), name)
}

// ID gives the owner's id.
func (c *container) ID() string { return c.id }

// Done is closed when nothing is left.
func (c *container) Done() <-chan struct{} { return c.done }

func (c *container) alive() bool { return c.life.Err() == nil }

// use holds back the clearing away of the sandbox until release is called. The context also ends with the sandbox.
func (c *container) use(ctx context.Context) (_ context.Context, release func(), err error) {
	c.using.RLock()
	if !c.alive() {
		c.using.RUnlock()
		return nil, nil, sandbox.ErrStopped
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	return ctx, func() {
		stop()
		cancel()
		c.using.RUnlock()
	}, nil
}

// stopped turns an error into ErrStopped when the sandbox has ended, which the kernel may tell a moment later than the guest's
// connection does.
func (c *container) stopped(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, guest.ErrClosed) {
		select {
		case <-c.life.Done():
		case <-time.After(time.Second):
		}
	}
	if !c.alive() {
		return fmt.Errorf("%w: %w", sandbox.ErrStopped, err)
	}
	return err
}

// Exec runs a command through the guest.
func (c *container) Exec(ctx context.Context, cmd sandbox.Command) (sandbox.Exit, error) {
	if !c.alive() {
		return sandbox.Exit{}, sandbox.ErrStopped
	}
	exit, err := c.client.Exec(ctx, cmd)
	return exit, c.stopped(err)
}

// Dial opens a connection to the guest.
func (c *container) Dial(ctx context.Context, env []string) (net.Conn, error) {
	ctx, release, err := c.use(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if c.r.engine.gvisor || len(env) > 0 {
		conn, err := c.client.DialNested(ctx, env)
		return conn, c.stopped(err)
	}
	conn, err := c.dial(ctx)
	return conn, c.stopped(err)
}

func (c *container) dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", c.socket(guestSocket))
}

// Stats tells what was used.
func (c *container) Stats(ctx context.Context) (sandbox.Stats, error) {
	_, release, err := c.use(ctx)
	if err != nil {
		return sandbox.Stats{}, err
	}
	defer release()
	peak, kills := c.r.cgroups.used(c.name)
	used, limit := c.volume.used()
	return sandbox.Stats{MemoryPeakBytes: peak, OOMKills: kills, DiskUsedBytes: used, DiskLimitBytes: limit, Refused: c.gate.Refused()}, nil
}

// Stop kills process 1, and with it the kernel kills all others; then it waits for the rest to be cleared away.
func (c *container) Stop(ctx context.Context) error {
	c.kill()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *container) kill() {
	c.stopping.Store(true)
	c.end()
	// A frozen process of version 1 dies only when it is thawed.
	_ = c.r.cgroups.thaw(c.name)
	// Through the file, which may be closed at this very moment: its number could be another process's by now.
	if raw, err := c.process.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) }) // fails when it is dead
	}
}

// watch waits for the end of process 1, for whatever reason, and clears away what is left.
func (c *container) watch() {
	waitErr := waitProcess(c.process)
	c.end()
	c.r.pool.drop(c)
	c.using.Lock()
	defer c.using.Unlock()
	log := c.r.log.With("sandbox", c.name, "id", c.id)
	if waitErr != nil {
		log.Error("waiting for a sandbox's end", "error", waitErr)
	}
	if !c.stopping.Load() {
		log.Warn("a sandbox ended by itself", "said", c.said.String())
	}
	if c.err = c.clear(); c.err != nil {
		log.Error("clearing away a sandbox", "error", c.err)
	}
	c.r.forget(c)
	close(c.done)
}

// clear takes away all that the sandbox consists of, in an order in which nothing is in use any more. It goes on after an
// error. It is also how create undoes what it did. Process 1 must be dead.
func (c *container) clear() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*settleTime)
	defer cancel()
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	if c.client != nil {
		_ = c.client.Close()
	}
	if c.gate != nil {
		note(c.gate.Close())
	}
	note(c.r.cgroups.remove(ctx, c.name))
	note(c.r.engine.forget(c.name))
	for _, f := range []*os.File{c.mountNS, c.process, c.userNS, c.folder} {
		if f != nil {
			f.Close()
		}
	}
	c.dropAhead(c.ahead.Swap(nil))
	for _, l := range c.layers {
		note(l.Close())
	}
	if c.claim != nil {
		note(c.closeDurable(context.WithoutCancel(ctx)))
	} else if c.volume != nil {
		note(c.clearVolume(ctx))
	}
	c.r.caches.release(ctx, c.held)
	if c.idBase != 0 {
		c.r.ids.release(c.idBase)
	}
	note(c.r.removeFolder(c.name))
	return errors.Join(errs...)
}

// clearVolume drops the volume, or makes it the kept one of its owner.
func (c *container) clearVolume(ctx context.Context) error {
	var errs []error
	if c.keep && c.id != "" {
		if err := errors.Join(c.volume.strip(ctx), c.volume.seal(ctx)); err != nil {
			errs = append(errs, fmt.Errorf("%w: %w", sandbox.ErrNotKept, err))
		}
	} else {
		c.volume.abandon()
	}
	errs = append(errs, c.volume.unmount())
	if c.works.Load() == 0 { // else a reader still holds it, which is sealed
		errs = append(errs, loopFreed(ctx, c.volume.device, c.volume.image))
	}
	if c.keep && c.id != "" {
		if err := c.r.keepVolume(c.name, c.id); err != nil {
			errs = append(errs, fmt.Errorf("%w: %w", sandbox.ErrNotKept, err))
		}
	}
	return errors.Join(errs...)
}

// removeFolder removes a sandbox's folder, unless something is still mounted there that would be emptied with it.
func (r *Runtime) removeFolder(name string) error {
	dir := filepath.Join(r.dir, sandboxesDir, name)
	left, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%s is still mounted", left[0])
	}
	return os.RemoveAll(dir)
}

// forget drops a container from the books.
func (r *Runtime) forget(c *container) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, c)
	if r.owned[c.id] == c {
		delete(r.owned, c.id)
	}
}

// waitProcess waits for a pidfd to say that its process has ended.
func waitProcess(process *os.File) error {
	raw, err := process.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		ended := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(ended, 0)
		return err == nil && n == 1
	})
}

// tail keeps the last bytes written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 4096

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b) - tailBytes; n > 0 {
		t.b = slices.Delete(t.b, 0, n)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
