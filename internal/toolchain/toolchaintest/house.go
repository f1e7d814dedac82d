// Package toolchaintest gives tests a toolchain service with everything real below it: a database, blobs, the base, sandboxes
// and a proxy. Package computer's tests stand on it too, which is why it is a package.
package toolchaintest

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/internal/audit"
	"enplace/internal/base"
	"enplace/internal/base/basetest"
	"enplace/internal/blob/dir"
	"enplace/internal/clone"
	"enplace/internal/egress"
	"enplace/internal/sandbox"
	"enplace/internal/sandbox/oci"
	"enplace/internal/sandbox/sandboxtest"
	"enplace/internal/seal"
	"enplace/internal/store/sqlite"
	"enplace/internal/toolchain"
)

// Patience bounds every step of a test. It is no measure of speed.
const Patience = 5 * time.Minute

// Address is where tests serve what sandboxes fetch: a loopback address that a sandbox does not take for its own.
const Address = "127.0.0.7:0"

// Operator is the caller who may do everything.
var Operator = enplace.Caller{Kind: enplace.KeyOperator}

// Person is the caller with the key of a person.
func Person(login string) enplace.Caller {
	return enplace.Caller{Kind: enplace.KeyPerson, Subject: login}
}

// House is a toolchain service and what it stands on.
type House struct {
	T         testing.TB
	Dir       string
	Store     *sqlite.Store
	Runtime   *oci.Runtime
	Base      base.Base
	Audit     *audit.Log
	Clock     *Clock
	Logger    *slog.Logger
	Toolchain *toolchain.Service

	said Said
	cfg  toolchain.Config
}

// Clock is a time that tests move.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now gives the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves it.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Said keeps what is logged.
type Said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *Said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *Said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// New makes a house and starts its service. The test is skipped where there can be no sandboxes.
func New(t testing.TB) *House {
	t.Helper()
	if os.Getuid() != 0 {
		sandboxtest.Absent(t, "sandboxes need root")
	}
	images, rec := basetest.Open(t)
	h := &House{T: t, Dir: t.TempDir(), Base: rec, Clock: &Clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	h.Logger = slog.New(slog.NewTextHandler(&h.said, nil))
	quiet := slog.New(slog.DiscardHandler)
	sandboxtest.BuildGuest(t, h.Dir)
	proxy := egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHosts: []string{"registry.npmjs.org"}, Logger: quiet})
	var err error
	h.Runtime, err = oci.New(t.Context(), oci.Config{Dir: filepath.Join(h.Dir, "sandboxes"), Guest: h.Dir, Images: images, Egress: proxy,
		CABundle: "/etc/ssl/certs/ca-certificates.crt", PoolMax: -1, Logger: quiet})
	if enplace.KindOf(err) == enplace.KindUnavailable {
		sandboxtest.Absent(t, "%v", err)
	}
	h.check(err)
	t.Cleanup(func() { h.check(h.Runtime.Close(context.Background())) })
	h.check(h.Runtime.Recover(t.Context(), func(string) bool { return false }))
	if !h.Runtime.Abilities().Durable {
		sandboxtest.Absent(t, "there are no durable volumes here")
	}
	h.Store, err = sqlite.Open(t.Context(), filepath.Join(h.Dir, "enplace.db"))
	h.check(err)
	t.Cleanup(func() { h.check(h.Store.Close()) })
	blobs, err := dir.Open(filepath.Join(h.Dir, "blobs"))
	h.check(err)
	t.Cleanup(func() { h.check(blobs.Close()) })
	sealer, err := seal.Open(filepath.Join(h.Dir, "keychain.key"))
	h.check(err)
	h.Audit = audit.New(h.Store, quiet, h.Clock.Now)
	here := func() (base.Base, bool) { return rec, true }
	h.cfg = toolchain.Config{
		Store: h.Store, Blobs: blobs, Runtime: h.Runtime, Base: here, Sealer: sealer, Audit: h.Audit, Logger: h.Logger, Now: h.Clock.Now,
		LogDir: filepath.Join(h.Dir, "logs", "sets"), Scratch: t.TempDir(), SyncEvery: -1,
		Git: clone.New(clone.Config{Runtime: h.Runtime, Egress: enplace.Egress{Policy: enplace.EgressOpen}, AllowHTTP: true, Logger: quiet, Now: time.Now,
			Base: func() (enplace.Digest, bool) { return rec.Digest, true }}),
	}
	h.Restart()
	t.Cleanup(func() { h.Toolchain.Close() })
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logged:\n%s", h.said.String())
		}
	})
	return h
}

