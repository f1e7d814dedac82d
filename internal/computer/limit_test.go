package computer_test

import (
	"testing"
	"time"

	"enplace"
	"enplace/internal/toolchain/toolchaintest"
)

// Who is told to come back in half an hour does not come back after five minutes.
func TestCase12RetryWaitsForTheWindow(t *testing.T) {
	h := newHouse(t)
	with := h.Direct("ann")
	h.Attach("person:ann", "own", toolchaintest.Item("limited", runs+"echo 'API rate limit exceeded; retry-after: 1800' >&2; exit 1\n", ""))
	h.exec(with, "cat /root/runs").want("run").notices(enplace.NoticeFailed)
	state := h.state(with)
	if wait := state.RetryAt.Sub(h.Clock.Now()); wait < 29*time.Minute || wait > 33*time.Minute {
		t.Errorf("it is tried again after %s", wait)
	}
	h.Clock.Advance(6 * time.Minute)
	h.exec(with, "cat /root/runs").want("run")
	if again := h.state(with); again.Attempts != state.Attempts {
		t.Errorf("it was tried %d times within the window", again.Attempts)
	}
}
