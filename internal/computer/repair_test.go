package computer_test

import (
	"testing"

	"enplace/internal/toolchain/toolchaintest"
)

// A shim whose program is gone asks for a retry of the set, and the retry passed over every computer where the set was in place: only
// a reset, which removes all files, gave the tool back.
func TestRetryInstallsWhatWasRemovedInside(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	with := h.Direct("rio")
	h.Attach("person:rio", "own", toolchaintest.Item("tool", "", "[tools]\n\"npm:semver\" = \"7.7.2\"\n"))
	h.exec(with, "semver 1.2.3").want("1.2.3")
	h.exec(with, "rm -r /opt/mise/shims /opt/mise/installs/npm-semver/7.7.2; semver 1.2.3; echo $?").want("127")
	n, err := h.computers.Retry(h.Context(), toolchaintest.Person("rio"), h.state(with).Hash)
	check(h.T, err)
	if n != 1 {
		t.Errorf("tried again on %d computers", n)
	}
	h.exec(with, "semver 1.2.3").want("1.2.3").notices()
}
