package computer_test

import (
	"testing"

	"enplace"
	"enplace/internal/toolchain/toolchaintest"
)

// Two items of a set gave one tool, the last in its order was run, and nothing said so. A lock is heard by the next command, though
// the set's hash and what is installed stay as they are.
func TestLockedItemsToolsAreRun(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	with := h.Direct("ann")
	h.Attach("organisation", "house", toolchaintest.Item("web-tools", "", "[tools]\n\"npm:semver\" = \"7.7.2\"\n[env]\nWHOSE = \"house\"\n"))
	h.Attach("person:ann", "own", toolchaintest.Item("own", "", "[tools]\n\"npm:semver\" = \"7.7.1\"\n[env]\nWHOSE = \"ann\"\n"))
	explained := func() (set enplace.ExplainedSet, overridden string) {
		t.Helper()
		set, err := h.computers.Explain(t.Context(), operator, with)
		check(t, err)
		for _, tool := range set.Tools {
			for _, by := range tool.Overridden {
				overridden += tool.Item + " by " + by.Item + " of " + string(by.Scope) + "\n"
			}
		}
		return set, overridden
	}
	const script = `semver --help | head -1; echo $WHOSE`
	h.exec(with, script).want("SemVer 7.7.1\nann")
	before, overridden := explained()
	if overridden != "web-tools by own of person:ann\n" {
		t.Errorf("overridden: %s", overridden)
	}
	lock := func(locked bool) {
		t.Helper()
		_, err := h.Toolchain.UpdateItem(t.Context(), operator, "organisation", "web-tools", enplace.UpdateItem{Locked: &locked})
		check(t, err)
	}
	lock(true)
	h.exec(with, script).want("SemVer 7.7.2\nhouse")
	h.restart()
	h.exec(with, script).want("SemVer 7.7.2\nhouse")
	after, overridden := explained()
	if overridden != "own by web-tools of organisation\n" || after.Hash != before.Hash {
		t.Errorf("overridden: %s of %s, which was %s", overridden, after.Hash, before.Hash)
	}
	lock(false)
	h.exec(with, script).want("SemVer 7.7.1\nann")
}
