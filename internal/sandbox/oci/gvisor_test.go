package oci

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"enplace"
	"enplace/internal/image"
	"enplace/internal/sandbox"
	"enplace/internal/sandbox/sandboxtest"
)

// newGVisorHouse skips the test where there is no runsc, under CI too: it is no package of Debian that could be asked for.
func newGVisorHouse(t *testing.T) *house {
	t.Helper()
	needRoot(t)
	path, err := exec.LookPath(runtimeRunsc)
	if err == nil {
		_, err = gvisorSupport(t.Context(), path)
	}
	if err != nil {
		t.Skipf("gVisor is optional, and not here: %v", err)
	}
	h := newHouse(t, runtimeRunsc, nil)
	h.Optional = true
	return h
}

func TestConformanceRunsc(t *testing.T) { sandboxtest.Run(t, newGVisorHouse(t).Harness) }

func TestRecoverAfterKillRunsc(t *testing.T) {
	newGVisorHouse(t)
	recoverAfterKill(t, runtimeRunsc)
}

func TestOldRunscIsUnavailable(t *testing.T) {
	needRoot(t)
	program := filepath.Join(t.TempDir(), "runsc")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho '  -detach'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := newEngine(t.Context(), program, t.TempDir(), &cgroups{})
	if enplace.KindOf(err) != enplace.KindUnavailable || !strings.Contains(err.Error(), "too old") {
		t.Errorf("got %v", err)
	}
}

func say(t *testing.T, b sandbox.Sandbox, script string) string {
	t.Helper()
	var out bytes.Buffer
	_, err := b.Exec(t.Context(), sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Env: sandbox.BaseEnv(), Dir: "/", Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Root inside can neither open the host's connection to process 1 nor look into it.
func TestGVisorHostConnectionIsOutOfReach(t *testing.T) {
	h := newGVisorHouse(t)
	b := h.Start(t, h.Spec("reach"))
	say(t, b, "echo 0 > /proc/sys/kernel/yama/ptrace_scope") // which root inside may: it is gVisor's own
	for _, script := range []string{"cat /proc/1/fd/3", "echo x > /proc/1/fd/3", "cat /proc/1/environ", "cat /proc/1/mem", "readlink -v /proc/1/fd/3"} {
		if out := strings.ToLower(say(t, b, script)); !strings.Contains(out, "permission denied") && !strings.Contains(out, "not permitted") {
			t.Errorf("%s: %q", script, out)
		}
	}
	if out := say(t, b, "find / -xdev -path /proc -prune -o -type s -print"); strings.TrimSpace(out) != "" {
		t.Errorf("sockets in reach: %q", out) // the egress gate is on a mount of its own
	}
}

// As on Linux, nothing that root inside sends to process 1 ends or stops it.
func TestGVisorProcess1IsNotSignalled(t *testing.T) {
	h := newGVisorHouse(t)
	b := h.Start(t, h.Spec("signals"))
	for _, signal := range []string{"KILL", "STOP", "TERM", "ABRT"} {
		if out := say(t, b, "kill -"+signal+" 1"); !strings.Contains(out, "not permitted") {
			t.Errorf("%s: %q", signal, out)
		}
	}
	// Others can be signalled as ever, all together as well.
	if out := say(t, b, "sleep 60 & p=$!; kill -STOP $p; kill -CONT $p; kill -9 $p; wait $p; echo $?"); !strings.HasSuffix(out, "137\n") {
		t.Errorf("got %q", out)
	}
	for _, call := range []string{"4", "4294967297"} { // of a thread of process 1; and of process 1 by a longer name
		for signal, refused := range map[string]bool{"9": true, "19": true, "17": false} {
			if out := say(t, b, "probe tkill "+call+" "+signal); strings.Contains(out, "not permitted") != refused {
				t.Errorf("tkill %s %s: %q", call, signal, out)
			}
		}
	}
	if out := say(t, b, "probe kill 4294967297"); !strings.Contains(out, "not permitted") {
		t.Errorf("kill: %q", out)
	}
	say(t, b, "kill -9 -1")
	if out := say(t, b, "echo on"); out != "on\n" {
		t.Errorf("after a kill of everything: %q", out)
	}
}

// Whoever could trace what the filters say is to be traced could let it through.
func TestGVisorRefusedCallsCannotBeTraced(t *testing.T) {
	h := newGVisorHouse(t)
	b := h.Start(t, h.Spec("trace"))
	for options, want := range map[string]string{"0": "ok", "0x1": "ok", "0x80": "not permitted", "0x81": "not permitted"} {
		if out := say(t, b, "probe trace "+options); !strings.Contains(out, want) {
			t.Errorf("ptrace with options %s: %q, want %q", options, out, want)
		}
	}
}

// Paths that the images make links of lead nowhere on the host.
func TestGVisorHostileLinks(t *testing.T) {
	h := newGVisorHouse(t)
	outside := t.TempDir()
	if err := os.Chmod(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	layer := t.TempDir()
	for _, name := range []string{"tmp", "task", "env", "run"} {
		if err := os.Symlink(outside, filepath.Join(layer, name)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := h.Images.PackDir(t.Context(), layer, image.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := h.Spec("links")
	s.Root = append(s.Root, info.Digest)
	b, err := h.Runtime.Start(t.Context(), s)
	if err == nil {
		if out := say(t, b, "cat /tmp/secret /env/secret /task/secret "+outside+"/secret; echo x > /tmp/made; echo x > /task/made; echo x > /env/made"); strings.Contains(out, "of the host") {
			t.Errorf("the host's file is in reach: %q", out)
		}
		if err := b.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	t.Logf("starting: %v", err)
	if left, _ := filepath.Glob(filepath.Join(outside, "*")); len(left) != 1 {
		t.Errorf("made on the host: %v", left)
	}
	s.ID, s.Mounts = "links-mount", []sandbox.Mount{{Path: "/env/x", Writable: true}}
	if b, err := h.Runtime.Start(t.Context(), s); err == nil {
		t.Error("a sandbox started with a mount behind a link")
		_ = b.Stop(t.Context())
	}
}
