package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"enplace"
	"enplace/internal/durable"
	"enplace/internal/sandbox"

	"golang.org/x/sys/unix"
)

// durables keeps the volumes of durable sandboxes. Each has a folder, which is there whole or not at all. Ids on a volume are those
// that a sandbox sees, so that no range of host ids has to be kept for it.
type durables struct {
	dir     string
	volumes *volumes
	held    holds

	mu        sync.Mutex
	lingering map[string]string // loop devices that the kernel had not let go of when their sandbox was cleared away
}

// The entries of a durable volume's folder.
const durableRecord = "volume.json" // beside volumeImage

// While they are made and removed, folders have names that no volume can have.
const (
	durableNew     = ".new-"
	durableDropped = ".dropped-"
)

// record is what is written down of a durable volume when it is made.
type record struct {
	Root    []enplace.Digest `json:"root"`
	DiskMiB int              `json:"disk_mib"`
}

// claim is a durable volume that one sandbox has.
type claim struct {
	name    string
	image   string
	device  string // that it is mounted through
	fresh   bool   // made for this sandbox
	started bool   // and to be kept from here on
}

func (d *durables) folder(name string) string { return filepath.Join(d.dir, name) }

// claim takes the volume that a sandbox asks for, makes it when there is none, and mends what a crash of the host left.
func (d *durables) claim(ctx context.Context, s sandbox.Spec) (c *claim, err error) {
	name := s.Durable
	image := filepath.Join(d.folder(name), volumeImage)
	if !d.held.try(name) {
		return nil, enplace.Conflictf("the volume %s is in use; stop the sandbox that has it first", name)
	}
	defer func() {
		if err != nil {
			d.held.release(name)
		}
	}()
	if d.lingers(name, image) {
		return nil, enplace.Conflictf("the volume %s is still being put away; try again in a moment", name)
	}
	have, err := d.read(name)
	if err == nil && have == nil {
		if err := d.make(ctx, name, record{s.Root, s.Limits.DiskMiB}); err != nil {
			return nil, fmt.Errorf("making the volume %s: %w", name, err)
		}
		return &claim{name: name, image: image, fresh: true}, nil
	}
	if err != nil {
		return nil, err
	}
	if !slices.Equal(have.Root, s.Root) {
		return nil, enplace.Conflictf("the volume %s lies over the images that it was made with, and these are others", name).
			WithFix("start it with those images, or drop it and what is on it")
	}
	if err := mend(ctx, image); err != nil {
		return nil, d.damaged(name, err)
	}
	return &claim{name: name, image: image}, nil
}

// lingers reports whether the kernel still has the volume mounted from an earlier sandbox. Mounting it twice would destroy it.
func (d *durables) lingers(name, image string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if device := d.lingering[name]; device != "" && loopFile(device) == image {
		return true
	}
	delete(d.lingering, name)
	return false
}

// release gives a volume back. One that was made for a sandbox that did not start goes.
func (d *durables) release(c *claim) error {
	defer d.held.release(c.name)
	if c.device != "" && loopFile(c.device) == c.image {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.lingering[c.name] = c.device
		return nil
	}
	if c.fresh && !c.started {
		return d.remove(c.name)
	}
	return nil
}

// read gives what is written down of a volume, or nil when there is no such volume.
func (d *durables) read(name string) (*record, error) {
	if _, err := os.Lstat(d.folder(name)); err != nil {
		return nil, ignore(err, fs.ErrNotExist)
	}
	var r record
	b, err := os.ReadFile(filepath.Join(d.folder(name), durableRecord))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err == nil {
		_, err = os.Stat(filepath.Join(d.folder(name), volumeImage))
	}
	if err != nil {
		return nil, d.damaged(name, err)
	}
	return &r, nil
}

// damaged is the error of a volume that only a person can do something about.
func (d *durables) damaged(name string, err error) error {
	return enplace.Errorf(enplace.KindUnavailable, "the volume %s is damaged, and could not be mended without a decision; it was left as it is", name).
		WithFix("on the server, keep a copy of %s, then run: e2fsck -f %s", d.folder(name), filepath.Join(d.folder(name), volumeImage)).
		WithFix("or give up what is on it and drop it").WithCause(err)
}

// make makes an empty volume.
func (d *durables) make(ctx context.Context, name string, r record) error {
	folder, err := os.MkdirTemp(d.dir, durableNew)
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) // does nothing once it is renamed
	image := filepath.Join(folder, volumeImage)
	if err := d.volumes.format(ctx, image, r.DiskMiB, lasting); err != nil {
		return err
	}
	if err := syncFile(image); err != nil {
		return err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(folder, durableRecord), b, 0o600); err != nil {
		return err
	}
	if err := os.Rename(folder, d.folder(name)); err != nil {
		return err
	}
	return durable.SyncFolder(d.dir)
}

// remove removes a volume, at once as far as its name goes.
func (d *durables) remove(name string) error {
	aside, err := os.MkdirTemp(d.dir, durableDropped)
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside) // or by the next Recover
	if err := ignore(os.Rename(d.folder(name), filepath.Join(aside, "volume")), fs.ErrNotExist); err != nil {
		return err
	}
	return durable.SyncFolder(d.dir)
}

// recover removes what was being made or removed when an earlier process ended.
func (d *durables) recover() error {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), durableNew) || strings.HasPrefix(e.Name(), durableDropped) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(d.dir, e.Name())))
		}
	}
	return err
}

// mend brings the file system of an image in order that was not unmounted: what was synced is in its journal. It decides nothing: a
// fault that has more than one remedy is an error.
func mend(ctx context.Context, image string) error {
	if cleanlyUnmounted(image) {
		return nil
	}
	out, err := exec.CommandContext(ctx, "e2fsck", "-p", image).CombinedOutput()
	const mended = 1 | 2 // of its exit codes: faults were mended, and whoever has it mounted should know
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode()&^mended == 0 {
		err = nil
	}
	if err == nil && !cleanlyUnmounted(image) {
		err = errors.New("it is still not clean")
	}
	if err != nil {
		return fmt.Errorf("e2fsck: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// DropDurable removes a durable volume, once no sandbox has it.
func (r *Runtime) DropDurable(ctx context.Context, name string) error {
	if !validID.MatchString(name) {
		return nil
	}
	d := &r.durables
	if err := d.held.take(ctx, name); err != nil {
		return enplace.Errorf(enplace.KindBusy, "a sandbox has the volume %s; stop it first", name).WithCause(err)
	}
	defer d.held.release(name)
	if err := d.remove(name); err != nil {
		return fmt.Errorf("dropping the volume %s: %w", name, err)
	}
	return nil
}

// Durables gives the durable volumes and what they take on the disk.
func (r *Runtime) Durables(ctx context.Context) (map[string]int64, error) {
	entries, err := os.ReadDir(r.durables.dir)
	if err != nil {
		return nil, fmt.Errorf("listing durable volumes: %w", err)
	}
	sizes := map[string]int64{}
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !validID.MatchString(e.Name()) {
			continue
		}
		var st unix.Stat_t
		err := unix.Stat(filepath.Join(r.durables.folder(e.Name()), volumeImage), &st)
		if err != nil && !errors.Is(err, unix.ENOENT) { // dropped meanwhile, or damaged, and still a volume
			return nil, fmt.Errorf("measuring the volume %s: %w", e.Name(), err)
		}
		sizes[e.Name()] = st.Blocks * 512
	}
	return sizes, nil
}
