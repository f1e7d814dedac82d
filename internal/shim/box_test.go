package shim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/internal/base/basetest"
	"enplace/internal/egress"
	"enplace/internal/guest"
	"enplace/internal/image"
	"enplace/internal/sandbox"
	"enplace/internal/sandbox/oci"
	"enplace/internal/sandbox/sandboxtest"
	"enplace/internal/shim"
)

// patience bounds every command of a test. It is no measure of speed.
const patience = 3 * time.Minute

// box is a real sandbox of the real base, whose guest and shims are those of this tree.
type box struct {
	sandbox.Sandbox
	rt     sandbox.Runtime
	images *image.Store
	spec   sandbox.Spec
}

func newBox(t testing.TB) *box {
	t.Helper()
	images, base := basetest.Open(t)
	dir, quiet := t.TempDir(), slog.New(slog.DiscardHandler)
	sandboxtest.BuildGuest(t, dir)
	rt, err := oci.New(t.Context(), oci.Config{Dir: filepath.Join(dir, "sandboxes"), Guest: dir, Images: images, PoolMax: -1,
		CABundle: "/etc/ssl/certs/ca-certificates.crt", Logger: quiet,
		Egress: egress.New(egress.Config{AllowHosts: []string{"registry.npmjs.org"}, Logger: quiet})})
	check(t, err)
	check(t, rt.Recover(t.Context(), func(string) bool { return false }))
	t.Cleanup(func() { check(t, rt.Close(context.Background())) })
	b := &box{rt: rt, images: images, spec: sandbox.Spec{ID: "shims", Root: []enplace.Digest{base.Digest}, Limits: enplace.DefaultComputerLimits,
		Egress: enplace.Egress{Policy: enplace.EgressOpen}}}
	if rt.Abilities().Durable {
		b.spec.Durable = "shims"
	}
	b.start(t)
	return b
}

func (b *box) start(t testing.TB) {
	t.Helper()
	s, err := b.rt.Start(t.Context(), b.spec)
	check(t, err)
	b.Sandbox = s
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// result is what a command gave.
type result struct {
	guest.Exit
	out, err string
}

// env is what a command of a conversation with that set gets.
func env(set string, more ...string) []string {
	e := sandbox.Env([]string{shim.Default.Shims()}, map[string]string{"HOME": "/root"})
	if set != "" {
		e = append(e, shim.SetVar+"="+set)
	}
	return append(e, more...)
}

func (b *box) exec(t testing.TB, env []string, stdin string, argv ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	var in io.Reader
	if stdin != "" {
		in = strings.NewReader(stdin)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exit, err := b.Exec(ctx, sandbox.Command{Argv: argv, Env: env, Dir: "/root", Stdin: in, Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatalf("running %q: %v", argv, err)
	}
	return result{exit, out.String(), errs.String()}
}

// sh runs a script of a conversation with that set.
func (b *box) sh(t testing.TB, set, script string) result {
	t.Helper()
	return b.exec(t, env(set), "", "/bin/bash", "-c", script)
}

// must runs a script that has to succeed, and gives what it printed.
func (b *box) must(t testing.TB, set, script string) string {
	t.Helper()
	r := b.sh(t, set, script)
	if r.Code != 0 {
		t.Fatalf("%s: exit %d\n%s%s", script, r.Code, r.out, r.err)
	}
	return strings.TrimSpace(r.out)
}

// want runs a script that has to succeed with that output.
func (b *box) want(t testing.TB, set, script, out string) {
	t.Helper()
	if got := b.must(t, set, script); got != out {
		t.Errorf("%s: %q; want %q", script, got, out)
	}
}

// refused runs a script that has to fail like a shell does where there is no program, with one line that holds each of these.
func (b *box) refused(t testing.TB, set, script string, says ...string) {
	t.Helper()
	r := b.sh(t, set, script)
	wantRefusal(t, script, r, says...)
}

func wantRefusal(t testing.TB, what string, r result, says ...string) {
	t.Helper()
	if r.Code != 127 || r.out != "" || !strings.HasPrefix(r.err, "enplace: ") || strings.Count(r.err, "\n") != 1 {
		t.Errorf("%s: exit %d, output %q, errors %q; want 127 and one line", what, r.Code, r.out, r.err)
	}
	for _, s := range says {
		if !strings.Contains(r.err, s) {
			t.Errorf("%s: said %q, which does not hold %q", what, r.err, s)
		}
	}
}

// program writes an executable script inside.
func (b *box) program(t testing.TB, path, script string) string {
	t.Helper()
	r := b.exec(t, sandbox.BaseEnv(), script, "/bin/bash", "-c", `mkdir -p "$(dirname "$1")" && cat >"$1" && chmod 755 "$1"`, "-", path)
	if r.Code != 0 {
		t.Fatalf("writing %s: %s", path, r.err)
	}
	return path
}

// write writes an index as the host does.
func (b *box) write(t testing.TB, i guest.ShimIndex) guest.WrittenShims {
	t.Helper()
	return b.shims(t, guest.WriteShims(i))
}

func (b *box) shims(t testing.TB, c guest.Command) (w guest.WrittenShims) {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	exit, err := b.Exec(t.Context(), c)
	check(t, err)
	if exit.Code != 0 {
		t.Fatalf("writing shims: exit %d: %s", exit.Code, errs.String())
	}
	check(t, json.Unmarshal(out.Bytes(), &w))
	return w
}

// hash gives the hash of a set, for a letter of hex.
func hash(letter string) string { return strings.Repeat(letter, 64) }

// tool is a command of the item "tools" of the organisation.
func tool(name, target string) guest.Shim {
	return guest.Shim{Name: name, Target: target, Item: "tools", Scope: "organisation"}
}
