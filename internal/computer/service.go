// Package computer is the capability around durable computers: one sandbox for each person or room, whose files and tools last.
// It starts them on first use, brings the sets of their conversations onto them, runs commands there, reports what failed and
// tries it again. What a set consists of is package toolchain's business, which it sees through an interface.
package computer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/audit"
	"enplace/internal/redact"
	"enplace/internal/sandbox"
	"enplace/internal/store"
	"enplace/internal/watch"
)

// Toolchain is what computers need to know of what is declared.
type Toolchain interface {
	// Conversation gives a conversation that the caller may do an action in.
	Conversation(ctx context.Context, c enplace.Caller, a access.Action, id string) (enplace.Conversation, error)
	// ConversationsOn gives the conversations of a computer, by id, whoever may see them.
	ConversationsOn(ctx context.Context, computer string) ([]enplace.Conversation, error)
	// MayComputer says whether the caller may do an action to the computer of a person or room.
	MayComputer(ctx context.Context, c enplace.Caller, a access.Action, id string) error
	// Internal reports whether everybody in a conversation belongs to the organisation.
	Internal(ctx context.Context, conv enplace.Conversation) (bool, error)
	// SetOf gives the set of a conversation as things stand.
	SetOf(ctx context.Context, conv enplace.Conversation) (store.SetRecord, error)
	// Stored gives a set by its hash, with its bundle as it stands; its chain is that of whoever had it first.
	Stored(ctx context.Context, hash string) (store.SetRecord, error)
	// Use notes that a set is used, has its bundle built where there is none, and gives it.
	Use(ctx context.Context, hash string) (enplace.Bundle, error)
	// Policies gives the egress policies of a chain.
	Policies(ctx context.Context, chain enplace.Chain) ([]enplace.ScopeEgress, error)
	// Variables gives the keychain's values for a command, as KEY=value.
	Variables(ctx context.Context, chain enplace.Chain) ([]string, error)
	// Redactor hides the values of the keychain that commands of a computer may know.
	Redactor(ctx context.Context, computer string) (*redact.Redactor, error)
}

// Config is what a Service needs. All fields are required but those with a default.
type Config struct {
	Store      store.Computers
	Toolchain  Toolchain
	Runtime    sandbox.Runtime
	Audit      *audit.Log
	Logger     *slog.Logger
	Now        func() time.Time
	LogDir     string // where the logs of installations are kept
	Limits     enplace.Limits
	Idle       time.Duration // after which a computer that nobody uses is stopped; default enplace.DefaultIdle
	Retry      time.Duration // after which a failed set is tried again; default enplace.FailedRetry
	ItemLimit  time.Duration // of each script and installation; default enplace.DefaultScriptTimeout
	LookEvery  time.Duration // how often it is looked for idle computers and for retries that are due; default 5 s
	MaxRunning int           // computers at once; default 200
}

// Service is the capability. It is safe for concurrent use.
type Service struct {
	cfg  Config
	hub  watch.Hub // of installations; see machine.topic
	ctx  context.Context
	stop context.CancelCauseFunc
	done sync.WaitGroup

	started  atomic.Bool // before that nothing is started or removed: what an earlier process left is not settled yet
	mu       sync.Mutex
	closed   bool
	machines map[string]*machine // by the computer's id
}

var (
	errClosing  = enplace.Errorf(enplace.KindUnavailable, "the server is stopping").WithFix("try again in a moment")
	errStarting = enplace.Errorf(enplace.KindUnavailable, "the server is starting").WithFix("try again in a moment, or wait for /readyz")
)

// New makes a Service. Start settles what an earlier process left.
func New(cfg Config) *Service {
	cfg.Limits = cfg.Limits.Or(enplace.DefaultComputerLimits)
	cfg.Idle = cmp.Or(cfg.Idle, enplace.DefaultIdle)
	cfg.Retry = cmp.Or(cfg.Retry, enplace.FailedRetry)
	cfg.ItemLimit = cmp.Or(cfg.ItemLimit, enplace.DefaultScriptTimeout)
	cfg.LookEvery = cmp.Or(cfg.LookEvery, 5*time.Second)
	cfg.MaxRunning = cmp.Or(cfg.MaxRunning, 200)
	s := &Service{cfg: cfg, machines: map[string]*machine{}}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	return s
}

// Start notes what an earlier process did not install to its end as interrupted, so that it is redone, and looks after the
// computers from then on. It removes the volumes of computers whose record is gone.
func (s *Service) Start(ctx context.Context) error {
	if err := os.MkdirAll(s.cfg.LogDir, 0o700); err != nil {
		return fmt.Errorf("making the folder of installations' logs: %w", err)
	}
	l, err := s.cfg.Store.ListComputers(ctx, enplace.Page{})
	if err != nil {
		return fmt.Errorf("settling interrupted installations: %w", err)
	}
	known := map[string]bool{}
	for _, rec := range l.Items {
		known[volumeOf(rec.ID)] = true
		if !slices.ContainsFunc(rec.Sets, cutOff) {
			continue
		}
		if _, err := s.machine(rec.ID).update(ctx, interrupt); err != nil {
			return fmt.Errorf("settling the computer %s: %w", rec.ID, err)
		}
	}
	if err := s.dropUnknown(ctx, known); err != nil {
		return err
	}
	s.started.Store(true)
	s.spawn(s.look)
	return nil
}

