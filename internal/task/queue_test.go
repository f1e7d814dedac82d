package task

import (
	"errors"
	"io"
	"testing"
	"time"

	"enplace"
)

// harness makes one more harness on the house's environment; without a command its tasks are open sandboxes.
func (h *house) harnessOf(t *testing.T, command ...string) string {
	t.Helper()
	return must(h.CreateHarness(t.Context(), operator, enplace.CreateHarness{Name: "one more", Environment: h.env, Command: command}))(t).ID
}

func (h *house) task(t *testing.T, harness, input string) string {
	t.Helper()
	return must(h.Create(t.Context(), operator, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: harness}, Input: input}))(t).ID
}

func (h *house) status(t *testing.T, id string) enplace.TaskStatus {
	t.Helper()
	return must(h.Get(t.Context(), operator, id, 0))(t).Status
}

// full gives a house of one place, which an open sandbox has, and that task.
func full(t *testing.T) (h *house, first string) {
	t.Helper()
	h = buildHouse(t, 1)
	check(t, h.Service.Start(t.Context()))
	h.build(t, "text")
	return h, h.task(t, h.harnessOf(t), "")
}

// A task that had to wait gets its input all the same, and who waits for its log is woken when it has a place.
func TestQueuedTaskKeepsItsInput(t *testing.T) {
	h, first := full(t)
	second := h.task(t, h.harnessOf(t, "/bin/cat"), "what it was given")
	if got := h.status(t, second); got != enplace.TaskQueued {
		t.Fatalf("it is %s", got)
	}
	read := make(chan string, 1)
	go func() {
		defer close(read)
		r, err := h.Log(t.Context(), operator, second)
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Close()
		err = r.Follow(t.Context(), func(text string) error { read <- text; return nil })
		if err != nil {
			t.Error(err)
		}
	}()
	must(h.Cancel(t.Context(), operator, first))(t)
	if got := must(h.Get(t.Context(), operator, second, time.Minute))(t); got.Status != enplace.TaskSucceeded {
		t.Errorf("it ended as %+v", got)
	}
	if text := <-read; text != "what it was given\n" {
		t.Errorf("it printed %q", text)
	}
}

// An open sandbox that had to wait takes commands as soon as it has a place.
func TestExecWaitsForAPlace(t *testing.T) {
	h, first := full(t)
	second := h.task(t, h.harnessOf(t), "")
	type answer struct {
		res enplace.ExecResult
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		res, err := h.Exec(t.Context(), operator, second, enplace.ExecRequest{Command: []string{"/bin/cat", "/env/demo/file"}}, nil)
		answered <- answer{res, err}
	}()
	must(h.Cancel(t.Context(), operator, first))(t)
	select {
	case a := <-answered:
		if a.err != nil || a.res.Stdout != "text" {
			t.Errorf("%+v %v", a.res, a.err)
		}
	case <-time.After(time.Minute):
		t.Error("it still waits, and the sandbox runs")
	}
	must(h.Cancel(t.Context(), operator, second))(t)
}

// A cancel that the store refused leaves a queued task where it was: it can be cancelled again, and is not lost.
func TestCancelOfAQueuedTaskThatFailed(t *testing.T) {
	h, first := full(t)
	second := h.task(t, h.harnessOf(t, "/bin/true"), "")
	refused := errors.New("the disk is full")
	h.store.update = func() error { return refused }
	if _, err := h.Cancel(t.Context(), operator, second); !errors.Is(err, refused) {
		t.Fatalf("the error is %v", err)
	}
	h.store.update = nil
	if got := must(h.Cancel(t.Context(), operator, second))(t); got.Status != enplace.TaskCancelled {
		t.Errorf("it is %+v", got)
	}
	third := h.task(t, h.harnessOf(t, "/bin/true"), "")
	must(h.Cancel(t.Context(), operator, first))(t)
	if got := must(h.Get(t.Context(), operator, third, time.Minute))(t); got.Status != enplace.TaskSucceeded {
		t.Errorf("the next ended as %+v", got)
	}
	if got := h.status(t, second); got != enplace.TaskCancelled {
		t.Errorf("it is %s", got)
	}
}

// While the server starts, tasks wait: what an earlier process left is settled first, and what came since is none of it.
func TestTaskFromBeforeTheStart(t *testing.T) {
	h := buildHouse(t, 0)
	h.build(t, "text")
	id := h.task(t, h.harness, "")
	if got := h.status(t, id); got != enplace.TaskQueued {
		t.Fatalf("it is %s", got)
	}
	check(t, h.Service.Start(t.Context()))
	if got := must(h.Get(t.Context(), operator, id, time.Minute))(t); got.Status != enplace.TaskSucceeded {
		t.Errorf("it ended as %+v", got)
	}
	r := must(h.Log(t.Context(), operator, id))(t)
	defer r.Close()
	if text := must(io.ReadAll(r))(t); string(text) != "text\n" {
		t.Errorf("it printed %q", text)
	}
	if len(h.live) > 0 || len(h.waiting) > 0 {
		t.Errorf("%d have places and %d wait", len(h.live), len(h.waiting))
	}
}

// An agent's list of tasks is its own task, where the query lets that through.
func TestAgentListsByQuery(t *testing.T) {
	h, first := full(t)
	agent := enplace.Caller{Kind: enplace.KeyAgent, Subject: first}
	for status, want := range map[enplace.TaskStatus]int{"": 1, enplace.TaskRunning: 1, enplace.TaskQueued: 0} {
		l := must(h.List(t.Context(), agent, enplace.TaskQuery{Status: status}, enplace.Page{}))(t)
		if len(l.Items) != want {
			t.Errorf("%q: %d tasks, not %d", status, len(l.Items), want)
		}
	}
}
