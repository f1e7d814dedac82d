// Package oci runs sandboxes as containers of an OCI runtime. It is the one place that knows of namespaces, cgroups, ids,
// loop devices and containers: whoever uses the sandbox contract sees root file systems with processes.
//
// A sandbox is made in two parts. The slow part, making a container that waits, is done ahead for the roots that are in
// demand (pool.go). The fast part gives it an owner: limits, egress policy, mounts, files (start.go). What it writes goes to a
// volume of its own with a size (volume.go). Everything that a sandbox consists of on the host lies below one directory, so that
// whatever a crash leaves can be found and settled (recover.go).
package oci

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"enplace"
	"enplace/internal/durable"
	"enplace/internal/egress"
	"enplace/internal/image"
	"enplace/internal/sandbox"
)

// Config is what New needs.
type Config struct {
	Dir      string        // required: for state, volumes and kept work
	Runtime  string        // runc (the default), crun, runsc, or a path
	Guest    string        // required: folder of the programs for inside, enplace-guest and enplace-shim, linked statically
	Images   *image.Store  // required
	Egress   *egress.Proxy // required
	CABundle string        // required: path of the trusted certificates, as PEM
	IDBase   uint32        // first host id for sandboxes; default 1<<20. Nothing else on the host may have ids in this range
	IDCount  uint32        // how many ids; default 65536 for each of 4096 sandboxes
	PoolMax  int           // most warm sandboxes that demand alone makes, for one root; default 8, negative for none
	Spare    int64         // bytes of the disk that are kept free: below them no sandbox starts; default 1 GiB, negative for none
	Logger   *slog.Logger  // default slog.Default
	Now      func() time.Time
}

// The folders of Config.Dir.
const (
	sandboxesDir = "sandboxes" // one folder for each sandbox
	workDir      = "work"      // kept working directories, as volumes
	cachesDir    = "caches"    // cache volumes
	durablesDir  = "durables"  // durable volumes, one folder for each
	templatesDir = "templates" // empty volumes
	runtimeDir   = "runtime"   // the runtime's own state
	etcDir       = "etc"       // files that all sandboxes share
)

// Runtime is the adapter.
type Runtime struct {
	dir      string
	caBundle string
	spare    int64
	images   *image.Store
	egress   *egress.Proxy
	log      *slog.Logger
	now      func() time.Time

	engine   *engine
	cgroups  cgroups
	ids      *idRanges
	volumes  *volumes
	caches   caches
	durables durables
	pool     *pool

	mu     sync.Mutex
	owned  map[string]*container // by owner; nil while one is started
	all    map[*container]struct{}
	closed bool
}

var _ sandbox.Runtime = (*Runtime)(nil)

