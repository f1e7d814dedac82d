// Package build is the engine under versions and bundles alike: it claims a queued build, gives it a log, a deadline and
// sandboxes, runs its steps or takes their results from the step cache, and records how it ended. What the steps are is the
// business of the capability above, given as a Recipe.
package build

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"enplace"
	"enplace/internal/image"
	"enplace/internal/redact"
	"enplace/internal/sandbox"
	"enplace/internal/store"
	"enplace/internal/transcript"
	"enplace/internal/watch"
)

// Recipe makes a version by the steps of a run. Its error ends the build: an *enplace.Failure as it is, anything else as
// an internal failure that is logged.
type Recipe func(ctx context.Context, r *Run) (*enplace.Version, error)

// Store is what the queue needs of the store.
type Store interface {
	store.Builds
	store.StepCache
}

// Config is what a Queue needs. All fields but Workers and Limits are required.
type Config struct {
	Store   Store
	Runtime sandbox.Runtime
	Images  *image.Store
	Dir     string // where logs are kept
	Recipe  Recipe
	Redact  *redact.Redactor
	Logger  *slog.Logger
	Now     func() time.Time
	Workers int            // builds at once; 2 unless set
	Limits  enplace.Limits // of each sandbox; enplace.DefaultBuildLimits for each field that is zero
}

// Queue runs the builds that the store has queued. It is safe for concurrent use.
type Queue struct {
	cfg  Config
	hub  watch.Hub
	wake chan struct{}
	stop context.CancelCauseFunc
	done sync.WaitGroup

	closing <-chan struct{}

	mu      sync.Mutex
	running map[string]running
}

// running is a build that a worker of this process runs.
type running struct {
	cancel context.CancelCauseFunc
	began  time.Time // by the monotonic clock
}

// worker is the name that all workers of this process hold leases by: a clock that jumps ahead of a lease must not let one take
// a build from another.
var worker = fmt.Sprintf("server-%d", os.Getpid())

// Causes of a build's end, as context causes.
var (
	errCancelled = &enplace.Failure{Reason: enplace.ReasonCancelled, Message: "the build was cancelled"}
	errClosing   = &enplace.Failure{Reason: enplace.ReasonInterrupted, Message: "the server stopped while the build ran", Fixes: []string{"build again"}}
	errLease     = &enplace.Failure{Reason: enplace.ReasonInterrupted, Message: "another worker took the build over", Fixes: []string{"build again"}}
	errGone      = &enplace.Failure{Reason: enplace.ReasonCancelled, Message: "the environment was deleted"}
)

const (
	lease     = 30 * time.Second
	sweep     = 10 * time.Second // how often a worker looks without being woken: a queue that another process filled
	logSuffix = ".log"
)

// New makes a Queue. Start runs it.
func New(cfg Config) *Queue {
	if cfg.Workers == 0 {
		cfg.Workers = 2
	}
	cfg.Limits = cfg.Limits.Or(enplace.DefaultBuildLimits)
	return &Queue{cfg: cfg, wake: make(chan struct{}, 1), running: map[string]running{}}
}

// Start ends as interrupted what an earlier process left running, then claims builds until Close.
func (q *Queue) Start(ctx context.Context) error {
	lost, err := q.cfg.Store.InterruptBuilds(ctx, q.cfg.Now())
	if err != nil {
		return fmt.Errorf("settling interrupted builds: %w", err)
	}
	for _, b := range lost {
		q.cfg.Logger.Warn("build interrupted by a restart", "environment", b.Environment, "build", b.N)
	}
	ctx, q.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	q.closing = ctx.Done()
	for range q.cfg.Workers {
		q.done.Go(func() { q.work(ctx) })
	}
	return nil
}

// Close interrupts what runs and returns when every worker has stopped.
func (q *Queue) Close() {
	if q.stop != nil {
		q.stop(errClosing)
		q.done.Wait()
	}
}

// Wake tells the workers that a build was queued.
func (q *Queue) Wake() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Cancel stops a running build of this process at once. The store's mark, which the caller sets, stops any other.
func (q *Queue) Cancel(environment string, n int) {
	q.mu.Lock()
	cancel := q.running[key(environment, n)].cancel
	q.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
	q.hub.Notify(key(environment, n))
}

// Elapsed gives how long a build has been running in this process; zero for one that is not.
func (q *Queue) Elapsed(environment string, n int) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if run := q.running[key(environment, n)]; run.cancel != nil {
		return time.Since(run.began)
	}
	return 0
}

// Wait gives the build, once it has ended or when the time is up.
func (q *Queue) Wait(ctx context.Context, environment string, n int, limit time.Duration) (enplace.Build, error) {
	var b enplace.Build
	err := q.hub.Until(ctx, key(environment, n), limit, func() (bool, error) {
		rec, err := q.cfg.Store.Build(ctx, environment, n)
		b = rec.Build
		return b.Status.Ended(), err
	})
	return b, err
}

