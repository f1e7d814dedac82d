package build

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"enplace"
	"enplace/internal/durable"
	"enplace/internal/store"
)

// A clock that is set while a build runs changes neither how long it took nor when it ends, and those that wait run in their order.
func TestClockIsSetDuringABuild(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for _, by := range []time.Duration{-time.Hour, -10 * year, time.Hour, 10 * year} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			reached, set := make(chan struct{}, 9), make(chan struct{})
			h := newHouse(t, func(ctx context.Context, r *Run) (*enplace.Version, error) {
				return nil, r.Step(ctx, enplace.StepCheck, func(context.Context) (Outcome, error) {
					reached <- struct{}{}
					<-set
					return Ran, &enplace.Failure{Reason: enplace.ReasonExit, Message: "as it was to end"}
				})
			})
			first, second := h.queue(t, "one"), h.queue(t, "two") // one for each worker
			<-reached
			<-reached
			third := h.queue(t, "three")
			h.jump.Store(int64(by))
			if took := h.Elapsed(first, 1); took < 0 || took > time.Minute {
				t.Errorf("it has been running for %s", took)
			}
			fourth := h.queueAt(t, "four", time.Now().Add(by))
			close(set)
			var before time.Time
			for _, id := range []string{first, second, third, fourth} {
				b := h.wait(t, id)
				if b.ElapsedMS < 0 || b.ElapsedMS > 60_000 || b.EndedAt.Before(*b.StartedAt) || b.Steps[0].ElapsedMS < 0 || b.Steps[0].ElapsedMS > 60_000 {
					t.Errorf("%+v", b)
				}
				if id == third {
					before = *b.StartedAt
				}
				if id == fourth && b.StartedAt.Before(before) {
					t.Errorf("the last in the queue was started at %s, before the one ahead of it at %s", b.StartedAt, before)
				}
			}
			if h.Elapsed(first, 1) != 0 {
				t.Error("a build that has ended runs on")
			}
		})
	}
}

// tight is a store whose disk is full at times.
type tight struct {
	store.Store
	refusals atomic.Int32
}

func (s *tight) FinishBuild(ctx context.Context, environment string, n int, end enplace.Build, version *enplace.Version) (enplace.Build, bool, error) {
	if s.refusals.Add(-1) >= 0 {
		return enplace.Build{}, false, durable.FullError(nil)
	}
	return s.Store.FinishBuild(ctx, environment, n, end, version)
}

// A store that cannot take the end of a build, as on a full disk, gets it once it can, and the build is not run again.
func TestEndIsRecordedOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	h := newHouse(t, func(context.Context, *Run) (*enplace.Version, error) {
		runs.Add(1)
		return nil, &enplace.Failure{Reason: enplace.ReasonExit, Message: "as it was to end"}
	})
	h.disk.refusals.Store(2)
	if b := h.wait(t, h.queue(t, "one")); b.Error.Message != "as it was to end" || runs.Load() != 1 {
		t.Errorf("%+v after %d runs", b, runs.Load())
	}
}
