package computer_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/internal/computer"
	"enplace/internal/sandbox/sandboxtest"
	"enplace/internal/store"
	"enplace/internal/toolchain/toolchaintest"
)

func TestReports(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Attach("organisation", "org", toolchaintest.Item("bad", "echo broken; exit 1\n", ""))
	for name, test := range map[string]func(*house){
		"TwoAtOnce": testTwoReports, "ClientThatLeaves": testLeaves, "SeveralTools": testSeveralTools,
	} {
		t.Run(name, func(t *testing.T) { h.part(t, test) })
	}
}

// Of two commands that run beside each other, the one that ends first tells what failed.
func testTwoReports(h *house) {
	with := h.Direct("ann")
	ended := make(chan string, 2)
	var group sync.WaitGroup
	run := func(name, script string) {
		group.Go(func() {
			res, err := h.computers.Exec(h.Context(), operator, with, enplace.ConversationExec{ExecRequest: shell(script, 0)}, nil)
			if err != nil || res.ExitCode != 0 {
				h.Errorf("%s: %+v, %v", name, res, err)
			}
			for _, n := range res.Notices {
				ended <- name + " " + string(n.Kind)
			}
		})
	}
	run("first", "touch /root/a; until [ -e /root/b ]; do sleep 0.05; done")
	run("second", "until [ -e /root/a ]; do sleep 0.05; done; touch /root/b; until [ -e /root/end ]; do sleep 0.05; done")
	if got := <-ended; got != "first failed_items" {
		h.Errorf("the command that ended first: %s", got)
	}
	h.exec(with, "touch /root/end").notices()
	group.Wait()
	if len(ended) > 0 {
		h.Errorf("told again: %s", <-ended)
	}
	var both []enplace.Notice
	var mu sync.Mutex
	other := h.Direct("abe")
	for range 8 {
		group.Go(func() {
			res, err := h.computers.Exec(h.Context(), operator, other, enplace.ConversationExec{ExecRequest: shell("true", 0)}, nil)
			if err != nil {
				h.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			both = append(both, res.Notices...)
		})
	}
	group.Wait()
	if len(both) != 1 {
		h.Errorf("eight commands at once: %+v", both)
	}
}

// A command whose client leaves is killed, and has told nobody. One that is killed at its deadline has an answer, which tells.
func testLeaves(h *house) {
	with := h.Direct("bob")
	left := errors.New("the client left")
	ctx, leave := context.WithCancelCause(h.Context())
	_, err := h.computers.Exec(ctx, operator, with, enplace.ConversationExec{ExecRequest: shell("echo here; sleep infinity", 0)}, func(e enplace.ConversationEvent) error {
		if e.Stream != "" {
			leave(left)
		}
		return nil
	})
	if !errors.Is(err, left) {
		h.Errorf("the command that was left: %v", err)
	}
	if o := h.execAs(operator, with, enplace.ConversationExec{ExecRequest: shell("sleep infinity", 1)}).notices(enplace.NoticeCommand, enplace.NoticeFailed); !o.TimedOut {
		h.Errorf("%+v", o)
	}
	h.exec(with, "true").notices()
}

// Each tool of an item that failed is named with its reason, and what an item that printed nothing failed of is said, too.
func testSeveralTools(h *house) {
	with := h.Direct("dan")
	h.Attach("person:dan", "own", toolchaintest.Item("tools", "", "[tools]\n\"npm:@enplace/none-such-1\" = \"1\"\n\"npm:semver\" = \"7.7.2\"\n\"npm:@enplace/none-such-2\" = \"1\"\n").
		With(toolchaintest.Item("quiet", "exit 7\n", "")))
	n := h.exec(with, "semver 1.2.3").want("1.2.3").notices(enplace.NoticeFailed).Notices[0]
	tails := map[string]string{}
	for _, i := range n.Items {
		tails[i.Key] = i.ErrorTail
		if len(i.ErrorTail) > enplace.MaxErrorTail {
			h.Errorf("%s: %d bytes", i.Key, len(i.ErrorTail))
		}
	}
	for key, parts := range map[string][]string{
		"bad": {"setup.sh ended with status 1\nbroken"}, "quiet": {"setup.sh ended with status 7"},
		"tools": {"npm:@enplace/none-such-1 could not be installed: ", "npm:@enplace/none-such-2 could not be installed: "},
	} {
		for _, part := range parts {
			if !strings.Contains(tails[key], part) {
				h.Errorf("%s says %q, and not %q", key, tails[key], part)
			}
		}
	}
	if strings.Contains(tails["tools"], "npm:semver could not") {
		h.Errorf("the tool that is there failed: %q", tails["tools"])
	}
}

// A server that is killed between the end of a command and its answer has lost no notice: that it was given is not in the record
// before.
func TestReportOfAKilledServer(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *computer.Config) { c.LookEvery = time.Hour })
	with := h.Direct("ann")
	h.Attach("person:ann", "own", toolchaintest.Item("bad", "exit 1\n", ""))
	h.exec(with, "true").notices(enplace.NoticeFailed)
	killed := h.record("person:ann")
	if len(killed.Reported) > 0 {
		t.Errorf("reported before the answer: %v", killed.Reported)
	}
	h.computers.Close()
	if rec := h.record("person:ann"); len(rec.Reported) != 1 {
		t.Errorf("a server that ended by itself kept %v", rec.Reported)
	}
	h.computers = computer.New(h.cfg)
	check(t, h.computers.Start(t.Context()))
	h.exec(with, "true").notices()

	h.computers.Close()
	_, err := h.Store.UpdateComputer(t.Context(), "person:ann", func(r *store.ComputerRecord) error {
		*r = killed
		return nil
	})
	check(t, err)
	h.computers = computer.New(h.cfg)
	check(t, h.computers.Start(t.Context()))
	h.exec(with, "true").notices(enplace.NoticeFailed)
	h.exec(with, "true").notices()
}

// A command that takes more memory than there is says so: its program could not.
func TestMemoryRunsOut(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *computer.Config) {
		c.Limits = enplace.DefaultComputerLimits
		c.Limits.MemoryMiB = 256
	})
	if !h.Runtime.Abilities().Memory {
		sandboxtest.Absent(t, "the cgroups of this host give no limit of memory")
	}
	with := h.Direct("ann")
	h.exec(with, "true").want("").notices()
	o := h.exec(with, "python3 -c 'print(len(bytearray(1 << 30)))'").notices(enplace.NoticeCommand)
	if o.ExitCode != 137 || len(o.Notices) != 1 || o.Notices[0].Message != "memory ran out, of 256 MiB, and a process was killed" {
		t.Errorf("exit %d, %+v", o.ExitCode, o.Notices)
	}
	h.exec(with, "exit 3").notices()
	h.exec(with, "echo alive").want("alive").notices()
}
