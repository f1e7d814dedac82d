package computer_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"enplace"
	"enplace/internal/toolchain/toolchaintest"
)

// Who is told to come back in half an hour does not come back after five minutes.
func TestCase12RetryWaitsForTheWindow(t *testing.T) {
	t.Parallel()
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

// A computer that is older than its set installs directly, by what the bundle knows: other bytes than its are not taken.
func TestCase12SameBytesOnEveryComputer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var changed atomic.Bool
	l, err := net.Listen("tcp", toolchaintest.Address)
	check(t, err)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "#!/bin/sh\necho 1.0\n")
		if changed.Load() {
			_, _ = io.WriteString(w, "# and more\n")
		}
	})}}
	server.Start()
	defer server.Close()
	older := h.Direct("bob")
	h.exec(older, "true")
	h.Attach("organisation", "org", toolchaintest.Item("plain", "", "[tools]\n\"http:plain\" = { version = \"1.0\", url = \""+server.URL+"/plain\", bin = \"plain\" }\n"))
	h.exec(h.Direct("ann"), "plain").want("1.0").notices()
	bundle, err := h.Toolchain.WaitBundle(t.Context(), operator, h.state("with-ann").Hash, patience)
	check(t, err)
	from := bundle.Items[0].Tools[0].Source
	if bundle.Status != enplace.BundleReady || from == nil || from.URL != server.URL+"/plain" {
		t.Fatalf("%+v, from %+v", bundle, from)
	}
	changed.Store(true)
	if out := h.exec(older, "plain"); out.ExitCode != 127 || !strings.Contains(out.Stderr, "http:plain could not be installed: what is fetched is no longer what its first installation gave") {
		t.Errorf("exit %d, %q", out.ExitCode, out.Stderr)
	}
	changed.Store(false)
	_, err = h.computers.Retry(t.Context(), operator, h.state(older).Hash)
	check(t, err)
	h.until("the same bytes are installed", func() bool { return h.state(older).AppliedAt != nil })
	h.exec(older, "plain").want("1.0")
}
