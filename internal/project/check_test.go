package project

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Names are hostile: a package can hold any.
func TestCheckScriptWithOddNames(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "a project")
	file := func(name, text string, mode os.FileMode) {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	file(".venv/bin/good", "#!/bin/sh\n", 0o755)
	file(".venv/bin/good env", "#!/usr/bin/env sh\n", 0o755)
	file(".venv/bin/split", "#!/usr/bin/env -S sh -e\n", 0o755)
	file(".venv/bin/data", "#!/nowhere\n", 0o644)
	file(".venv/bin/binary", "\x7fELF\x00\n#!/nowhere\n", 0o755)
	file(".venv/bin/empty", "", 0o755)
	file(".venv/bin/star *", "#!/bin/*\n", 0o755)
	file(".venv/bin/two\nbroken lines", "#!/nowhere/at/all\n", 0o755)
	file(".venv/bin/crlf", "#!/usr/bin/env sh\r\n", 0o755)
	file(".venv/bin/bare", "#!\n", 0o755)
	if err := os.Symlink("/nowhere", filepath.Join(root, ".venv/bin/link")); err != nil {
		t.Fatal(err)
	}
	file("node_modules/.bin/tool", "#!/usr/bin/env nosuchprogram\n", 0o755)
	out, err := exec.CommandContext(t.Context(), "sh", "-c", checkScript, "check", root).Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range readChecked(out).broken {
		name, _, _ := strings.Cut(b, ": ")
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{".venv/bin/bare", ".venv/bin/crlf", ".venv/bin/link", ".venv/bin/star *", ".venv/bin/two?broken lines", "node_modules/.bin/tool"}
	if !slices.Equal(names, want) {
		t.Errorf("got %q\n%s", names, out)
	}
}

// One module alone is read as well as many, whatever it is called, and a vendored library counts wherever it lies.
func TestCheckScriptReadsModules(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"gcc", "readelf"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not there")
		}
	}
	root := t.TempDir()
	lib := func(name string, args ...string) {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "gcc", append([]string{"-shared", "-x", "c", "-", "-o", p}, args...)...)
		cmd.Stdin = strings.NewReader("int f(void) { return 1; }\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	check := func() []string {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", checkScript, "check", root)
		cmd.Stderr = io.Discard
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return readChecked(out).missing()
	}
	vendored := "libvendored-12ab.so.1"
	lib("hidden/"+vendored, "-Wl,-soname,"+vendored)
	lib(".venv/lib/odd *\nname.so", "-Wl,--no-as-needed", "-x", "none", filepath.Join(root, "hidden", vendored))
	if got := check(); len(got) != 1 || !strings.Contains(got[0], "needs "+vendored) {
		t.Errorf("missing: %q", got)
	}
	lib(".venv/lib/x.libs/"+vendored, "-Wl,-soname,"+vendored)
	if got := check(); len(got) != 0 {
		t.Errorf("missing: %q", got)
	}
}
