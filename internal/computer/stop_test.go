package computer_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"enplace"
	"enplace/internal/computer"
	"enplace/internal/toolchain/toolchaintest"
)

func TestStop(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *computer.Config) { c.Limits = enplace.Limits{Processes: 64} })
	for name, test := range map[string]func(*house){
		"ProcessesUsedUp": testStopFull, "RunningCommand": testStopRunning, "DuringInstallation": testStopInstalling, "WhoMay": testStopWho,
		"WaitingCommand": testStopWaiting,
	} {
		t.Run(name, func(t *testing.T) { h.part(t, test) })
	}
}

// everything takes every process that the computer may have, and keeps it.
const everything = `import os, signal
try:
    while True:
        if os.fork() == 0:
            signal.pause()
except BlockingIOError:
    os._exit(0)
`

// A computer whose processes were used up ran no command, and nothing but a reset or a restart of the server mended it.
func testStopFull(h *house) {
	with := h.Direct("ann")
	h.Attach("person:ann", "own", toolchaintest.Item("own", runs, ""))
	h.exec(with, "echo kept >/root/kept; touch /opt/kept").want("")
	h.execAs(operator, with, enplace.ConversationExec{ExecRequest: enplace.ExecRequest{Command: []string{"python3", "-c", everything}}})
	_, err := h.computers.Exec(h.Context(), operator, with, enplace.ConversationExec{ExecRequest: shell("true", 0)}, nil)
	var full *enplace.Error
	if !errors.As(err, &full) || full.Kind != enplace.KindBusy || !strings.Contains(strings.Join(full.Fixes, "\n"), "enplace computer stop person:ann") {
		h.Fatalf("a command where no process is left: %v", err)
	}
	c, err := h.computers.Stop(h.Context(), toolchaintest.Person("ann"), "person:ann")
	if err != nil || c.State != enplace.ComputerStopped {
		h.Fatalf("%+v, %v", c, err)
	}
	h.exec(with, "cat /root/kept /root/runs; ls /opt/kept").want("kept\nrun\n/opt/kept").notices()
}

// A command that ran answers that the computer stopped; a stop of one that is stopped changes nothing, and is no record.
func testStopRunning(h *house) {
	with := h.Direct("bob")
	began := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		_, err := h.computers.Exec(h.Context(), operator, with, enplace.ConversationExec{ExecRequest: shell("touch /root/mine; echo here; sleep infinity", 0)},
			func(enplace.ConversationEvent) error { close(began); return nil })
		if enplace.KindOf(err) != enplace.KindConflict || !strings.Contains(err.Error(), "stopped while the command ran") {
			h.Errorf("the command that ran: %v", err)
		}
	})
	<-began
	for range 2 {
		c, err := h.computers.Stop(h.Context(), operator, "person:bob")
		if err != nil || c.State != enplace.ComputerStopped {
			h.Errorf("%+v, %v", c, err)
		}
	}
	group.Wait()
	l, err := h.Store.ListAudit(h.Context(), "person:bob", enplace.Page{})
	check(h.T, err)
	n := 0
	for _, e := range l.Items {
		if e.Action == "computer.stop" {
			n++
		}
	}
	if n != 1 {
		h.Errorf("%d records of one stop", n)
	}
	h.exec(with, "ls /root/mine").want("/root/mine")
}

// What was being installed is redone at the next use. What waited for its turn does not start the computer again.
func testStopInstalling(h *house) {
	with := h.Direct("cid")
	h.Attach("person:cid", "own", toolchaintest.Item("own", "if [ -e /root/begun ]; then echo again >/root/done; exit; fi\ntouch /root/begun; sync; sleep infinity\n", ""))
	h.execAs(operator, with, enplace.ConversationExec{ExecRequest: shell("true", 2)}).notices(enplace.NoticeInstalling)
	h.until("the installation to begin", func() bool { return inside(h, "computer_person_cid", "test -e /root/begun") })
	_, err := h.computers.Stop(h.Context(), operator, "person:cid")
	check(h.T, err)
	if c, err := h.computers.Get(h.Context(), operator, "person:cid"); err != nil || c.State != enplace.ComputerStopped {
		h.Errorf("%+v, %v", c, err)
	}
	if got := statuses(h.state(with))["own"]; got != enplace.ItemInterrupted {
		h.Errorf("the item is %s", got)
	}
	h.exec(with, "cat /root/done").want("again").notices()
}

// A command that waited for its set was told that it may have run, and could not be run again safely.
func testStopWaiting(h *house) {
	with := h.Direct("fay")
	h.Attach("person:fay", "own", toolchaintest.Item("own", "touch /root/begun; sync; sleep infinity\n", ""))
	for name, end := range map[string]func() error{
		"stopped": func() error { _, err := h.computers.Stop(h.Context(), operator, "person:fay"); return err },
		"reset":   func() error { return h.computers.Reset(h.Context(), operator, "person:fay") },
	} {
		waits, answer := make(chan struct{}), make(chan error)
		go func() {
			_, err := h.computers.Exec(h.Context(), operator, with, enplace.ConversationExec{ExecRequest: shell("touch /root/ran", 0)},
				func(e enplace.ConversationEvent) error {
					if strings.Contains(e.Progress, "installing") {
						close(waits)
					}
					return nil
				})
			answer <- err
		}()
		<-waits
		check(h.T, end())
		err := <-answer
		var e *enplace.Error
		if !errors.As(err, &e) || e.Kind != enplace.KindConflict || !strings.Contains(e.Message, name+" before the command began, so nothing of it ran") || len(e.Fixes) == 0 {
			h.Errorf("%s: %v", name, err)
		}
	}
}

func testStopWho(h *house) {
	if _, err := h.computers.Stop(h.Context(), operator, "person:nobody"); enplace.KindOf(err) != enplace.KindNotFound {
		h.Errorf("a computer that is not there: %v", err)
	}
	_, err := h.Toolchain.PutTeam(h.Context(), operator, "web", enplace.PutTeam{People: []string{"dan"}})
	check(h.T, err)
	h.exec(h.Room("web", "web", true), "true")
	h.exec(h.Direct("eve"), "true")
	agent := enplace.Caller{Kind: enplace.KeyAgent, Subject: "conversation:with-eve"}
	for _, may := range []struct {
		who enplace.Caller
		id  string
		err enplace.Kind
	}{
		{toolchaintest.Person("dan"), "person:eve", enplace.KindNotFound},
		{toolchaintest.Person("eve"), "room:web", enplace.KindNotFound},
		{agent, "person:eve", enplace.KindNotFound},
		{toolchaintest.Person("eve"), "person:eve", ""},
		{toolchaintest.Person("dan"), "room:web", ""},
	} {
		if _, err := h.computers.Stop(h.Context(), may.who, may.id); err == nil != (may.err == "") || err != nil && enplace.KindOf(err) != may.err {
			h.Errorf("%s stops %s: %v", may.who.Name(), may.id, err)
		}
	}
}