// New prepares the directory and finds out what the host can do. What the product cannot do without is an *enplace.Error of
// kind unavailable, which says how to get it. Recover must run before Start.
func New(ctx context.Context, c Config) (*Runtime, error) {
	if c.IDBase == 0 {
		c.IDBase = 1 << 20
	}
	if c.IDCount == 0 {
		c.IDCount = 4096 * idsPerSandbox
	}
	if c.PoolMax == 0 {
		c.PoolMax = 8
	}
	if c.Spare == 0 {
		c.Spare = 1 << 30
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if os.Geteuid() != 0 {
		return nil, enplace.Errorf(enplace.KindUnavailable, "sandboxes need root on the host").WithFix("run the server as root")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	// The kernel gives mount points without links, and Recover compares with them.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	r := &Runtime{dir: dir, images: c.Images, egress: c.Egress, log: c.Logger, now: c.Now, cgroups: newCgroups(), spare: c.Spare,
		ids: newIDRanges(c.IDBase, c.IDCount), owned: map[string]*container{}, all: map[*container]struct{}{}}
	r.volumes = &volumes{templates: filepath.Join(dir, templatesDir)}
	r.caches = caches{dir: filepath.Join(dir, cachesDir), volumes: r.volumes, used: map[string]string{}}
	r.durables = durables{dir: filepath.Join(dir, durablesDir), volumes: r.volumes, lingering: map[string]string{}}
	r.pool = newPool(r, max(c.PoolMax, 0))
	if r.engine, err = newEngine(ctx, cmp.Or(c.Runtime, runtimeRunc), filepath.Join(dir, runtimeDir), &r.cgroups); err != nil {
		return nil, err
	}
	if err := r.prepare(ctx, c); err != nil {
		return nil, fmt.Errorf("preparing sandboxes: %w", durable.Full(err))
	}
	return r, nil
}

// prepare makes the folders and the shared files, and tries out what the host may lack.
func (r *Runtime) prepare(ctx context.Context, c Config) (err error) {
	if r.caBundle, err = readable(c.CABundle, 0o004); err != nil {
		return err
	}
	for _, name := range []string{sandboxesDir, workDir, cachesDir, durablesDir, templatesDir, etcDir} {
		if err := os.MkdirAll(filepath.Join(r.dir, name), 0o700); err != nil {
			return err
		}
	}
	for _, pattern := range []string{templatesDir + "/*.new", templatesDir + "/*.folders", etcDir + "/*.new"} {
		left, _ := filepath.Glob(filepath.Join(r.dir, pattern)) // that a killed process was writing
		for _, path := range left {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	for name, content := range hostFiles {
		if err := putFile(filepath.Join(r.dir, etcDir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := r.copyPrograms(c.Guest); err != nil {
		return fmt.Errorf("copying the programs for inside: %w", err)
	}
	ns, err := userNamespace(r.ids.base)
	if err != nil {
		return enplace.Errorf(enplace.KindUnavailable, "this host makes no user namespaces, and no sandbox is safe without").
			WithFix("sysctl -w user.max_user_namespaces=65536").WithCause(err)
	}
	ns.Close()
	r.volumes.limited = true
	switch err := r.tryVolume(ctx); {
	case err != nil && r.free() < 64<<20: // without room for one there is no saying whether there could be a limit
		return durable.FullError(err)
	case err != nil:
		r.volumes.limited = false
		r.log.Warn("sandboxes have no limit on disk: volumes cannot be made here", "error", err)
	}
	if !r.cgroups.limits {
		r.log.Warn("sandboxes have no limit on memory, processors and processes: cgroups do not offer them here")
	}
	return nil
}

// The programs that every sandbox has.
const (
	guestProgram = "enplace-guest"
	shimProgram  = "enplace-shim"
)

// copyPrograms makes copies of the programs for inside that are this process's own: the originals may be replaced at any moment,
// by an upgrade for one, and a sandbox that starts just then must find one of the two whole. They can be run by those inside and
// not read: so the kernel keeps them from looking into the processes that run them.
func (r *Runtime) copyPrograms(dir string) error {
	mode := os.FileMode(0o711)
	if r.engine.gvisor { // to its kernel running is reading
		mode = 0o755
	}
	for _, name := range []string{guestProgram, shimProgram} {
		program, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := putFile(filepath.Join(r.dir, etcDir, name), program, mode); err != nil {
			return err
		}
	}
	return nil
}

// putFile puts a file in its place whole, unless it is there: a start has to need no room, so that a server whose disk is full can
// still be asked for what it keeps.
func putFile(path string, content []byte, mode os.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return os.Chmod(path, mode)
	}
	if err := errors.Join(os.WriteFile(path+".new", content, mode), os.Chmod(path+".new", mode)); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// readable gives the absolute path of a file that sandboxes share, whose root is nobody to the host and must have the rights.
func readable(path string, rights os.FileMode) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if st.Mode().Perm()&rights != rights {
		return "", enplace.Errorf(enplace.KindUnavailable, "sandboxes cannot use %s: it is closed to others than its owner", path).
			WithFix("chmod o+rx %s", path)
	}
	return path, nil
}

// tryVolume mounts the empty volume of the usual size, to look at only.
func (r *Runtime) tryVolume(ctx context.Context) error {
	image, err := r.volumes.template(ctx, enplace.DefaultTaskLimits.DiskMiB, passing)
	if err != nil {
		return err
	}
	mount, _, err := mountImage(image, volumeAttrs, true)
	if err != nil {
		return err
	}
	defer mount.Close()
	if clone, err := cloneMount(fmt.Sprintf("/proc/self/fd/%d", mount.Fd()), 0); err == nil {
		r.volumes.detached = true
		clone.Close()
	}
	return nil
}

// Abilities says what this host lets the adapter do.
func (r *Runtime) Abilities() sandbox.Abilities {
	return sandbox.Abilities{AttachLive: !r.engine.gvisor, Disk: r.volumes.limited, Memory: r.cgroups.limits, OwnKernel: r.engine.gvisor,
		Durable: r.volumes.limited && !r.engine.gvisor}
}

// Get gives a running sandbox by its owner.
func (r *Runtime) Get(id string) (sandbox.Sandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.owned[id]; c != nil && c.alive() {
		return c, nil
	}
	return nil, sandbox.ErrNotFound
}

// List gives the owners of the running sandboxes, in order.
func (r *Runtime) List() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := slices.Sorted(maps.Keys(r.owned))
	return slices.DeleteFunc(ids, func(id string) bool { return r.owned[id] == nil || !r.owned[id].alive() })
}

// Warm asks for n sandboxes of a root to be held ready.
func (r *Runtime) Warm(root []enplace.Digest, n int) {
	if r.engine.gvisor { // they cannot be given mounts
		return
	}
	r.pool.ask(newKey(root, enplace.DefaultTaskLimits.DiskMiB), n)
}

// Close stops every sandbox.
func (r *Runtime) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.pool.close()
	var group sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, c := range r.everything() {
		group.Go(func() {
			if err := c.Stop(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (r *Runtime) everything() []*container {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.all))
}

// key is what makes one warm sandbox as good as another: the root, and the size of the volume.
type key struct {
	root string // digests with spaces between
	disk int    // MiB
}

func newKey(root []enplace.Digest, disk int) key {
	names := make([]string, len(root))
	for i, d := range root {
		names[i] = string(d)
	}
	return key{strings.Join(names, " "), disk}
}

func (k key) digests() []enplace.Digest {
	var root []enplace.Digest
	for d := range strings.FieldsSeq(k.root) {
		root = append(root, enplace.Digest(d))
	}
	return root
}
