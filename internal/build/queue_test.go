package build

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"enplace"
	"enplace/internal/redact"
	"enplace/internal/store"
	"enplace/internal/store/sqlite"
)

// house is a queue on a real store, with an environment for each build of a test.
type house struct {
	*Queue
	store store.Store
	disk  *tight       // what the queue has of the store
	jump  atomic.Int64 // nanoseconds that the clock is ahead
}

func newHouse(t *testing.T, recipe Recipe) *house {
	t.Helper()
	dir, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	st, err := sqlite.Open(t.Context(), filepath.Join(dir, "db"))
	check(t, err)
	h := &house{store: st, disk: &tight{Store: st}}
	now := func() time.Time { return time.Now().Add(time.Duration(h.jump.Load())) }
	h.Queue = New(Config{Store: h.disk, Dir: filepath.Join(dir, "logs"), Recipe: recipe, Redact: redact.New(), Logger: quiet, Now: now})
	check(t, h.Start(t.Context()))
	t.Cleanup(func() {
		h.Close()
		check(t, st.Close())
	})
	return h
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// queue makes an environment and queues its first build.
func (h *house) queue(t *testing.T, slug string) string {
	t.Helper()
	return h.queueAt(t, slug, time.Now())
}

func (h *house) queueAt(t *testing.T, slug string, now time.Time) string {
	t.Helper()
	id := enplace.NewID(enplace.PrefixEnvironment, now)
	check(t, h.store.CreateEnvironment(t.Context(), enplace.Environment{ID: id, Name: slug, Slug: slug, Owner: "operator"}))
	_, err := h.store.QueueBuild(t.Context(), id, "operator", now, func(enplace.Environment, []enplace.TreeEntry, store.TreeInfo) (store.BuildSpec, error) {
		return store.BuildSpec{Slug: slug}, nil
	})
	check(t, err)
	h.Wake()
	return id
}

func (h *house) wait(t *testing.T, id string) enplace.Build {
	t.Helper()
	b, err := h.Wait(t.Context(), id, 1, time.Minute)
	check(t, err)
	if !b.Status.Ended() {
		t.Fatalf("it is %s", b.Status)
	}
	return b
}

// Each build that was cancelled says in which step it was: the step of the first one is not that of all.
func TestCancelledBuildsNameTheirOwnStep(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{})
	h := newHouse(t, func(ctx context.Context, r *Run) (*enplace.Version, error) {
		return nil, r.Step(ctx, r.Spec.Slug, func(ctx context.Context) (Outcome, error) { // the slug is the step's name here
			close(reached)
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
	})
	for _, step := range []string{enplace.StepApt, enplace.StepNPM} {
		reached = make(chan struct{})
		id := h.queue(t, step)
		<-reached
		_, err := h.store.RequestCancel(t.Context(), id, 1, time.Now())
		check(t, err)
		h.Cancel(id, 1)
		if b := h.wait(t, id); b.Status != enplace.BuildCancelled || b.Error == nil || b.Error.Step != step {
			t.Errorf("in %s: %+v %+v", step, b, b.Error)
		}
	}
}

// A clock that jumps ahead of the lease lets a build be claimed again. It runs on, once.
func TestClockAheadOfTheLease(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	reached, finish := make(chan struct{}, 2), make(chan struct{})
	h := newHouse(t, func(ctx context.Context, _ *Run) (*enplace.Version, error) {
		runs.Add(1)
		reached <- struct{}{}
		select {
		case <-finish:
			return nil, &enplace.Failure{Reason: enplace.ReasonExit, Message: "as it was to end"}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	id := h.queue(t, "one")
	<-reached
	h.jump.Store(int64(time.Hour))
	before, err := h.store.Build(t.Context(), id, 1)
	check(t, err)
	other := h.queue(t, "two") // the worker that is free takes the first again, and then this
	<-reached
	close(finish)
	h.wait(t, other)
	if b := h.wait(t, id); b.Status != enplace.BuildFailed || b.Error.Message != "as it was to end" || runs.Load() != 2 {
		t.Errorf("%+v %+v after %d runs of two builds, started %v", b, b.Error, runs.Load(), before.StartedAt)
	}
}

// A build whose environment is deleted stops, and leaves no log that nobody can reach.
func TestAbandon(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{})
	h := newHouse(t, func(ctx context.Context, _ *Run) (*enplace.Version, error) {
		close(reached)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	id := h.queue(t, "gone")
	<-reached
	check(t, h.store.DeleteEnvironment(t.Context(), id))
	check(t, h.Abandon(t.Context(), id))
	if n := len(h.running); n > 0 {
		t.Errorf("%d builds run", n)
	}
	if logged, err := h.Logged(); err != nil || len(logged) != 1 || logged[0] != id {
		t.Errorf("logs of %v, %v", logged, err)
	}
	check(t, h.DropLogs(id))
	if _, err := h.Log(id, 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log: %v", err)
	}
}

// Whoever asks for the log of a build that is just being claimed gets it, and is not told that there is none.
func TestLogOfABuildJustClaimed(t *testing.T) {
	t.Parallel()
	finish := make(chan struct{})
	h := newHouse(t, func(context.Context, *Run) (*enplace.Version, error) {
		<-finish
		return nil, &enplace.Failure{Reason: enplace.ReasonExit, Message: "enough"}
	})
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		id := h.queue(t, name)
		go func() { finish <- struct{}{} }()
		check(t, h.WaitStarted(t.Context(), id, 1))
		r, err := h.Log(id, 1)
		check(t, err)
		_, err = io.ReadAll(r)
		check(t, errors.Join(err, r.Close()))
		h.wait(t, id)
	}
}
