package task

import (
	"sync/atomic"
	"testing"
	"time"

	"enplace"
	"enplace/internal/durable"
)

// A clock that is set back or ahead, by an hour or ten years, makes no task end before it began, changes no order, and drops nothing
// that is to be kept.
func TestClockIsSet(t *testing.T) {
	const year = 365 * 24 * time.Hour
	h := buildHouse(t, 0)
	var ahead atomic.Int64
	settled := false
	h.cfg.Now = func() time.Time { return time.Now().Round(0).Add(time.Duration(ahead.Load())) } // without the monotonic clock
	h.cfg.Settled = func(time.Duration) bool { return settled }
	check(t, h.Service.Start(t.Context()))
	h.build(t, "text")
	open := h.harnessOf(t)
	var made []string
	for _, by := range []time.Duration{0, -time.Hour, -10 * year, 10 * year, 0} {
		ahead.Store(0)
		running := h.task(t, open, "")
		must(h.Exec(t.Context(), operator, running, enplace.ExecRequest{Command: []string{"true"}}, nil))(t)
		ahead.Store(int64(by))
		ended := must(h.Cancel(t.Context(), operator, running))(t)
		if ended.EndedAt.Before(*ended.StartedAt) || ended.StartedAt.Before(ended.CreatedAt) {
			t.Errorf("set by %s while it ran: made %s, started %s, ended %s", by, ended.CreatedAt, ended.StartedAt, ended.EndedAt)
		}
		after := h.task(t, h.harness, "")
		if done := must(h.Get(t.Context(), operator, after, time.Minute))(t); done.Status != enplace.TaskSucceeded || done.StartMS < 0 || done.StartMS > 60_000 {
			t.Errorf("set by %s before it was made: %+v", by, done)
		}
		made = append(made, running, after)
	}
	list := must(h.List(t.Context(), operator, enplace.TaskQuery{}, enplace.Page{Limit: 100}))(t)
	if len(list.Items) != len(made) {
		t.Fatalf("%d tasks", len(list.Items))
	}
	for i, item := range list.Items {
		if want := made[len(made)-1-i]; item.ID != want {
			t.Errorf("%d. of the list is %s of %s; %s was made then", i, item.ID, item.CreatedAt, want)
		}
	}
	ahead.Store(int64(10 * year))
	for _, settled = range []bool{false, true} { // such dates are believed once they have proved right
		check(t, h.Collect(t.Context()))
		if purged := must(h.store.Task(t.Context(), made[0]))(t).Purged; purged != settled {
			t.Errorf("settled is %v, and what the task left was dropped: %v", settled, purged)
		}
	}
}

// A store that cannot take the end of a task, as on a full disk, gets it once it can.
func TestEndIsRecordedOnceThereIsRoom(t *testing.T) {
	h := newHouse(t)
	h.build(t, "text")
	refused := atomic.Int32{}
	h.store.update = func() error {
		if refused.Add(1) <= 2 {
			return durable.FullError(nil)
		}
		return nil
	}
	id := h.task(t, h.harness, "")
	if done := must(h.Get(t.Context(), operator, id, time.Minute))(t); done.Status != enplace.TaskSucceeded || refused.Load() < 3 {
		t.Errorf("%+v after %d attempts", done, refused.Load())
	}
}
