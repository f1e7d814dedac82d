package computer_test

import (
	"testing"

	"enplace/internal/toolchain/toolchaintest"
)

// What stands below [env] counts for an item that has a script and no tools, too, and _.path puts folders on PATH, those of the
// nearer item first: for commands and for the scripts of later items.
func TestVariablesOfItems(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	with := h.Direct("ann")
	program := func(dir, name, says string) string {
		return "mkdir -p " + dir + "; printf '#!/bin/sh\\necho " + says + " $STYLE\\n' >" + dir + "/" + name + "; chmod +x " + dir + "/" + name + "\n"
	}
	h.Attach("organisation", "house", toolchaintest.Item("house", program("/opt/house/bin", "whose", "house")+program("/opt/house/bin", "tidy", "tidied"),
		"[env]\nSTYLE = \"plain\"\n_.path = [\"/opt/house/bin\", \"/opt/gone\"]\n"))
	h.Attach("person:ann", "own", toolchaintest.Item("own", "tidy >/root/tidied\n"+program("/opt/own/bin", "whose", "ann"),
		"[env]\n_.path = \"/opt/own/bin\"\n"))
	h.exec(with, `whose; tidy; cat /root/tidied; case $PATH in /opt/mise/shims:/opt/own/bin:/opt/house/bin:/opt/gone:/usr/local/sbin:*) ;; *) echo "$PATH" ;; esac`).
		want("ann plain\ntidied plain\ntidied plain").notices()
}
