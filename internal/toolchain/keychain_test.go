package toolchain_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/toolchain/toolchaintest"
)

// Values are sealed at rest and never come back; they are hidden in what is logged, also after a restart and when they are gone.
func testKeychain(h house) {
	ctx := h.t.Context()
	h.Direct("y-ann")
	const old, now = "value-that-was", "value-that-is"
	put := func(name, value string) error {
		_, err := h.Toolchain.PutSecret(ctx, operator, "person:y-ann", name, enplace.PutSecret{Value: value})
		return err
	}
	check(h.t, put("TOKEN", old))
	check(h.t, put("TOKEN", now))
	_, err := h.Toolchain.PutSecret(ctx, operator, "organisation", "TOKEN", enplace.PutSecret{Value: "value-of-all"})
	check(h.t, err)
	for _, name := range []string{"PATH", "LD_PRELOAD", "https_proxy", "ENPLACE_SET", "1X", "A B", ""} {
		if err := put(name, "some value"); enplace.KindOf(err) != enplace.KindInvalid {
			h.t.Errorf("a secret named %q: %v", name, err)
		}
	}
	for value, kind := range map[string]enplace.Kind{"": enplace.KindInvalid, "a\x00b": enplace.KindInvalid, strings.Repeat("x", 64<<10): "", strings.Repeat("x", 64<<10+1): enplace.KindTooLarge} {
		if err := put("OTHER", value); enplace.KindOf(err) != kind {
			h.t.Errorf("a value of %d bytes: %v", len(value), err)
		}
	}
	check(h.t, h.Toolchain.DeleteSecret(ctx, operator, "person:y-ann", "OTHER"))
	env, err := h.Toolchain.Variables(ctx, enplace.NewChain("", "y-ann"))
	check(h.t, err)
	if !slices.Equal(env, []string{"TOKEN=" + now}) {
		h.t.Errorf("variables %q", env)
	}
	l, err := h.Toolchain.ListSecrets(ctx, toolchaintest.Person("y-ann"), "person:y-ann", enplace.Page{})
	check(h.t, err)
	if len(l.Items) != 1 || l.Items[0].Name != "TOKEN" || l.Items[0].CreatedBy != "operator" {
		h.t.Errorf("%+v", l.Items)
	}
	hides := func(value string) bool {
		r, err := h.Toolchain.Redactor(ctx, "person:y-ann")
		check(h.t, err)
		return !strings.Contains(string(r.Bytes([]byte("a line with "+value))), value)
	}
	if !hides(old) || !hides(now) {
		h.t.Error("a value of the keychain is shown")
	}
	h.Restart()
	if !hides(now) {
		h.t.Error("after a restart a value of the keychain is shown")
	}
	for _, name := range []string{"enplace.db", "enplace.db-wal"} {
		b, err := os.ReadFile(filepath.Join(h.Dir, name))
		check(h.t, err)
		if bytes.Contains(b, []byte(now)) || bytes.Contains(b, []byte(old)) {
			h.t.Errorf("a value stands in %s", name)
		}
	}
	for _, scope := range []enplace.Scope{"organisation", "person:y-ann"} {
		check(h.t, h.Toolchain.DeleteSecret(ctx, operator, scope, "TOKEN"))
	}
	check(h.t, put("AFTER", "another-value"))
	if !hides(now) {
		h.t.Error("a value that was removed is shown, and may stand in output still to come")
	}
}
