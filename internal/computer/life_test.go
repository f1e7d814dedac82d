package computer_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"enplace"
	"enplace/internal/computer"
	"enplace/internal/sandbox"
	"enplace/internal/store"
	"enplace/internal/toolchain/toolchaintest"
)

func TestLife(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for name, test := range map[string]func(*house){
		"FilesLast": testFilesLast, "Case39KilledInstallation": testKilled, "IdleComputer": testIdle, "Reset": testReset,
		"ResetDuringInstallation": testResetInstalling, "LostVolume": testLost, "TwoAtOnce": testTwo, "Terminal": testTerminal,
	} {
		t.Run(name, func(t *testing.T) { h.part(t, test) })
	}
}

func TestServerEnds(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	with := h.Direct("ann")
	h.Attach("person:ann", "own", toolchaintest.Item("own", runs, ""))
	h.exec(with, "echo mine >/root/mine; echo local >/opt/local; echo gone >/tmp/gone").want("")
	h.restart()
	h.exec(with, "cat /root/mine /opt/local /root/runs; ls /tmp").want("mine\nlocal\nrun")
	if c, err := h.computers.Get(t.Context(), operator, "person:ann"); err != nil || len(c.Commands) != 2 {
		t.Errorf("%+v, %v", c.Commands, err)
	}

	// As a server leaves it that is killed while it installs, and while it removes another computer.
	h.computers.Close()
	set := h.state(with).Hash
	_, err := h.Store.UpdateComputer(t.Context(), "person:ann", func(r *store.ComputerRecord) error {
		r.Sets[0].Items[0].Status, r.Sets[0].AppliedAt, r.Sets[0].Attempts = enplace.ItemInstalling, nil, 0
		return nil
	})
	check(t, err)
	gone, err := h.Runtime.Start(t.Context(), sandbox.Spec{ID: "computer_person_gone", Durable: "computer_person_gone", Root: []enplace.Digest{h.Base.Digest},
		Limits: enplace.DefaultComputerLimits, Egress: enplace.Egress{Policy: enplace.EgressNone}})
	check(t, err)
	check(t, gone.Stop(t.Context()))
	h.Restart()
	h.open()
	if got := statuses(h.state(with))["own"]; got != enplace.ItemInterrupted {
		t.Errorf("the item that was being installed is %s", got)
	}
	volumes, err := h.Runtime.Durables(t.Context())
	check(t, err)
	if _, ok := volumes["computer_person_gone"]; ok || len(volumes) != 1 {
		t.Errorf("volumes %v", volumes)
	}
	h.exec(with, "cat /root/runs").want("run\nrun").notices()
	if state := h.state(with); state.Hash != set || state.AppliedAt == nil {
		t.Errorf("%+v", state)
	}
}

func testFilesLast(h *house) {
	with := h.Direct("ann")
	h.exec(with, "echo kept >/root/kept").want("")
	check(h.T, h.Box("computer_person_ann").Stop(h.Context()))
	h.exec(with, "cat /root/kept").want("kept")
}

// An installation whose computer dies is told as interrupted, and done again.
func testKilled(h *house) {
	with := h.Direct("bob")
	h.Attach("person:bob", "own", toolchaintest.Item("own", "if [ -e /root/begun ]; then echo again >/root/done; exit; fi\ntouch /root/begun; sync; sleep infinity\n", ""))
	var group sync.WaitGroup
	group.Go(func() {
		_, err := h.computers.Exec(h.Context(), operator, with, enplace.ConversationExec{ExecRequest: shell("true", 0)}, nil)
		if enplace.KindOf(err) != enplace.KindConflict {
			h.Errorf("the command that waited: %v", err)
		}
	})
	h.until("the installation to begin", func() bool { return inside(h, "computer_person_bob", "test -e /root/begun") })
	check(h.T, h.Box("computer_person_bob").Stop(h.Context()))
	group.Wait()
	if got := statuses(h.state(with))["own"]; got != enplace.ItemInterrupted {
		h.Errorf("the item is %s", got)
	}
	h.exec(with, "cat /root/done").want("again").notices()
}

// inside reports whether a script succeeds in a sandbox, whatever conversation it belongs to.
func inside(h *house, id, script string) bool {
	box, err := h.Runtime.Get(id)
	if err != nil {
		return false
	}
	exit, err := box.Exec(h.Context(), sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Env: sandbox.BaseEnv(), Dir: "/"})
	return err == nil && exit.Code == 0
}

