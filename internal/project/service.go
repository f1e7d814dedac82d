// Package project is the capability around environments: the tree, the packages, builds into versions, activation. It
// composes the steps of a build; package build runs them. Permission checks and audit entries are made here, so that the
// API, the command line and background work go through one door.
//
// A build begins in recipe.go, which lists the steps. A file that begins with step_ is one step: what its layer depends on, and
// what of the result is kept. It asks the rule_ files what the tree declares and which tool installs that, has the install_ files
// run the tool in a sandbox, and the inspect_ files say what was installed. All else is what callers ask for.
package project

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/audit"
	"enplace/internal/base"
	"enplace/internal/blob"
	"enplace/internal/build"
	"enplace/internal/clone"
	"enplace/internal/image"
	"enplace/internal/pkgindex"
	"enplace/internal/redact"
	"enplace/internal/sandbox"
	"enplace/internal/store"
)

// Store is what the capability needs of the store.
type Store interface {
	store.Environments
	store.Builds
	store.Versions
	store.StepCache
	Harness(ctx context.Context, id string) (enplace.Harness, error)
}

// Config is what a Service needs. All fields are required but those with a default.
type Config struct {
	Store   Store
	Blobs   blob.Store
	Images  *image.Store
	Runtime sandbox.Runtime
	Index   *pkgindex.Index
	Git     *clone.Cloner
	Base    func() (base.Base, bool) // the base that builds start from; false while it is being made
	Audit   *audit.Log
	Redact  *redact.Redactor
	Logger  *slog.Logger
	Now     func() time.Time
	LogDir  string // where build logs are kept
	Scratch string // a folder for archives being read

	Registries  Registries     // defaults: the public ones
	BuildEgress enplace.Egress // what builds may reach unless their environment says; default open
	Workers     int            // builds at once; default 2
	BuildLimits enplace.Limits // default enplace.DefaultBuildLimits

	Settled func(time.Duration) bool // whether dates have told durations right for that long; always unless it is set

	CollectEvery  time.Duration // default DefaultCollectEvery
	StepRetention time.Duration // how long a step's result that no build used is kept; default DefaultStepRetention
}

// Defaults of a Config.
const (
	DefaultCollectEvery  = time.Hour
	DefaultStepRetention = 30 * 24 * time.Hour
)

// Registries are where packages come from, when not from the public registries.
type Registries struct {
	PyPI         string // simple index
	NPM          string
	PythonMirror string // of uv's managed Pythons: UV_PYTHON_INSTALL_MIRROR
	PythonList   string // a JSON list of downloads: UV_PYTHON_DOWNLOADS_JSON_URL
}

// Service is the capability. It is safe for concurrent use.
type Service struct {
	cfg   Config
	queue *build.Queue
	stop  context.CancelFunc
	done  sync.WaitGroup
}

// New makes a Service. Start runs its builds.
func New(cfg Config) *Service {
	if cfg.BuildEgress.Policy == "" {
		cfg.BuildEgress.Policy = enplace.EgressOpen
	}
	cfg.CollectEvery = cmp.Or(cfg.CollectEvery, DefaultCollectEvery)
	cfg.StepRetention = cmp.Or(cfg.StepRetention, DefaultStepRetention)
	if cfg.Settled == nil {
		cfg.Settled = func(time.Duration) bool { return true }
	}
	s := &Service{cfg: cfg}
	s.queue = build.New(build.Config{
		Store: cfg.Store, Runtime: cfg.Runtime, Images: cfg.Images, Dir: cfg.LogDir, Recipe: s.recipe, Redact: cfg.Redact,
		Logger: cfg.Logger, Now: cfg.Now, Workers: cfg.Workers, Limits: cfg.BuildLimits,
	})
	return s
}

// Start settles the builds of an earlier process, runs those that are queued, and collects garbage now and then.
func (s *Service) Start(ctx context.Context) error {
	if err := s.queue.Start(ctx); err != nil {
		return err
	}
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.done.Go(func() { s.collectLoop(ctx) })
	return nil
}

// Close interrupts the running builds.
func (s *Service) Close() {
	if s.stop != nil {
		s.stop()
	}
	s.done.Wait()
	s.queue.Close()
}

// load gives an environment that the caller may do an action to.
func (s *Service) load(ctx context.Context, c enplace.Caller, a access.Action, id string) (enplace.Environment, error) {
	t := access.Thing{What: "environment", ID: id}
	if !enplace.ValidID(enplace.PrefixEnvironment, id) {
		return enplace.Environment{}, access.Unknown(t)
	}
	e, err := s.cfg.Store.Environment(ctx, id)
	if err != nil {
		return enplace.Environment{}, gone(err, id)
	}
	t.Owner = e.Owner
	if c.Kind == enplace.KeyHarness {
		if h, err := s.cfg.Store.Harness(ctx, c.Subject); err == nil && h.Environment == id {
			t.Harness = h.ID
		}
	}
	if err := access.Check(c, a, t); err != nil {
		return enplace.Environment{}, err
	}
	return e, nil
}

// gone says of an environment that was deleted, also between two calls of the store, that it is not there.
func gone(err error, id string) error {
	if errors.Is(err, store.ErrNotFound) {
		return access.Unknown(access.Thing{What: "environment", ID: id})
	}
	return err
}
