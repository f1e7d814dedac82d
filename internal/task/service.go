// Package task is the capability around harnesses and tasks: it starts a sandbox for each task with its environment in
// place, runs the harness's command there, and keeps what it printed and left. Permission checks and audit entries are made
// here, so that the API, the command line and background work go through one door.
package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/audit"
	"enplace/internal/base"
	"enplace/internal/redact"
	"enplace/internal/sandbox"
	"enplace/internal/store"
	"enplace/internal/transcript"
	"enplace/internal/watch"
)

// Store is what the capability needs of the store.
type Store interface {
	store.Harnesses
	store.Tasks
	Environment(ctx context.Context, id string) (enplace.Environment, error)
	Version(ctx context.Context, environment string, n int) (enplace.Version, error)
}

// Config is what a Service needs. All fields are required but those with a default.
type Config struct {
	Store   Store
	Runtime sandbox.Runtime
	Base    func() (base.Base, bool) // the base of tasks without an environment; false while it is being made
	Audit   *audit.Log
	Redact  *redact.Redactor
	Logger  *slog.Logger
	Now     func() time.Time
	LogDir  string                   // where task logs are kept
	Settled func(time.Duration) bool // whether dates have told durations right for that long; always unless it is set

	MaxRunning int           // tasks at once; default 400
	MaxQueued  int           // tasks waiting for one of those places; default 10,000
	Retention  time.Duration // how long logs and files of ended tasks are kept; default enplace.DefaultTaskRetention
}

// Service is the capability. It is safe for concurrent use.
type Service struct {
	cfg  Config
	hub  watch.Hub
	ctx  context.Context
	stop context.CancelCauseFunc
	done sync.WaitGroup

	mu      sync.Mutex
	started bool             // before that everything waits: what an earlier process left is not settled yet
	live    map[string]*live // admitted and not yet ended, by id
	waiting []string         // queued ids, oldest first
}

// live is a task that has a place.
type live struct {
	ctx    context.Context // ends when the task is cancelled or the server closes
	cancel context.CancelCauseFunc
	ready  chan struct{} // closed when box is set, or when the task ended without one
	box    sandbox.Sandbox
	log    logWriter
	env    []string

	recorded chan recorded // gives one answer, when the store has taken the task or refused it
}

// recorded is a task as the store has it, or why the store has none.
type recorded struct {
	rec store.TaskRecord
	err error
}

var (
	errCancelled = &enplace.Failure{Reason: enplace.ReasonCancelled, Message: "the task was cancelled"}
	errClosing   = &enplace.Failure{Reason: enplace.ReasonInterrupted, Message: "the server stopped while the task ran", Fixes: []string{"start the task again"}}
)

// New makes a Service. Start runs its tasks.
func New(cfg Config) *Service {
	if cfg.MaxRunning == 0 {
		cfg.MaxRunning = 400
	}
	if cfg.MaxQueued == 0 {
		cfg.MaxQueued = 10_000
	}
	if cfg.Retention == 0 {
		cfg.Retention = enplace.DefaultTaskRetention
	}
	if cfg.Settled == nil {
		cfg.Settled = func(time.Duration) bool { return true }
	}
	s := &Service{cfg: cfg, live: map[string]*live{}}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	return s
}

// Keeps reports whether a task's working directory is still wanted, for sandbox.Runtime.Recover.
func (s *Service) Keeps(id string) bool {
	rec, err := s.cfg.Store.Task(s.ctx, id)
	return err == nil && !rec.Purged
}

// Start ends as interrupted what an earlier process left running, and runs what it left queued.
func (s *Service) Start(ctx context.Context) error {
	if err := os.MkdirAll(s.cfg.LogDir, 0o700); err != nil {
		return fmt.Errorf("making the folder of task logs: %w", err)
	}
	running, err := s.cfg.Store.ListTasks(ctx, store.TaskFilter{Status: enplace.TaskRunning}, enplace.Page{})
	if err != nil {
		return fmt.Errorf("settling interrupted tasks: %w", err)
	}
	for _, rec := range running.Items {
		now := s.cfg.Now().UTC()
		if _, err := s.cfg.Store.UpdateTask(ctx, rec.ID, func(t *store.TaskRecord) error {
			t.Status, t.Error, t.EndedAt = enplace.TaskFailed, errClosing, since(now, t)
			return nil
		}); err != nil {
			return fmt.Errorf("settling task %s: %w", rec.ID, err)
		}
		s.cfg.Logger.Warn("task interrupted by a restart", "task", rec.ID)
	}
	queued, err := s.cfg.Store.ListTasks(ctx, store.TaskFilter{Status: enplace.TaskQueued}, enplace.Page{})
	if err != nil {
		return fmt.Errorf("finding queued tasks: %w", err)
	}
	s.mu.Lock()
	s.waiting, s.started = nil, true // those that came before are in the list as well
	for _, rec := range queued.Items {
		s.waiting = append(s.waiting, rec.ID)
	}
	s.mu.Unlock()
	s.admit()
	s.done.Go(s.collect)
	return nil
}

// Close interrupts the running tasks and returns when they are recorded.
func (s *Service) Close() {
	s.stop(errClosing)
	s.done.Wait()
}

// collect drops the logs and files of tasks whose retention is over, once an hour.
func (s *Service) collect() {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		if err := s.Collect(s.ctx); err != nil && s.ctx.Err() == nil {
			s.cfg.Logger.Error("collecting old tasks", "err", err)
		}
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Collect drops the logs and files of tasks that ended longer ago than the retention. Their records stay. One that cannot be
// dropped keeps no other.
func (s *Service) Collect(ctx context.Context) error {
	if !s.cfg.Settled(s.cfg.Retention) { // by their dates some would go too early
		return nil
	}
	old, err := s.cfg.Store.ListTasks(ctx, store.TaskFilter{EndedBefore: s.cfg.Now().Add(-s.cfg.Retention), NotPurged: true}, enplace.Page{})
	if err != nil {
		return err
	}
	var failed []error
	for _, rec := range old.Items {
		if err := errors.Join(s.cfg.Runtime.Discard(ctx, rec.ID), transcript.Remove(s.logPath(rec.ID))); err != nil {
			failed = append(failed, fmt.Errorf("dropping what %s left: %w", rec.ID, err))
			continue
		}
		if _, err := s.cfg.Store.UpdateTask(ctx, rec.ID, func(t *store.TaskRecord) error { t.Purged = true; return nil }); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (s *Service) logPath(id string) string { return filepath.Join(s.cfg.LogDir, id+".log") }

// load gives a task that the caller may do an action to.
func (s *Service) load(ctx context.Context, c enplace.Caller, a access.Action, id string) (store.TaskRecord, error) {
	t := access.Thing{What: "task", ID: id}
	if !enplace.ValidID(enplace.PrefixTask, id) {
		return store.TaskRecord{}, access.Unknown(t)
	}
	rec, err := s.cfg.Store.Task(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return store.TaskRecord{}, access.Unknown(t)
	}
	if err != nil {
		return store.TaskRecord{}, err
	}
	t.Owner, t.Harness, t.Environment = rec.Owner, rec.Metadata.Harness, rec.Metadata.Environment
	return rec, access.Check(c, a, t)
}
