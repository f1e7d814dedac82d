package computer_test

import (
	"testing"

	"enplace/internal/toolchain/toolchaintest"
)

// mise uninstall saw the set's tools beside those that were installed inside, and removed them; implode removed mise itself, and
// no set could be installed on the computer any more.
func TestMiseInsideRemovesNothingOfTheSet(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	with := h.Direct("uma")
	h.Attach("person:uma", "own", toolchaintest.Item("tool", "", "[tools]\n\"npm:semver\" = \"7.7.2\"\n"))
	h.exec(with, "mise uninstall npm:semver@7.7.2 >&2; mise uninstall --all npm:semver >&2; semver 1.2.3").want("1.2.3")
	h.exec(with, "mise use npm:semver@7.7.1 >&2 && mise uninstall --all npm:semver >&2; mise unuse npm:semver >&2; semver 1.2.4").want("1.2.4")
	h.exec(with, "mise implode -y; mise self-update -y; mise --version >&2 && semver 1.2.5").want("1.2.5")
}
