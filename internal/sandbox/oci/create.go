package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"enplace"
	"enplace/internal/guest"
	"enplace/internal/image"
	"enplace/internal/sandbox"

	"golang.org/x/sys/unix"
)

// owner is what is written down of a sandbox that has one, for a later process to settle it.
type owner struct {
	ID   string `json:"id"`
	Keep bool   `json:"keep"`
}

const ownerFile = "owner.json"

// create makes a container that waits for an owner, with no way out until then. The mounts are those that it cannot be given
// later. Nothing is left of one that fails.
func (r *Runtime) create(ctx context.Context, k key, l enplace.Limits, mounts []sandbox.Mount) (*container, error) {
	return r.make(ctx, r.newContainer(k, l, mounts))
}

func (r *Runtime) newContainer(k key, l enplace.Limits, mounts []sandbox.Mount) *container {
	name := "sbx-" + strings.TrimPrefix(enplace.NewID(enplace.PrefixSandbox, r.now()), enplace.PrefixSandbox+"_")
	c := &container{r: r, key: k, limits: l, cold: outerFirst(mounts), name: name, dir: filepath.Join(r.dir, sandboxesDir, name),
		said: &tail{}, done: make(chan struct{})}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

func (r *Runtime) make(ctx context.Context, c *container) (*container, error) {
	if err := c.create(ctx); err != nil {
		c.end()
		if e := errors.Join(r.engine.delete(context.WithoutCancel(ctx), c.name), c.clear()); e != nil {
			r.log.Error("clearing away a sandbox that failed to start", "sandbox", c.name, "error", e)
		}
		if said := c.lastWords(); said != "" {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(said))
		}
		return nil, fmt.Errorf("making a sandbox: %w", err)
	}
	r.mu.Lock()
	r.all[c] = struct{}{}
	closed := r.closed
	r.mu.Unlock()
	go c.watch()
	if closed {
		_ = c.Stop(ctx)
		return nil, enplace.Errorf(enplace.KindBusy, "the server is shutting down")
	}
	return c, nil
}

// lastWords gives what the guest and the runtime said, which may still be on its way when they are gone.
func (c *container) lastWords() string {
	if c.heard != nil {
		select {
		case <-c.heard:
		case <-time.After(time.Second):
		}
	}
	return c.said.String()
}

func (c *container) create(ctx context.Context) (err error) {
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		return err
	}
	if c.folder, err = os.Open(c.dir); err != nil {
		return err
	}
	if c.idBase, err = c.r.ids.take(); err != nil {
		return err
	}
	if c.userNS, err = userNamespace(c.idBase); err != nil {
		return err
	}
	if err := c.makeVolume(ctx); err != nil {
		return fmt.Errorf("making a volume: %w", err)
	}
	root, err := c.mountRoot(ctx)
	if err != nil {
		return fmt.Errorf("mounting the root: %w", err)
	}
	defer root.Close()
	inside, err := c.places(ctx, c.cold)
	defer closePlaces(inside)
	if err != nil {
		return err
	}
	mounts := []place{{root, rootPoint}}
	if c.volume.mount != nil {
		volume, err := cloneMount(c.volume.dir, volumeAttrs)
		if err != nil {
			return err
		}
		defer volume.Close()
		mounts = append(mounts, place{volume, filepath.Join(c.dir, volumeDir)})
	}
	if c.gate, err = c.r.egress.Gate(c.socket(gateSocket), c.name, enplace.Egress{Policy: enplace.EgressNone}); err != nil {
		return fmt.Errorf("opening the egress gate: %w", err)
	}
	if err := c.r.writeBundle(c); err != nil {
		return fmt.Errorf("writing the bundle: %w", err)
	}
	return c.boot(ctx, mounts, inside)
}

func (c *container) makeVolume(ctx context.Context) (err error) {
	if c.claim != nil {
		return c.openDurable(ctx)
	}
	c.volume, err = c.r.volumes.create(ctx, filepath.Join(c.dir, volumeDir), filepath.Join(c.dir, volumeImage), c.key.disk, c.idBase)
	if err == nil && c.r.engine.gvisor {
		err = emptyTmp(ctx, c.volume.dir, c.idBase)
	}
	return err
}

