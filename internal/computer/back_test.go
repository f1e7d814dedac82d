package computer_test

import (
	"fmt"
	"testing"

	"enplace/internal/toolchain/toolchaintest"
)

// What is declared goes back to what it was, by another definition and by a choice: the computer has the earlier set on record,
// and something else in its place.
func TestBackToAnEarlierSet(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	with := h.Direct("ann")
	version := func(n int) toolchaintest.Files {
		return toolchaintest.Item("own", fmt.Sprintf("echo %d >/root/version\n", n), "")
	}
	p := h.Attach("person:ann", "own", version(1))
	for _, n := range []int{1, 2, 1, 2} {
		h.Sync(p, version(n))
		h.exec(with, "cat /root/version /opt/mise/enplace/default").want(fmt.Sprintf("%d\n%s", n, h.state(with).Hash)).notices()
	}
	h.Attach("person:ann", "other", toolchaintest.Item("other", "true\n", ""))
	named := func() { h.exec(with, "cat /opt/mise/enplace/default").want(h.state(with).Hash).notices() }
	named()
	h.Sync(p, version(2).With(toolchaintest.Item("more", "true\n", "")))
	named()
	h.Sync(p, version(2))
	named()
}
