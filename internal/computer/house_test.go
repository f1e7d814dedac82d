package computer_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/internal/computer"
	"enplace/internal/store"
	"enplace/internal/toolchain/toolchaintest"
)

const patience = toolchaintest.Patience

var operator = toolchaintest.Operator

// house is a service of computers with everything real below it.
type house struct {
	*toolchaintest.House
	*testing.T
	computers *computer.Service
	cfg       computer.Config
}

func newHouse(t *testing.T, change ...func(*computer.Config)) *house {
	t.Helper()
	h := &house{House: toolchaintest.New(t), T: t}
	h.cfg = computer.Config{
		Store: h.Store, Runtime: h.Runtime, Audit: h.Audit, Logger: h.Logger, Now: h.Clock.Now, LogDir: filepath.Join(h.Dir, "logs", "computers"),
		LookEvery: 10 * time.Millisecond,
	}
	for _, c := range change {
		c(&h.cfg)
	}
	h.open()
	t.Cleanup(func() { h.computers.Close() })
	return h
}

// part runs a part of a test, which fails for what goes wrong in it.
func (h *house) part(t *testing.T, test func(*house)) {
	defer h.In(t)()
	whole := h.T
	h.T = t
	defer func() { h.T = whole }()
	test(h)
}

func (h *house) open() {
	h.T.Helper()
	h.cfg.Toolchain = h.Toolchain
	h.computers = computer.New(h.cfg)
	check(h.T, h.computers.Start(h.Context()))
}

// restart closes both services and opens them again on the same data.
func (h *house) restart() {
	h.T.Helper()
	h.computers.Close()
	h.Restart()
	h.open()
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// outcome is what a command on a computer gave.
type outcome struct {
	enplace.ConversationResult
	t        *testing.T
	progress []string
}

// exec runs a shell's script as the agent's.
func (h *house) exec(conversation, script string) outcome {
	h.T.Helper()
	return h.execAs(operator, conversation, enplace.ConversationExec{ExecRequest: shell(script, 0)})
}

func shell(script string, timeout int) enplace.ExecRequest {
	return enplace.ExecRequest{Command: []string{"/bin/bash", "-c", script}, Timeout: timeout}
}

func (h *house) execAs(c enplace.Caller, conversation string, in enplace.ConversationExec) outcome {
	h.T.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	o := outcome{t: h.T}
	res, err := h.computers.Exec(ctx, c, conversation, in, func(e enplace.ConversationEvent) error {
		switch {
		case e.Progress != "":
			o.progress = append(o.progress, e.Progress)
		case e.Stream == "stdout":
			o.Stdout += e.Data
		case e.Stream == "stderr":
			o.Stderr += e.Data
		}
		return nil
	})
	check(h.T, err)
	res.Stdout, res.Stderr = o.Stdout, o.Stderr
	o.ConversationResult = res
	return o
}

// want checks what a command printed, and that it succeeded.
func (o outcome) want(stdout string) outcome {
	o.t.Helper()
	if got := strings.TrimSpace(o.Stdout); got != stdout || o.ExitCode != 0 {
		o.t.Errorf("exit %d, %q, errors %q; want %q", o.ExitCode, got, o.Stderr, stdout)
	}
	return o
}

// notices checks which kinds of notice came.
func (o outcome) notices(kinds ...enplace.NoticeKind) outcome {
	o.t.Helper()
	var got []enplace.NoticeKind
	for _, n := range o.Notices {
		got = append(got, n.Kind)
	}
	if !slices.Equal(got, kinds) {
		o.t.Errorf("notices %v, want %v: %+v", got, kinds, o.Notices)
	}
	return o
}

// record gives the record of a computer.
func (h *house) record(id string) store.ComputerRecord {
	h.T.Helper()
	rec, err := h.Store.Computer(h.Context(), id)
	check(h.T, err)
	return rec
}

// state gives how the set of a conversation stands on its computer.
func (h *house) state(conversation string) enplace.ComputerSet {
	h.T.Helper()
	set, err := h.computers.Set(h.Context(), operator, conversation)
	check(h.T, err)
	conv, err := h.Store.Conversation(h.Context(), conversation)
	check(h.T, err)
	for _, s := range h.record(conv.ComputerID()).Sets {
		if s.Hash == set.Hash {
			return s
		}
	}
	return enplace.ComputerSet{}
}

// until waits for something that happens by itself.
func (h *house) until(what string, happened func() bool) {
	h.T.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !happened(); <-tick.C {
		if time.Now().After(end) {
			h.T.Fatalf("still waiting for: %s", what)
		}
	}
}

// statuses gives those of a set's items, by key.
func statuses(set enplace.ComputerSet) map[string]enplace.ItemStatus {
	all := map[string]enplace.ItemStatus{}
	for _, i := range set.Items {
		all[i.Key] = i.Status
	}
	return all
}
