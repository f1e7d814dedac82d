package computer_test

import (
	"slices"
	"testing"

	"enplace"
	"enplace/internal/toolchain/toolchaintest"
)

// Every set that a computer had ever had was shown alike, oldest first, and an item that another definition had replaced was
// pending with the error of an earlier try.
func TestSetsThatConversationsHave(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	with := h.Direct("ann")
	get := func() []enplace.ComputerSet {
		t.Helper()
		c, err := h.computers.Get(t.Context(), operator, "person:ann")
		check(t, err)
		return c.Sets
	}
	p := h.Attach("person:ann", "own", toolchaintest.Item("own", "exit 1\n", ""))
	h.exec(with, "true").notices(enplace.NoticeFailed)
	first := get()
	if len(first) != 1 || !slices.Equal(first[0].Conversations, []string{with}) || first[0].UsedAt == nil {
		t.Errorf("%+v", first)
	}
	h.Sync(p, toolchaintest.Item("own", "true\n", ""))
	if sets := get(); len(sets) != 2 || !slices.Equal(sets[0].Conversations, []string{with}) || sets[0].Items[0].Status != enplace.ItemPending || sets[1].Conversations != nil {
		t.Errorf("a set that is not on the computer yet: %+v", sets)
	}
	h.exec(with, "true").notices()
	sets := get()
	if len(sets) != 2 || sets[0].Items[0].Status != enplace.ItemInstalled || sets[1].Hash != first[0].Hash {
		t.Fatalf("%+v", sets)
	}
	if old := sets[1].Items[0]; old.Status != enplace.ItemPending || old.Error != "" || old.ErrorTail != "" || sets[1].UsedAt == nil {
		t.Errorf("what was replaced: %+v, last used %v", old, sets[1].UsedAt)
	}
	h.restart()
	if again := get(); len(again) != 2 || again[1].UsedAt == nil || !again[1].UsedAt.Equal(*sets[1].UsedAt) {
		t.Errorf("after a restart: %+v", again)
	}
}
