package toolchain_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/toolchain/toolchaintest"
)

// A bundle that a source refuses is no failed one: it waits until the source lets itself be asked, and is built then.
func TestCase12BundleWaitsForTheWindow(t *testing.T) {
	h := toolchaintest.New(t)
	var asked atomic.Int32
	var hash, reason string
	l, err := net.Listen("tcp", toolchaintest.Address)
	check(t, err)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		rec, err := h.Store.Set(t.Context(), hash)
		if reason = rec.Bundle.Reason; err != nil {
			t.Error(err)
		}
	})}}
	server.Start()
	defer server.Close()
	with := h.Direct("ann")
	h.Attach("organisation", "org", toolchaintest.Item("fetch", "curl -sf "+server.URL+" || { echo 'API rate limit exceeded; retry-after: 2'; exit 1; }\n", ""))
	conv, err := h.Toolchain.Conversation(t.Context(), operator, access.Run, with)
	check(t, err)
	set, err := h.Toolchain.SetOf(t.Context(), conv)
	check(t, err)
	hash = set.Hash
	_, err = h.Toolchain.Use(t.Context(), set.Hash)
	check(t, err)
	b, err := h.Toolchain.WaitBundle(t.Context(), operator, set.Hash, toolchaintest.Patience)
	check(t, err)
	if b.Status != enplace.BundleReady || b.Reason != "" || asked.Load() != 2 {
		t.Errorf("after %d requests: %+v", asked.Load(), b)
	}
	if reason != "" {
		t.Errorf("while it is built again it waits: %s", reason)
	}
	if !strings.Contains(h.Logged(), "a bundle waits until a source lets itself be asked again") {
		t.Errorf("%s", h.Logged())
	}
}
