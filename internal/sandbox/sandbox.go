// Package sandbox is the contract for isolated root filesystems with processes. An adapter starts, runs, attaches, captures,
// stops and lists them, and says what it is able to do; warm pools, namespaces and runtimes are its own business. Every
// adapter runs sandboxtest. Nothing above may know which adapter runs.
package sandbox

import (
	"context"
	"errors"
	"net"
	"os"

	"enplace"
	"enplace/internal/guest"
	"enplace/internal/image"
)

// The errors that callers tell apart.
var (
	ErrNotFound = errors.New("no such sandbox")
	ErrStopped  = errors.New("the sandbox has stopped")
	ErrNotKept  = errors.New("the working directory could not be kept whole") // from Stop; what can be read of it is there

	ErrNoProgram = guest.ErrNoProgram // from Exec, as the cause of an *enplace.Error: what was to be run is not there
)

// Command, Exit and Setup are the guest's.
type (
	Command   = guest.Command
	Exit      = guest.Exit
	Setup     = guest.Setup
	SetupFile = guest.SetupFile
	SetupLink = guest.SetupLink
)

// Abilities say what an adapter can do. Callers ask for an ability, never for an adapter's name.
type Abilities struct {
	AttachLive bool // mounts can come to a running sandbox; without it Start makes a fresh one each time
	Disk       bool // Limits.DiskMiB is enforced by the filesystem
	Memory     bool // Limits.MemoryMiB, CPUs and Processes are enforced by cgroups
	// OwnKernel says that a sandbox has a kernel of its own, and the host's sees it as one process: what uses up
	// memory ends the whole sandbox, and /proc, /sys and /dev are that kernel's.
	OwnKernel bool
	Durable   bool // Spec.Durable can be had; without it Start answers unavailable
}

// Spec is a sandbox to start.
type Spec struct {
	ID     string           // the owner's id: a task's, or a build's. Unique among those alive
	Root   []enplace.Digest // images of the root filesystem, the base first
	Mounts []Mount
	Limits enplace.Limits // already complete; the timeout is the caller's business
	Egress enplace.Egress
	Setup  Setup
	Keep   bool // keep the working directory after Stop, until Discard
	// Durable, when not empty, names a volume that lasts: whatever is written to the root is kept under this name beyond Stop,
	// the server and a crash of the host, until DropDurable. fsync inside reaches the disk, and what Stop ended is on it.
	//
	// The volume is made by the first Start, of Limits.DiskMiB, over the images of Root. Start refuses other images, and a volume
	// that another sandbox has: kind conflict. One that a crash left unclean is mended first; one that cannot be is left as it is,
	// and Start says so: kind unavailable. /run, /dev/shm and /tmp are empty at each start. There is no working directory, so that Work
	// finds none, and neither Keep nor writable mounts go with it.
	Durable string
}

// Mount is something attached below the root.
type Mount struct {
	Path     string           // absolute and clean; its folder is made when it is missing
	Images   []enplace.Digest // lowest first
	Writable bool             // a writable layer lies over the images; else read only, at every depth, for root too
	// Cache, instead of Images, is the name of a volume of CacheMiB that lasts beyond the sandbox. It is mounted by one
	// sandbox at a time, as whatever root it has.
	Cache    string
	CacheMiB int
}

// Stats is what a sandbox has used. Zero means not known.
type Stats struct {
	MemoryPeakBytes int64
	OOMKills        int
	DiskUsedBytes   int64
	DiskLimitBytes  int64
	Refused         []string // hosts that its egress policy refused, first seen first, at most 100
}

// Runtime starts sandboxes. It is safe for concurrent use.
type Runtime interface {
	Abilities() Abilities

	// Start gives a sandbox that is ready for Exec: everything attached, Setup done, read-only proved. Nothing is left of one
	// that failed.
	Start(ctx context.Context, s Spec) (Sandbox, error)

	// Get gives a running sandbox by its id, or ErrNotFound.
	Get(id string) (Sandbox, error)

	// List gives the ids of the running sandboxes that have an owner.
	List() []string

	// Warm asks for n sandboxes of that root to be held ready; a root that is not asked for is warmed by demand. It returns at
	// once.
	Warm(root []enplace.Digest, n int)

	// Work opens the working directory of a sandbox that runs, or that was stopped with Keep. ErrNotFound after Discard.
	Work(ctx context.Context, id string) (*Work, error)

	// Discard drops what Keep kept. Unknown ids are no error.
	Discard(ctx context.Context, id string) error

	// DropCache removes a cache volume. Unknown names are no error.
	DropCache(ctx context.Context, name string) error

	// DropDurable removes a durable volume, once no sandbox has it. Unknown names are no error.
	DropDurable(ctx context.Context, name string) error

	// Durables gives the names of the durable volumes and the bytes that each takes on the host's disk.
	Durables(ctx context.Context) (map[string]int64, error)

	// Recover settles what an earlier process left: every sandbox is killed, its mounts, cgroups and files removed, but for the
	// working directories that keep asks for, and durable volumes. Called once, before Start.
	Recover(ctx context.Context, keep func(id string) bool) error

	// Close stops every sandbox, warm ones too.
	Close(ctx context.Context) error
}

// Sandbox is a running sandbox. It is safe for concurrent use.
type Sandbox interface {
	ID() string

	// Exec runs a command and waits for it. A context that ends kills the command and all that it started. The error says that
	// the command could not be started (an *enplace.Error when its program or folder is missing: kind invalid), or that the
	// sandbox stopped (ErrStopped); a command that ran and failed is no error.
	Exec(ctx context.Context, c Command) (Exit, error)

	// Dial opens a new SSH connection to the guest, for terminals, rsync and editors. env, as KEY=value, is what these start from;
	// without any they have what Setup wrote to EnvPath.
	Dial(ctx context.Context, env []string) (net.Conn, error)

	// Capture kills every process but the guest, packs what was written over the images at the path ("/" or a writable mount's)
	// into an image, with whiteouts for what was removed, and ids as the sandbox saw them. Paths relative to it that
	// exclude refuses are left out. With below, an image of the store, the image is both: that one, whose bytes are referred
	// to and not copied, and what was written over it; whiteouts have removed what they name. The errors of image.Compose.
	Capture(ctx context.Context, path string, below enplace.Digest, exclude func(path string) bool) (image.Info, error)

	// Written measures what was written over the images at the path, by its immediate folders at the depth given.
	Written(ctx context.Context, path string, depth int) (map[string]int64, error)

	Stats(ctx context.Context) (Stats, error)

	// Egress gives the sandbox another policy. From then on new connections follow it, those that were open are cut, and what was
	// refused before is forgotten.
	Egress(e enplace.Egress)

	// Done is closed when the sandbox has stopped, whatever stopped it.
	Done() <-chan struct{}

	// Stop kills every process and removes the sandbox. It returns when nothing is left. Stopping twice is no error.
	Stop(ctx context.Context) error
}

// Work is an open working directory. Whoever reads through it uses Root, which no link leads out of, and never opens what
// Lstat does not call a regular file or a directory.
type Work struct {
	Root    *os.Root
	Release func() error // what Close does
}

// Close lets go of the directory. It is called once.
func (w *Work) Close() error { return w.Release() }
