// Package toolchain is the capability around what is declared: teams, people, rooms and conversations, plugins and their items,
// the sets that these come to, the bundles of sets, the keychain. What becomes of a set on a computer is package computer's.
// Permission checks and audit entries are made here, so that the API, the command line and background work go through one door.
package toolchain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"enplace"
	"enplace/internal/audit"
	"enplace/internal/base"
	"enplace/internal/blob"
	"enplace/internal/clone"
	"enplace/internal/sandbox"
	"enplace/internal/seal"
	"enplace/internal/store"
	"enplace/internal/watch"
)

// Store is what the capability needs of the store.
type Store interface {
	store.People
	store.Plugins
	store.Sets
	store.Secrets
}

// Config is what a Service needs. All fields are required but those with a default.
type Config struct {
	Store   Store
	Blobs   blob.Store // archives are read through it, and not kept
	Git     *clone.Cloner
	Runtime sandbox.Runtime
	Base    func() (base.Base, bool) // false while it is being made
	Sealer  *seal.Sealer             // of the keychain
	Audit   *audit.Log
	Logger  *slog.Logger
	Now     func() time.Time
	LogDir  string // where the logs of bundles are kept

	// Retire revokes the keys of a subject whose name something else is about to get. Default: there are none.
	Retire func(ctx context.Context, subject string) error

	Scratch string // a folder for archives being read

	// GitHubToken is given to installers of releases in the sandboxes of bundles, before anything else runs there; none when empty.
	// It is redacted like a value of every scope.
	GitHubToken string

	Limits    enplace.Limits // of the sandbox that a bundle is built in; default enplace.DefaultBuildLimits
	SyncEvery time.Duration  // how often plugins of git repositories are synced; default DefaultSyncEvery, negative for never
	Retention time.Duration  // how long a set that nobody uses is kept, with its bundle; default DefaultRetention

	Settled func(time.Duration) bool // whether dates have told durations right for that long; always unless it is set
}

// Defaults of a Config.
const (
	DefaultSyncEvery = 15 * time.Minute
	DefaultRetention = 30 * 24 * time.Hour
)

// Service is the capability. It is safe for concurrent use.
type Service struct {
	cfg  Config
	hub  watch.Hub // keys are hashes of sets
	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup

	secrets sync.Mutex // held while the keychain changes
	hidden  map[enplace.Scope]*hidden
	talks   sync.Mutex // held while a conversation is made or changed

	bundles, personal chan string // hashes of the sets whose bundle is to be built; personal of those with a person's items

	sets     sync.Mutex // held while what is kept of a set changes
	mu       sync.Mutex
	resolved map[string]resolved      // by chain
	noted    map[string]noted         // by hash of a set
	syncing  map[string]chan struct{} // plugins that are synced now; closed when it is over
}

// New makes a Service. Start settles what an earlier process left.
func New(cfg Config) *Service {
	cfg.Limits = cfg.Limits.Or(enplace.DefaultBuildLimits)
	cfg.SyncEvery = cmp.Or(cfg.SyncEvery, DefaultSyncEvery)
	cfg.Retention = cmp.Or(cfg.Retention, DefaultRetention)
	if cfg.Settled == nil {
		cfg.Settled = func(time.Duration) bool { return true }
	}
	s := &Service{cfg: cfg, bundles: make(chan string, maxWaitingBundles), personal: make(chan string, maxWaitingBundles), hidden: map[enplace.Scope]*hidden{}, resolved: map[string]resolved{}, noted: map[string]noted{}, syncing: map[string]chan struct{}{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Start learns the keychain's values for redaction, builds the bundles that an earlier process left unbuilt, and syncs plugins
// and collects sets now and then.
func (s *Service) Start(ctx context.Context) error {
	if err := os.MkdirAll(s.cfg.LogDir, 0o700); err != nil {
		return fmt.Errorf("making the folder of bundles' logs: %w", err)
	}
	s.secrets.Lock()
	err := s.learnSecrets(ctx)
	s.secrets.Unlock()
	if err != nil {
		return err
	}
	if err := s.resumeBundles(ctx); err != nil {
		return err
	}
	for _, queue := range []chan string{s.bundles, s.personal} {
		s.done.Go(func() { s.buildLoop(queue) })
	}
	if s.cfg.SyncEvery > 0 {
		for _, people := range []bool{false, true} {
			s.done.Go(func() {
				s.every(s.cfg.SyncEvery, func(ctx context.Context) error { return s.syncAll(ctx, people) })
			})
		}
	}
	s.done.Go(func() { s.every(time.Hour, s.collect) })
	return nil
}

// Close interrupts what is under way; bundles are built anew by the next Start.
func (s *Service) Close() {
	s.stop()
	s.done.Wait()
}

// every runs do now and then until the service is closed.
func (s *Service) every(d time.Duration, do func(context.Context) error) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if err := do(s.ctx); err != nil && s.ctx.Err() == nil {
			s.cfg.Logger.Error("toolchains", "err", err)
		}
	}
}

// operator is who acts when nobody asked.
var operator = enplace.Caller{Kind: enplace.KeyOperator}

// absent says of a record that is referred to and not there what it is.
func absent(err error, what, name, field, fix string) error {
	if errors.Is(err, store.ErrNotFound) {
		return enplace.Invalidf("there is no %s %q", what, name).WithField(field).WithFix("%s", fix)
	}
	return err
}