// Abandon stops the builds of an environment that was deleted, and returns when nothing of them runs.
func (q *Queue) Abandon(ctx context.Context, environment string) error {
	for {
		k, found := q.stopOne(environment)
		if !found {
			return nil
		}
		err := q.hub.Until(ctx, k, enplace.MaxWait, func() (bool, error) {
			q.mu.Lock()
			defer q.mu.Unlock()
			return q.running[k].cancel == nil, nil
		})
		if err != nil {
			return err
		}
	}
}

func (q *Queue) stopOne(environment string) (k string, found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for k, run := range q.running {
		if strings.HasPrefix(k, environment+"/") {
			run.cancel(errGone)
			return k, true
		}
	}
	return "", false
}

// Log opens the log of a build that has started; os.ErrNotExist before.
func (q *Queue) Log(environment string, n int) (*transcript.Reader, error) {
	return transcript.Open(q.logPath(environment, n))
}

// WaitStarted returns when the build has a log, or its state is final.
func (q *Queue) WaitStarted(ctx context.Context, environment string, n int) error {
	return q.hub.Until(ctx, key(environment, n), enplace.MaxBuildDuration, func() (bool, error) {
		rec, err := q.cfg.Store.Build(ctx, environment, n)
		if err != nil || rec.Status != enplace.BuildRunning {
			return rec.Status.Ended(), err
		}
		_, missing := os.Stat(q.logPath(environment, n)) // it is made a moment after the build was claimed
		return missing == nil, nil
	})
}

// Logged gives the environments whose builds have logs here.
func (q *Queue) Logged() ([]string, error) {
	entries, err := os.ReadDir(q.cfg.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// DropLogs removes the logs of an environment's builds.
func (q *Queue) DropLogs(environment string) error {
	return os.RemoveAll(filepath.Join(q.cfg.Dir, environment))
}

func (q *Queue) logPath(environment string, n int) string {
	return filepath.Join(q.cfg.Dir, environment, fmt.Sprint(n)+logSuffix)
}

func key(environment string, n int) string { return fmt.Sprintf("%s/%d", environment, n) }

func (q *Queue) work(ctx context.Context) {
	tick := time.NewTicker(sweep)
	defer tick.Stop()
	for ctx.Err() == nil {
		rec, ok, err := q.cfg.Store.ClaimBuild(ctx, worker, q.cfg.Now(), lease)
		if err != nil && ctx.Err() == nil {
			q.cfg.Logger.Error("claiming a build", "err", err)
		}
		if ok {
			q.Wake() // there may be more, for another worker
			q.run(ctx, rec)
			continue
		}
		select {
		case <-ctx.Done():
		case <-q.wake:
		case <-tick.C:
		}
	}
}

// run runs one claimed build to its end.
func (q *Queue) run(ctx context.Context, rec store.BuildRecord) {
	k := key(rec.Environment, rec.N)
	log := q.cfg.Logger.With("environment", rec.Environment, "build", rec.N)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stopClock := context.WithTimeoutCause(ctx, q.cfg.Limits.Timeout(), &enplace.Failure{
		Reason: enplace.ReasonTimeout, Message: fmt.Sprintf("the build ran for %s, the limit", q.cfg.Limits.Timeout()),
		Fixes: []string{"declare fewer packages, or pin versions that have wheels"},
	})
	defer stopClock()

	q.mu.Lock()
	if q.running[k].cancel != nil { // claimed by its own process: the lease holds again, and it runs on
		q.mu.Unlock()
		return
	}
	began := time.Now() // measures, and is no date
	q.running[k] = running{cancel, began}
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		delete(q.running, k)
		q.mu.Unlock()
		q.hub.Notify(k)
	}()
	go q.renew(ctx, cancel, rec)

	end := enplace.Build{Environment: rec.Environment, N: rec.N, Status: enplace.BuildSucceeded}
	r, err := q.open(ctx, rec)
	var version *enplace.Version
	if err == nil {
		q.hub.Notify(k)
		log.Info("build started")
		version, err = q.cook(ctx, r)
	}
	cause := context.Cause(ctx)
	if errors.Is(err, errGone) || errors.Is(cause, errGone) || errors.Is(cause, errLease) {
		q.leave(r, log)
		return
	}
	if err != nil {
		version = nil
		end.Error = q.failure(ctx, err, log)
		end.Status = statusOf(end.Error.Reason)
	}
	end.ElapsedMS = time.Since(began).Milliseconds()
	q.finish(ctx, r, rec, end, version, log)
}

// leave ends the run of a build whose record is another's now, or gone.
func (q *Queue) leave(r *Run, log *slog.Logger) {
	log.Warn("build left: its environment was deleted, or another worker has it")
	if r == nil {
		return
	}
	if err := r.Log.Close(); err != nil {
		log.Error("closing the log of a build", "err", err)
	}
}

// cook calls the recipe and turns a panic into an error, so that one build never takes the server along.
func (q *Queue) cook(ctx context.Context, r *Run) (v *enplace.Version, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the recipe panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return q.cfg.Recipe(ctx, r)
}

func (q *Queue) finish(ctx context.Context, r *Run, rec store.BuildRecord, end enplace.Build, version *enplace.Version, log *slog.Logger) {
	now := q.cfg.Now()
	if rec.StartedAt != nil && now.Before(*rec.StartedAt) { // the clock was set back
		now = *rec.StartedAt
	}
	end.EndedAt = &now
	if r != nil {
		end.Steps, end.Step, end.Warnings = r.closeSteps(end.Error)
	}
	b, activated, err := q.record(ctx, rec, end, version, log)
	if r == nil {
		return
	}
	switch {
	case end.Error != nil:
		r.Log.Note("%s: %s", end.Status, end.Error.Message)
		for _, f := range end.Error.Fixes {
			r.Log.Note("what to do: %s", f)
		}
	case err == nil && b.Version != nil && activated:
		r.Log.Note("version %d is ready and active (%s)", *b.Version, elapsed(b.ElapsedMS))
	case err == nil && b.Version != nil:
		r.Log.Note("version %d is ready; another version was activated meanwhile and stays active", *b.Version)
	}
	if err := r.Log.Close(); err != nil {
		log.Error("closing the log of a build", "err", err)
	}
	log.Info("build ended", "status", end.Status, "elapsed_ms", b.ElapsedMS)
}

// recordPause is how long a store that cannot take a record, as on a full disk, is left alone.
const recordPause = time.Second

// record keeps the end of a build, also when the server is closing. A store that cannot take it now is asked again until then:
// what was built is not to be built again.
func (q *Queue) record(ctx context.Context, rec store.BuildRecord, end enplace.Build, version *enplace.Version, log *slog.Logger) (b enplace.Build, activated bool, err error) {
	ctx = context.WithoutCancel(ctx)
	for first := true; ; first = false {
		save, cancel := context.WithTimeout(ctx, 30*time.Second)
		b, activated, err = q.cfg.Store.FinishBuild(save, rec.Environment, rec.N, end, version)
		cancel()
		if err == nil {
			return b, activated, nil
		}
		if first {
			log.Error("recording the end of a build", "err", err)
		}
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
			return b, false, err
		}
		select {
		case <-q.closing:
			return b, false, err
		case <-time.After(recordPause):
		}
	}
}