// writeOwner writes down the owner. It is written once, under a name that is new: ext4 sends a file that takes the place of
// another to the disk at once, which takes a millisecond, and this one only has to outlive the process.
func (c *container) writeOwner(keep bool) error {
	b, err := json.Marshal(owner{ID: c.id, Keep: keep})
	if err != nil {
		return err
	}
	path := filepath.Join(c.dir, ownerFile)
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// mountRoot stacks the images, as the sandbox's root sees them, below a writable layer on the volume.
func (c *container) mountRoot(ctx context.Context) (mount *os.File, err error) {
	if c.claim != nil {
		mount, err = c.mountDurableRoot(ctx)
		return withAttrs(mount, err, rootAttrs)
	}
	upper, work, err := c.volume.layer(volumeRoot, c.idBase)
	if err != nil {
		return nil, err
	}
	mount, err = c.stack(ctx, c.key.digests(), upper, work)
	return withAttrs(mount, err, rootAttrs)
}

const rootAttrs = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// acquire keeps images until the sandbox's end.
func (c *container) acquire(ctx context.Context, images []enplace.Digest) ([]*image.Layer, error) {
	before := len(c.layers)
	for _, d := range images {
		l, err := c.r.images.Acquire(ctx, d)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", d, err)
		}
		c.layers = append(c.layers, l)
	}
	return c.layers[before:], nil
}

// stack gives a detached mount of images, writable when there is an upper folder. The images are kept until the sandbox's end.
func (c *container) stack(ctx context.Context, images []enplace.Digest, upper, work string) (*os.File, error) {
	layers, err := c.acquire(ctx, images)
	if err != nil {
		return nil, err
	}
	return image.Stack(image.StackOptions{Layers: layers, UserNS: int(c.userNS.Fd()), Upper: upper, Work: work, Volatile: upper != ""})
}

// boot runs the container and connects to its guest. The first mounts are for the runtime to find, the others for the sandbox.
func (c *container) boot(ctx context.Context, mounts, inside []place) error {
	conn, socket, err := c.meet()
	if err != nil {
		return err
	}
	defer socket.Close()
	if conn != nil {
		defer func() {
			if c.client == nil {
				conn.Close()
			}
		}()
	}
	reader, output, err := os.Pipe()
	if err != nil {
		return err
	}
	defer output.Close()
	c.heard = make(chan struct{})
	go func() {
		defer close(c.heard)
		defer reader.Close()
		_, _ = io.Copy(c.said, reader) // until the last process that has the pipe is gone
	}()
	pid, err := c.r.engine.run(ctx, c.dir, c.name, func() (err error) {
		if err := moveMounts(mounts); err != nil {
			return err
		}
		c.made, err = attachBelow(rootPoint, c.idBase, inside)
		return err
	}, socket, output)
	if err != nil {
		return err
	}
	if err := c.openProcess(pid); err != nil {
		return fmt.Errorf("opening process 1: %w", err)
	}
	if err := socket.Close(); err != nil { // so that a guest that died closes the connection
		return err
	}
	if conn == nil {
		if conn, err = c.dial(ctx); err != nil {
			return fmt.Errorf("connecting to the guest: %w", err)
		}
	}
	c.client, err = guest.Dial(ctx, conn)
	return err
}

// openProcess opens process 1 and its mount namespace, and makes sure that they are: were it dead already, its number could be
// another's by now.
func (c *container) openProcess(pid int) error {
	pidfd, err := unix.PidfdOpen(pid, unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	process := os.NewFile(uintptr(pidfd), "process 1 of "+c.name)
	defer func() {
		if c.process == nil {
			process.Close()
		}
	}()
	if c.mountNS, err = os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid)); err != nil {
		return err
	}
	ids, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid))
	if err != nil {
		return err
	}
	if got := strings.Fields(string(ids)); len(got) != 3 || got[1] != strconv.Itoa(int(c.idBase)) {
		return errors.New("it has ended")
	}
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil { // it had the number all the while
		return err
	}
	c.process = process
	return nil
}

// meet gives the socket that process 1 inherits, and the connection to it where it is one half of that.
func (c *container) meet() (net.Conn, *os.File, error) {
	if c.r.engine.gvisor {
		return connect()
	}
	socket, err := c.listen()
	return nil, socket, err
}

// listen makes the socket that the guest listens on. Only root of the host can connect to it.
func (c *container) listen() (*os.File, error) {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: c.socket(guestSocket)})
	if err != nil {
		return nil, fmt.Errorf("listening for the guest: %w", err)
	}
	defer ln.Close()
	ln.SetUnlinkOnClose(false)
	if err := os.Chmod(c.socket(guestSocket), 0o600); err != nil {
		return nil, err
	}
	return ln.File()
}
