package oci

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"enplace"
	"enplace/internal/image"
	"enplace/internal/sandbox"
)

// With this variable the test's program is a server that starts sandboxes in the directory named and is then killed.
const crashDirVariable = "ENPLACE_TEST_CRASH_DIR"

// crash never returns. Standard input has the digest of the root.
func crash(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	var base string
	_, err := fmt.Scanln(&base)
	fail(err)
	images, err := image.Open(filepath.Join(dir, "images"))
	fail(err)
	ctx := context.Background()
	r, err := New(ctx, testConfig(dir, os.Getenv("ENPLACE_TEST_RUNTIME"), os.Getenv("ENPLACE_TEST_GUEST"), images))
	fail(err)
	fail(r.Recover(ctx, func(string) bool { return false }))
	r.Warm([]enplace.Digest{enplace.Digest(base)}, 1)
	for _, id := range []string{"kept", "unwanted", "not-kept", "finished"} {
		b, err := r.Start(ctx, sandbox.Spec{ID: id, Root: []enplace.Digest{enplace.Digest(base)}, Limits: enplace.DefaultTaskLimits,
			Egress: enplace.Egress{Policy: enplace.EgressNone}, Keep: id != "not-kept",
			Mounts: []sandbox.Mount{{Path: "/cache", Cache: "cache-" + id, CacheMiB: 64}}})
		fail(err)
		_, err = b.Exec(ctx, sandbox.Command{Argv: []string{"/bin/sh", "-c", "echo " + id + " > /task/file"}, Dir: "/"})
		fail(err)
		if id == "finished" {
			fail(b.Stop(ctx))
			continue
		}
		started := make(chan struct{})
		go func() {
			_, _ = b.Exec(ctx, sandbox.Command{Argv: []string{"/bin/sleep", "9321"}, Dir: "/", Started: func() { close(started) }})
		}()
		<-started
	}
	if r.Abilities().Durable {
		b, err := r.Start(ctx, lastingSpec(enplace.Digest(base)))
		fail(err)
		_, err = b.Exec(ctx, sandbox.Command{Argv: []string{"/bin/sh", "-c", "echo written > /root/file; (sleep 9321 &)"}, Dir: "/"})
		fail(err)
		for _, name := range []string{durableNew + "1", durableDropped + "2"} {
			fail(os.MkdirAll(filepath.Join(r.durables.dir, name, "volume"), 0o700))
		}
	}
	fmt.Println("ready")
	select {}
}

// lastingSpec is a sandbox on a durable volume.
func lastingSpec(base enplace.Digest) sandbox.Spec {
	return sandbox.Spec{ID: "lasting", Durable: "lasting", Root: []enplace.Digest{base}, Limits: enplace.DefaultComputerLimits,
		Egress: enplace.Egress{Policy: enplace.EgressNone}}
}

// Whatever moment a server is killed at, the next one finds and settles what it left.
func TestRecoverAfterKill(t *testing.T) { recoverAfterKill(t, runtimeRunc) }

func recoverAfterKill(t *testing.T, program string) {
	h := newHouse(t, program, nil)
	dir := t.TempDir()
	images, err := image.Open(filepath.Join(dir, "images"))
	if err != nil {
		t.Fatal(err)
	}
	defer images.Close()
	base := copyImage(t, h, images)

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashDirVariable+"="+dir, "ENPLACE_TEST_GUEST="+h.config.Guest, "ENPLACE_TEST_RUNTIME="+program)
	cmd.Stdin = strings.NewReader(string(base) + "\n")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("the server said %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()

	r := open(t, testConfig(dir, program, h.config.Guest, images))
	if names, _ := r.leftovers(); len(names) < 3 {
		t.Fatalf("left: %v; the test proves nothing", names)
	}
	keep := []string{"kept", "finished", "not-kept"}
	if err := r.Recover(t.Context(), func(id string) bool { return slices.Contains(keep, id) }); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, r)
	if ps, _ := exec.Command("pgrep", "-f", "^/bin/sleep 9321").Output(); len(ps) > 0 {
		t.Errorf("still running: %s", ps)
	}
	for id, kept := range map[string]bool{"kept": true, "finished": true, "unwanted": false, "not-kept": false} {
		w, err := r.Work(t.Context(), id)
		if (err == nil) != kept {
			t.Errorf("%s: %v", id, err)
		}
		if err != nil {
			continue
		}
		if b, err := w.Root.ReadFile("file"); err != nil || string(b) != id+"\n" {
			t.Errorf("%s: %q, %v", id, b, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if r.Abilities().Durable {
		recoveredDurable(t, r, base)
	}
	if err := r.Recover(t.Context(), func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "sandbox", workDir)); len(left) > 0 {
		t.Errorf("kept: %v", left)
	}
}

// recoveredDurable looks at a durable volume that a killed server left.
func recoveredDurable(t *testing.T, r *Runtime, base enplace.Digest) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(r.durables.dir, ".*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	b, err := r.Start(t.Context(), lastingSpec(base))
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, b, "cat /root/file"); got != "written" {
		t.Errorf("after the server was killed: %q", got)
	}
	end(t, b)
	if err := r.DropDurable(t.Context(), "lasting"); err != nil {
		t.Error(err)
	}
}

// copyImage brings the base of a house to another store.
func copyImage(t *testing.T, h *house, to *image.Store) enplace.Digest {
	t.Helper()
	fsys, closer, err := h.Images.FS(t.Context(), h.Base[0])
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	info, err := to.Pack(t.Context(), fsys)
	if err != nil {
		t.Fatal(err)
	}
	return info.Digest
}