// renew keeps the lease, and hears of a cancel that another process asked for.
func (q *Queue) renew(ctx context.Context, cancel context.CancelCauseFunc, rec store.BuildRecord) {
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked, err := q.cfg.Store.RenewBuild(ctx, rec.Environment, rec.N, worker, q.cfg.Now().Add(lease))
		switch {
		case errors.Is(err, store.ErrConflict):
			cancel(errLease)
		case asked:
			cancel(errCancelled)
		}
	}
}

// failure says why a build ended: the cause that stopped it comes before what it made fail. It is the build's own to complete:
// causes are shared by all builds.
func (q *Queue) failure(ctx context.Context, err error, log *slog.Logger) *enplace.Failure {
	var f *enplace.Failure
	if cause := context.Cause(ctx); cause != nil && errors.As(cause, &f) || errors.As(err, &f) {
		own := *f
		return &own
	}
	var e *enplace.Error
	if errors.As(err, &e) && e.Kind != enplace.KindInternal {
		log.Warn("build refused", "err", err)
		reason := enplace.ReasonExit
		if e.Kind == enplace.KindTooLarge {
			reason = enplace.ReasonLimit
		}
		return &enplace.Failure{Reason: reason, Message: (&enplace.Error{Message: e.Message, Field: e.Field}).Error(), Fixes: e.Fixes}
	}
	log.Error("build failed inside", "err", err)
	return &enplace.Failure{Reason: enplace.ReasonInterrupted, Message: "the server failed while it built; its log has the cause",
		Fixes: []string{"build again; if it stays, run enplace doctor on the server"}}
}

func statusOf(r enplace.Reason) enplace.BuildStatus {
	switch r {
	case enplace.ReasonCancelled:
		return enplace.BuildCancelled
	case enplace.ReasonInterrupted:
		return enplace.BuildInterrupted
	}
	return enplace.BuildFailed
}

func elapsed(ms int64) string {
	return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond).String()
}
