package computer_test

import (
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/internal/toolchain/toolchaintest"
)

// When what failed is tried again stands with the computer, with the conversation's set and in the notice, also where a person's
// command has put it forward, and while it is tried: only the computer said it once, and that as of the last failure.
func TestNextTryIsTold(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	with := h.Direct("ann")
	h.Attach("person:ann", "own", toolchaintest.Item("bad", "if [ -e /root/hang ]; then touch /root/trying; sync; sleep infinity; fi\nexit 1\n", ""))
	said := func() time.Time {
		t.Helper()
		set, err := h.computers.Set(t.Context(), operator, with)
		check(t, err)
		c, err := h.computers.Get(t.Context(), operator, "person:ann")
		check(t, err)
		if set.RetryAt == nil || c.Sets[0].RetryAt == nil || !set.RetryAt.Equal(*c.Sets[0].RetryAt) {
			t.Fatalf("the set says %v and the computer %v", set.RetryAt, c.Sets[0].RetryAt)
		}
		return *set.RetryAt
	}
	told := h.exec(with, "touch /root/hang").notices(enplace.NoticeFailed).Notices[0]
	due := h.Clock.Now().Add(enplace.FailedRetry).UTC()
	if told.RetryAt == nil || !told.RetryAt.Equal(due) || !strings.Contains(told.Message, "at "+due.Format(time.TimeOnly)+" UTC") || !said().Equal(due) {
		t.Errorf("told %+v; the set is tried again at %s, should be %s", told, said(), due)
	}
	h.execAs(toolchaintest.Person("ann"), with, enplace.ConversationExec{ExecRequest: shell("true", 0), Trigger: enplace.TriggerPerson})
	if sooner := h.Clock.Now().Add(enplace.LiveRetry); !said().Equal(sooner) {
		t.Errorf("after a person's command it is tried again at %s, should be %s", said(), sooner)
	}
	h.Clock.Advance(enplace.LiveRetry)
	h.until("the retry to begin", func() bool { return inside(h, "computer_person_ann", "test -e /root/trying") })
	if at := said(); at.After(h.Clock.Now()) {
		t.Errorf("while it is tried it is to be tried at %s", at)
	}
}

// The notice named a time alone, though a person's next command has what failed tried again sooner.
func TestNoticeSaysWhoseCommandComesSooner(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Attach("organisation", "org", toolchaintest.Item("bad", "exit 1\n", ""))
	for _, c := range []struct {
		with   string
		run    func(conversation, script string) outcome
		sooner bool
	}{
		{h.Direct("ann"), h.live, true},
		{h.Direct("bob"), h.exec, false},
		{h.Room("inside", "", true), h.live, true},
		{h.Room("outside", "", false), h.live, false},
	} {
		told := c.run(c.with, "true").notices(enplace.NoticeFailed).Notices[0].Message
		if strings.HasSuffix(told, " UTC, or soon after your next command") != c.sooner || !c.sooner && !strings.HasSuffix(told, " UTC") {
			t.Errorf("%s: %s", c.with, told)
		}
	}
}

// A set that failed before the computer was started for another one was tried again by no clock, though its conversation used it;
// and one that had no place any more was said to be tried for ever.
func TestNextTryOfSetsThatDidNotStartTheComputer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, err := h.Toolchain.PutPerson(t.Context(), operator, "kim")
	check(t, err)
	for _, team := range []string{"one", "two"} {
		_, err := h.Toolchain.PutTeam(t.Context(), operator, team, enplace.PutTeam{People: []string{"kim"}})
		check(t, err)
	}
	for _, team := range []string{"one", "two"} {
		_, err = h.Toolchain.PutConversation(t.Context(), operator, team, enplace.PutConversation{Kind: enplace.ConversationDirect, Person: "kim", Team: team})
		check(t, err)
	}
	one := h.Attach("team:one", "own", toolchaintest.Item("bad", "exit 1\n", ""))
	h.Attach("team:two", "own", toolchaintest.Item("worse", "test -e /root/mended\n", ""))
	h.exec("one", "true").notices(enplace.NoticeFailed)
	h.exec("two", "true").notices(enplace.NoticeFailed)
	h.restart()
	h.exec("one", "touch /root/mended")
	before := h.state("one").Hash
	h.exec("two", "true")
	h.Clock.Advance(enplace.FailedRetry)
	h.until("the retry of the set that did not start the computer", func() bool { return h.state("two").AppliedAt != nil })

	h.Sync(one, toolchaintest.Item("bad", "exit 2\n", ""))
	h.exec("one", "true").notices(enplace.NoticeFailed)
	c, err := h.computers.Get(t.Context(), operator, "person:kim")
	check(t, err)
	for _, set := range c.Sets {
		if waits := set.Hash == h.state("one").Hash; set.Hash == before && set.RetryAt != nil || waits && set.RetryAt == nil {
			t.Errorf("the set %s, of %s before, is tried again at %v", set.Hash, before, set.RetryAt)
		}
	}
}
