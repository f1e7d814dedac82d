package computer_test

import (
	"testing"

	"enplace"
	"enplace/internal/toolchain/toolchaintest"
)

func TestRetries(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for name, test := range map[string]func(*house){
		"BesideTheCommand": testBeside, "AwaitedAfterAWhile": testAwaited, "BackToAnEarlierPolicy": testPolicyAndBack, "AskedForMeanwhile": testAskedMeanwhile,
		"SourceThatRefuses": testRefuses,
	} {
		t.Run(name, func(t *testing.T) { h.part(t, test) })
	}
}

// live runs a shell's script as a person's.
func (h *house) live(conversation, script string) outcome {
	h.T.Helper()
	return h.execAs(operator, conversation, enplace.ConversationExec{ExecRequest: shell(script, 0), Trigger: enplace.TriggerPerson})
}

// atOnce checks that a command waited for nothing.
func (o outcome) atOnce() outcome {
	o.t.Helper()
	if len(o.progress) > 0 {
		o.t.Errorf("the command waited: %v", o.progress)
	}
	return o
}

// An item that is broken and stays so is tried again for a person's command, and holds up neither that nor the next.
func testBeside(h *house) {
	with := h.Direct("ann")
	h.Attach("person:ann", "own", toolchaintest.Item("bad", "if [ -e /root/slow ]; then touch /root/begun; until [ -e /root/end ]; do sleep 0.05; done; fi; exit 1\n", ""))
	h.live(with, "touch /root/slow").notices(enplace.NoticeFailed)
	h.live(with, "true").notices().atOnce()
	if got := h.state(with); got.Attempts != 1 || got.Items[0].Status != enplace.ItemFailed {
		h.Errorf("tried again a moment later: %+v", got)
	}
	h.Clock.Advance(enplace.LiveRetry)
	h.until("the retry that the command before asked for", func() bool { return inside(h, "computer_person_ann", "test -e /root/begun") })
	for range 2 {
		h.live(with, "test ! -e /root/end").want("").notices().atOnce()
		h.exec(with, "true").want("").notices().atOnce()
	}
	if got := h.state(with).Items[0]; got.Status != enplace.ItemInstalling || got.Error == "" {
		h.Errorf("while it is tried again: %+v", got)
	}
	h.exec(with, "touch /root/end")
	h.until("the retry to end", func() bool { return h.state(with).Attempts == 2 })

	h.exec(with, "rm /root/end /root/begun")
	h.Clock.Advance(enplace.LiveRetry)
	h.until("the retry that a command starts, once the last one is over", func() bool {
		h.live(with, "true").notices().atOnce()
		return inside(h, "computer_person_ann", "test -e /root/begun")
	})
	h.exec(with, "touch /root/end").notices().atOnce()
	h.until("the retry to end", func() bool { return h.state(with).Attempts == 3 })
	h.until("one entry of three failures", func() bool { // written behind the record
		log, err := h.computers.Errors(h.Context(), operator, "person:ann", enplace.Page{})
		check(h.T, err)
		return len(log.Items) == 1 && log.Items[0].Count == 3 && log.Items[0].Attempt == 3
	})
}

// What was mended where no definition says so is seen by the very command that asks for it, when the last try is not of just now.
func testAwaited(h *house) {
	with := h.Direct("bob")
	h.Attach("person:bob", "own", toolchaintest.Item("bad", "test -e /root/mended && echo fine >/root/fine\n", ""))
	h.exec(with, "touch /root/mended").notices(enplace.NoticeFailed)
	h.Clock.Advance(enplace.AwaitedRetry)
	h.exec(with, "ls /root/fine 2>/dev/null || echo none").want("none")
	h.live(with, "cat /root/fine").want("fine").notices()
}

// The policy changes and changes back: the set of before is tried at once, whoever's command comes.
func testPolicyAndBack(h *house) {
	with := h.Direct("cid")
	h.Attach("person:cid", "own", toolchaintest.Item("bad", "test -e /root/mended && echo fine >/root/fine\n", ""))
	h.exec(with, "true").notices(enplace.NoticeFailed)
	first := h.state(with).Hash
	check(h.T, h.Toolchain.PutEgress(h.Context(), operator, "person:cid", &enplace.Egress{Policy: enplace.EgressNone}))
	h.exec(with, "true").notices(enplace.NoticeFailed)
	h.exec(with, "touch /root/mended; ls /root/fine 2>/dev/null || echo none").want("none").notices().atOnce()
	check(h.T, h.Toolchain.PutEgress(h.Context(), operator, "person:cid", nil))
	h.exec(with, "cat /root/fine").want("fine").notices()
	if got := h.state(with).Hash; got != first {
		h.Errorf("the set is %s and was %s", got, first)
	}
}

// A retry that is asked for while the set is tried, behind the item that was mended, is not lost.
func testAskedMeanwhile(h *house) {
	with := h.Direct("dan")
	h.Attach("person:dan", "own", toolchaintest.Item("bad", "test -e /root/mended\n", "").
		With(toolchaintest.Item("later", "touch /root/begun; until [ -e /root/end ]; do sleep 0.05; done\n", "")))
	h.execAs(operator, with, enplace.ConversationExec{ExecRequest: shell("true", 2)}).notices(enplace.NoticeInstalling, enplace.NoticeFailed)
	if !inside(h, "computer_person_dan", "until [ -e /root/begun ]; do sleep 0.05; done; touch /root/mended") {
		h.Fatal("the later item was not begun")
	}
	n, err := h.computers.Retry(h.Context(), operator, h.state(with).Hash)
	check(h.T, err)
	if n != 1 {
		h.Errorf("tried again on %d computers", n)
	}
	if !inside(h, "computer_person_dan", "touch /root/end") {
		h.Fatal("the computer is gone")
	}
	h.until("the retry that was asked for", func() bool { return h.state(with).AppliedAt != nil })
	if got := h.state(with).Attempts; got != 2 {
		h.Errorf("%d attempts", got)
	}
}

// A source that says when it wants to be asked again is not asked by each command of a person meanwhile.
func testRefuses(h *house) {
	with := h.Direct("eve")
	h.Attach("person:eve", "own", toolchaintest.Item("limited", "echo 'API rate limit exceeded; retry-after: 1800' >&2; exit 1\n", ""))
	h.exec(with, "true").notices(enplace.NoticeFailed)
	for _, tries := range []int{1, 1, 2} {
		h.Clock.Advance(enplace.AwaitedRetry + enplace.LiveRetry)
		if tries > 1 {
			h.Clock.Advance(enplace.FailedRetry)
		}
		h.live(with, "true").notices()
		if got := h.state(with).Attempts; got != tries {
			h.Errorf("%d tries, want %d", got, tries)
		}
	}
}