// A computer that nobody uses stops, also when something of its set fails again and again.
func testIdle(h *house) {
	with := h.Direct("cid")
	h.Attach("person:cid", "own", toolchaintest.Item("bad", "exit 1\n", ""))
	h.exec(with, "echo kept >/root/kept").notices(enplace.NoticeFailed)
	for spent := enplace.FailedRetry; spent < enplace.DefaultIdle; spent += enplace.FailedRetry {
		before := h.state(with).Attempts
		h.Clock.Advance(enplace.FailedRetry)
		h.until("a retry", func() bool { return h.state(with).Attempts > before })
	}
	h.Clock.Advance(enplace.FailedRetry)
	h.until("the computer to stop", func() bool {
		c, err := h.computers.Get(h.Context(), operator, "person:cid")
		check(h.T, err)
		return c.State == enplace.ComputerStopped
	})
	before := h.state(with).Attempts
	h.Clock.Advance(enplace.FailedRetry)
	h.exec(with, "cat /root/kept").want("kept")
	if got := h.state(with).Attempts; got != before+1 {
		h.Errorf("%d attempts at the next use, were %d", got, before)
	}
}

func testReset(h *house) {
	with := h.Direct("dan")
	h.Direct("dan.b") // whose name begins alike
	h.Attach("person:dan", "own", toolchaintest.Item("own", runs, ""))
	h.Attach("person:dan.b", "own", toolchaintest.Item("own", runs+"#\n", ""))
	h.exec("with-dan-b", "true")
	other := h.state("with-dan-b").Hash
	h.exec(with, "echo mine >/root/mine").want("")
	var group sync.WaitGroup
	began := make(chan struct{})
	group.Go(func() {
		_, err := h.computers.Exec(h.Context(), operator, with, enplace.ConversationExec{ExecRequest: shell("echo here; sleep infinity", 0)},
			func(enplace.ConversationEvent) error { close(began); return nil })
		if enplace.KindOf(err) != enplace.KindConflict {
			h.Errorf("the command that ran: %v", err)
		}
	})
	<-began
	check(h.T, h.computers.Reset(h.Context(), toolchaintest.Person("dan"), "person:dan"))
	group.Wait()
	if _, err := h.computers.Get(h.Context(), operator, "person:dan"); enplace.KindOf(err) != enplace.KindNotFound {
		h.Errorf("after a reset: %v", err)
	}
	log, err := h.computers.Log(h.Context(), operator, "person:dan.b", other)
	check(h.T, err)
	check(h.T, log.Close())
	h.exec(with, "cat /root/runs; ls /root/mine 2>/dev/null || echo none").want("run\nnone").notices()
}

// What was being installed when a computer was reset neither holds up the reset nor makes the computer again.
func testResetInstalling(h *house) {
	with := h.Direct("eli")
	h.Attach("person:eli", "own", toolchaintest.Item("hang", "touch /root/begun; sleep infinity\n", ""))
	h.execAs(operator, with, enplace.ConversationExec{ExecRequest: shell("true", 2)}).notices(enplace.NoticeInstalling)
	check(h.T, h.computers.Reset(h.Context(), operator, "person:eli"))
	if _, err := h.Store.Computer(h.Context(), "person:eli"); err == nil {
		h.Error("there is a record again")
	}
	volumes, err := h.Runtime.Durables(h.Context())
	check(h.T, err)
	if _, ok := volumes["computer_person_eli"]; ok {
		h.Error("there is a volume again")
	}
}

// A record says nothing of a volume that is no more.
func testLost(h *house) {
	with := h.Direct("fay")
	h.Attach("person:fay", "own", toolchaintest.Item("own", runs, ""))
	h.exec(with, "cat /root/runs").want("run")
	check(h.T, h.Box("computer_person_fay").Stop(h.Context()))
	check(h.T, h.Runtime.DropDurable(h.Context(), "computer_person_fay"))
	h.exec(with, "cat /root/runs").want("run").notices()
}

