package provision

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/internal/base/basetest"
	"enplace/internal/egress"
	"enplace/internal/mise"
	"enplace/internal/redact"
	"enplace/internal/sandbox"
	"enplace/internal/sandbox/oci"
	"enplace/internal/sandbox/sandboxtest"
)

// registries are what installations of these tests reach, wherever they stand.
var registries = []string{"registry.npmjs.org", "pypi.org", "files.pythonhosted.org", "deb.debian.org"}

// patience bounds every step of a test. It is no measure of speed.
const patience = 5 * time.Minute

// house starts boxes of the real base.
type house struct {
	rt   *oci.Runtime
	base enplace.Digest
	mise string
	more []enplace.Digest // over the base
}

func newHouse(t *testing.T) *house { return newHouseOn(t, "/etc/ssl/certs/ca-certificates.crt", nil) }

// newHouseOn is a house whose boxes trust other certificates, and where names stand elsewhere.
func newHouseOn(t *testing.T, certificates string, names *net.Resolver) *house {
	t.Helper()
	if os.Getuid() != 0 {
		sandboxtest.Absent(t, "sandboxes need root")
	}
	images, base := basetest.Open(t)
	dir, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	sandboxtest.BuildGuest(t, dir)
	rt, err := oci.New(t.Context(), oci.Config{Dir: filepath.Join(dir, "sandboxes"), Guest: dir, Images: images, CABundle: certificates, PoolMax: -1,
		Egress: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHosts: registries, Resolver: names, Logger: quiet}), Logger: quiet})
	if enplace.KindOf(err) == enplace.KindUnavailable {
		sandboxtest.Absent(t, "%v", err)
	}
	check(t, err)
	check(t, rt.Recover(t.Context(), func(string) bool { return false }))
	t.Cleanup(func() { check(t, rt.Close(context.Background())) })
	return &house{rt: rt, base: base.Digest, mise: base.Mise}
}

// box is a sandbox with a set on it.
type box struct {
	sandbox.Sandbox
	t    *testing.T
	h    *house
	have []enplace.InstalledItem
	log  bytes.Buffer
	told []enplace.InstalledItem // by Progress, of the last pass
}

func (h *house) start(t *testing.T, id string, policy enplace.EgressPolicy, disk int) *box {
	t.Helper()
	limits := enplace.DefaultComputerLimits
	limits.DiskMiB = disk
	b, err := h.rt.Start(t.Context(), sandbox.Spec{ID: id, Root: append([]enplace.Digest{h.base}, h.more...), Limits: limits, Egress: enplace.Egress{Policy: policy}})
	check(t, err)
	t.Cleanup(func() { check(t, b.Stop(context.Background())) })
	return &box{Sandbox: b, t: t, h: h}
}

// in gives the box to a part of a test.
func (b *box) in(t *testing.T) *box {
	b.t = t
	return b
}

// newItem makes an item of a mise.toml and a setup.sh, either of which may be "".
func newItem(scope enplace.Scope, key, miseTOML, script string) enplace.Item {
	d := enplace.Definition{Key: key, Name: key, Description: "for a test", Files: []enplace.ItemFile{{Path: "environment.json", Content: "{}"}}}
	if miseTOML != "" {
		d.Files = append(d.Files, enplace.ItemFile{Path: enplace.ItemMiseName, Content: miseTOML})
		d.Tools, _ = mise.Check(miseTOML)
	}
	if script != "" {
		d.Files = append(d.Files, enplace.ItemFile{Path: enplace.ItemScriptName, Content: script})
	}
	return enplace.Item{Definition: d, Scope: scope, Mode: enplace.ItemAdded, Enabled: true}
}

var (
	org    = enplace.Organisation
	team   = enplace.TeamScope("web")
	person = enplace.PersonScope("ada")
)

// job gives a job for a set of items.
func (b *box) job(items ...enplace.Item) Job {
	b.t.Helper()
	b.log.Reset()
	b.told = nil
	hide := redact.New()
	return Job{
		Set:  enplace.ResolveSet(enplace.SetInput{Chain: enplace.NewChain("web", "ada"), Items: items, Base: b.h.base, Arch: "amd64", Mise: b.h.mise}),
		Have: b.have, Log: &b.log, Timeout: patience, Default: true,
		Redact:   func(s string) string { return string(hide.Bytes([]byte(s))) },
		Progress: func(i enplace.InstalledItem) { b.told = append(b.told, i) },
	}
}

// apply applies a job and keeps how the items stand for the next one.
func (b *box) apply(j Job) Result {
	b.t.Helper()
	return b.passed(Apply(b.t.Context(), b, j))
}

func (b *box) passed(r Result, err error) Result {
	b.t.Helper()
	check(b.t, err)
	b.have = r.Items
	b.t.Cleanup(func() {
		if b.t.Failed() {
			b.t.Logf("log:\n%s", tailOf(b.log.String(), 6<<10))
		}
	})
	return r
}

// sh runs a script as a command of the box, with the shims first on PATH.
func (b *box) sh(script string) (string, int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	exit, err := b.Exec(ctx, sandbox.Command{Argv: []string{"/bin/bash", "-c", script}, Env: sandbox.Env([]string{enplace.ShimsDir}, map[string]string{"NODE_NO_WARNINGS": "1"}), Dir: enplace.HomeDir, Stdout: &out, Stderr: &out})
	check(b.t, err)
	return strings.TrimSpace(out.String()), exit.Code
}

// says runs a script that must succeed with that output.
func (b *box) says(script, want string) {
	b.t.Helper()
	if out, code := b.sh(script); code != 0 || out != want {
		b.t.Errorf("%s: status %d, %q; want %q", script, code, out, want)
	}
}

// stands checks the status of each item, in the set's order.
func (r Result) stands(t *testing.T, want ...enplace.ItemStatus) {
	t.Helper()
	var got []enplace.ItemStatus
	for _, i := range r.Items {
		got = append(got, i.Status)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("items stand as %v, want %v\n%+v", got, want, r.Items)
	}
}

func has(t *testing.T, what, part string) {
	t.Helper()
	if !strings.Contains(what, part) {
		t.Errorf("%q does not say %q", what, part)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