// Restart closes the service, if there is one, and starts another on the same data.
func (h *House) Restart() {
	h.T.Helper()
	if h.Toolchain != nil {
		h.Toolchain.Close()
	}
	h.Toolchain = toolchain.New(h.cfg)
	h.check(h.Toolchain.Start(h.T.Context()))
}

// Logged gives what the services logged.
func (h *House) Logged() string { return h.said.String() }

func (h *House) check(err error) {
	h.T.Helper()
	if err != nil {
		h.T.Fatal(err)
	}
}

// In has a part of a test fail for what goes wrong in it, until the function given is called. Parts are one after another.
func (h *House) In(t testing.TB) (back func()) {
	whole := h.T
	h.T = t
	return func() { h.T = whole }
}

// Files are the files of a plugin below its environments folder, or below the plugin's own for a name that begins with a slash.
type Files map[string]string

// Item gives the files of an item with a setup.sh, a mise.toml or both; "" for none.
func Item(key, script, mise string) Files {
	f := Files{key + "/environment.json": `{"name": "` + key + `", "description": "For a test."}`}
	if script != "" {
		f[key+"/setup.sh"] = "#!/bin/bash\n" + script
	}
	if mise != "" {
		f[key+"/mise.toml"] = mise
	}
	return f
}

// With adds the files of others.
func (f Files) With(more ...Files) Files {
	all := maps.Clone(f)
	for _, m := range more {
		maps.Copy(all, m)
	}
	return all
}

// Archive packs the files as those of a plugin.
func (f Files) Archive() io.Reader {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		at, own := strings.CutPrefix(name, "/")
		if !own {
			at = "environments/" + name
		}
		_ = w.WriteHeader(&tar.Header{Name: at, Mode: 0o644, Size: int64(len(f[name]))}) // into memory
		_, _ = io.WriteString(w, f[name])
	}
	_ = w.Close()
	return &b
}

// Attach attaches a plugin with these files to a scope, as the operator.
func (h *House) Attach(scope enplace.Scope, name string, f Files) enplace.Plugin {
	h.T.Helper()
	p, err := h.Toolchain.CreatePluginArchive(h.T.Context(), Operator, scope, name, f.Archive())
	h.check(err)
	return p
}

// Sync gives a plugin new files, as the operator.
func (h *House) Sync(p enplace.Plugin, f Files) enplace.Plugin {
	h.T.Helper()
	p, err := h.Toolchain.SyncPlugin(h.T.Context(), Operator, p.ID, f.Archive())
	h.check(err)
	return p
}

// Direct makes a person with a direct conversation, and gives the conversation's id.
func (h *House) Direct(login string) string {
	h.T.Helper()
	_, err := h.Toolchain.PutPerson(h.T.Context(), Operator, login)
	h.check(err)
	id := "with-" + strings.ReplaceAll(login, ".", "-")
	_, err = h.Toolchain.PutConversation(h.T.Context(), Operator, id, enplace.PutConversation{Kind: enplace.ConversationDirect, Person: login})
	h.check(err)
	return id
}

// Room makes a room of a team, or of the organisation for "", with a conversation, and gives the conversation's id.
func (h *House) Room(name, team string, internal bool) string {
	h.T.Helper()
	_, err := h.Toolchain.PutRoom(h.T.Context(), Operator, name, enplace.PutRoom{Team: team, Internal: internal})
	h.check(err)
	_, err = h.Toolchain.PutConversation(h.T.Context(), Operator, "in-"+name, enplace.PutConversation{Kind: enplace.ConversationRoom, Room: name})
	h.check(err)
	return "in-" + name
}

// Box gives the running sandbox of a computer.
func (h *House) Box(id string) sandbox.Sandbox {
	h.T.Helper()
	box, err := h.Runtime.Get(id)
	h.check(err)
	return box
}