// Two people of a room who begin at the same time have the set installed once, and run beside each other.
func testTwo(h *house) {
	_, err := h.Toolchain.PutTeam(h.Context(), operator, "web", enplace.PutTeam{People: []string{"gus", "hal"}})
	check(h.T, err)
	in := h.Room("web", "web", true)
	h.Attach("team:web", "own", toolchaintest.Item("own", runs, ""))
	var group sync.WaitGroup
	for _, login := range []string{"gus", "hal"} {
		group.Go(func() {
			res, err := h.computers.Exec(h.Context(), toolchaintest.Person(login), in, enplace.ConversationExec{
				ExecRequest: shell("touch /root/"+login+"; until [ -e /root/gus -a -e /root/hal ]; do sleep 0.05; done; cat /root/runs", 0)}, nil)
			if err != nil || res.Stdout != "run\n" || len(res.Notices) > 0 {
				h.Errorf("%s: %+v, %v", login, res, err)
			}
		})
	}
	group.Wait()
	if _, err := h.computers.Exec(h.Context(), toolchaintest.Person("ann"), in, enplace.ConversationExec{ExecRequest: shell("true", 0)}, nil); enplace.KindOf(err) != enplace.KindNotFound {
		h.Errorf("somebody of no team of the room ran a command: %v", err)
	}
}

// A terminal has the variables of its conversation, the keychain's among them, and starts at home.
func testTerminal(h *house) {
	with := h.Direct("ivy")
	_, err := h.Toolchain.PutSecret(h.Context(), operator, "person:ivy", "TOKEN", enplace.PutSecret{Value: "for-terminals-too"})
	check(h.T, err)
	h.Attach("person:ivy", "own", toolchaintest.Item("own", runs, ""))
	ctx, cancel := context.WithTimeout(h.Context(), patience)
	defer cancel()
	conn, err := h.computers.Dial(ctx, toolchaintest.Person("ivy"), with)
	check(h.T, err)
	sc, chans, reqs, err := ssh.NewClientConn(conn, "computer", &ssh.ClientConfig{User: "root", HostKeyCallback: ssh.InsecureIgnoreHostKey()}) //nolint:gosec // the connection is the service's
	check(h.T, err)
	far := ssh.NewClient(sc, chans, reqs)
	defer far.Close()
	session, err := far.NewSession()
	check(h.T, err)
	var out bytes.Buffer
	session.Stdout = &out
	check(h.T, session.Run("echo $TOKEN $ENPLACE_SET; pwd; cat /root/runs; echo $PATH"))
	want := "for-terminals-too " + h.state(with).Hash + "\n/root\nrun\n" + enplace.ShimsDir + ":"
	if !strings.HasPrefix(out.String(), want) {
		h.Errorf("a terminal said %q, want %q", out.String(), want)
	}
	h.Clock.Advance(enplace.DefaultIdle)
	if !inside(h, "computer_person_ivy", "true") {
		h.Error("the computer stopped under a connection")
	}
	check(h.T, far.Close())
}

// Where as many computers run as may, the one that was used longest ago makes room, unless it is in use.
func TestRoom(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *computer.Config) { c.MaxRunning = 1 })
	first, second := h.Direct("ann"), h.Direct("bob")
	h.exec(first, "echo kept >/root/kept").want("")
	h.exec(second, "true").want("")
	began, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		_, err := h.computers.Exec(t.Context(), operator, second, enplace.ConversationExec{ExecRequest: shell("echo here; until [ -e /root/end ]; do sleep 0.05; done", 0)},
			func(enplace.ConversationEvent) error { close(began); return nil })
		if err != nil {
			t.Errorf("the command that was in the way: %v", err)
		}
	}()
	<-began
	if _, err := h.computers.Exec(t.Context(), operator, first, enplace.ConversationExec{ExecRequest: shell("true", 0)}, nil); enplace.KindOf(err) != enplace.KindBusy {
		t.Errorf("a computer beyond the limit: %v", err)
	}
	h.exec(second, "touch /root/end").want("")
	<-over
	h.exec(first, "cat /root/kept").want("kept")
}

// A command or a reset that came while the server settled what an earlier one left had its computer taken for one that is gone, or
// kept the server from starting.
func TestNothingHappensBeforeTheStart(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	with := h.Direct("ann")
	h.exec(with, "echo mine >/root/mine").want("")
	h.computers.Close()
	h.computers = computer.New(h.cfg)
	if err := h.computers.Reset(t.Context(), operator, "person:ann"); enplace.KindOf(err) != enplace.KindUnavailable {
		t.Errorf("a reset: %v", err)
	}
	if _, err := h.computers.Exec(t.Context(), operator, with, enplace.ConversationExec{ExecRequest: shell("true", 0)}, nil); enplace.KindOf(err) != enplace.KindUnavailable {
		t.Errorf("a command: %v", err)
	}
	check(t, h.computers.Start(t.Context()))
	h.exec(with, "cat /root/mine").want("mine")
}