func cutOff(set enplace.ComputerSet) bool {
	return slices.ContainsFunc(set.Items, func(i enplace.ComputerItem) bool { return i.Status == enplace.ItemInstalling })
}

// interrupt settles the installations of a computer that were cut off.
func interrupt(r *store.ComputerRecord) {
	for _, set := range r.Sets {
		for i := range set.Items {
			if set.Items[i].Status == enplace.ItemInstalling {
				set.Items[i].Status, set.Items[i].Error = enplace.ItemInterrupted, "the installation was interrupted; it is redone at the next use"
			}
		}
	}
}

// dropUnknown removes the volumes and logs of computers whose removal was cut short.
func (s *Service) dropUnknown(ctx context.Context, known map[string]bool) error {
	volumes, err := s.cfg.Runtime.Durables(ctx)
	if err != nil {
		return fmt.Errorf("finding the volumes of computers: %w", err)
	}
	for name := range volumes {
		if strings.HasPrefix(name, volumePrefix) && !known[name] {
			if err := s.cfg.Runtime.DropDurable(ctx, name); err != nil {
				return fmt.Errorf("removing the volume of a computer that is gone: %w", err)
			}
			s.cfg.Logger.Info("removed the volume of a computer that is gone", "volume", name)
		}
	}
	logs, err := os.ReadDir(s.cfg.LogDir)
	if err != nil {
		return fmt.Errorf("finding the logs of computers: %w", err)
	}
	for _, e := range logs {
		if !known[e.Name()] {
			if err := s.removeLogs(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// spawn runs f until it ends by itself, beside what else the service does; false once that is closed.
func (s *Service) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.done.Go(f)
	}
	return !s.closed
}

// Close interrupts installations, stops every computer and returns when their files are safe.
func (s *Service) Close() {
	s.stop(errClosing)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.done.Wait()
	var group sync.WaitGroup
	for _, m := range s.all() {
		group.Go(func() {
			if err := m.halt(context.Background(), inUse); err != nil {
				s.cfg.Logger.Error("stopping a computer", "computer", m.id, "err", err)
			}
		})
	}
	group.Wait()
}

// look looks after each computer, now and then, and after none twice at once: one that is slow to start or stop holds no other up.
func (s *Service) look() {
	tick := time.NewTicker(s.cfg.LookEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		for _, m := range s.all() {
			if m.looked.CompareAndSwap(false, true) && !s.spawn(m.look) {
				return
			}
		}
	}
}

// look tries again what failed and is due, writes down what is remembered, and stops the computer where nobody uses it.
func (m *machine) look() {
	defer m.looked.Store(false)
	m.retryDue(m.s.ctx)
	m.remember(m.s.ctx)
	if err := m.halt(m.s.ctx, m.s.cfg.Idle); err != nil && m.s.ctx.Err() == nil {
		m.s.cfg.Logger.Error("stopping an idle computer", "computer", m.id, "err", err)
	}
}

// machine gives the live side of a computer, made when it is first asked for.
func (s *Service) machine(id string) *machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.machines[id]
	if m == nil {
		m = newMachine(s, id)
		s.machines[id] = m
	}
	return m
}

// known is machine without making one: nil for a computer that was not asked for since the service began.
func (s *Service) known(id string) *machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machines[id]
}

func (s *Service) all() []*machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.machines))
}

// makeRoom stops the computer that was used longest ago, and is not used now, where as many run as may.
func (s *Service) makeRoom(ctx context.Context) error {
	var running []*machine
	for _, m := range s.all() {
		if m.runs() {
			running = append(running, m)
		}
	}
	if len(running) < s.cfg.MaxRunning {
		return nil
	}
	slices.SortFunc(running, func(a, b *machine) int { return a.lastUsed().Compare(b.lastUsed()) })
	for _, m := range running {
		if !m.power.TryLock() { // it is being started or stopped
			continue
		}
		err := m.stop(ctx, 0)
		m.power.Unlock()
		if err != nil {
			return fmt.Errorf("stopping the computer %s to make room: %w", m.id, err)
		}
		if !m.runs() {
			return nil
		}
	}
	return enplace.Errorf(enplace.KindBusy, "%d computers are in use, the limit; try again when a command of one has ended", len(running))
}

// unknown answers for a computer that is not there.
func unknown(err error, id string) error {
	if errors.Is(err, store.ErrNotFound) {
		return enplace.NotFoundf("there is no computer %s yet; it is made by the first command of a conversation of %[1]s", enplace.Shown(id, 80)).
			WithFix("enplace computer list shows those that there are")
	}
	return err
}
