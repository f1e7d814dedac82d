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
