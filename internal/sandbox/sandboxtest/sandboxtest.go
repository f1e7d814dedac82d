// Package sandboxtest is what every adapter of the sandbox contract has to pass. It looks at a sandbox from inside, as root and
// as hostile as a test can be, and from outside through the contract alone, so it holds for an adapter of any kind.
package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"enplace"
	"enplace/internal/image"
	"enplace/internal/sandbox"
)

// Harness is the adapter under test.
type Harness struct {
	// Runtime is a runtime that has recovered. Its egress lets 127.0.0.0/8 through, which is where the suite's servers are.
	Runtime sandbox.Runtime
	// Images is the store that the runtime takes images from.
	Images *image.Store
	// Base is the root of the sandboxes, as Base makes it.
	Base []enplace.Digest
	// Optional is set for a runtime that a host may do without: what it cannot do here is skipped, in CI too.
	Optional bool
}

// unable skips a part of the suite that this runtime cannot hold on this host.
func (h Harness) unable(t testing.TB, format string, args ...any) {
	t.Helper()
	if h.Optional {
		t.Skipf(format, args...)
	}
	Absent(t, format, args...)
}

// patience bounds every step of a test. It is no measure of speed.
const patience = time.Minute

// Run runs the suite. The runtime is still usable afterwards, and has no sandbox left.
func Run(t *testing.T, h Harness) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"Exec", testExec},
		{"ExecFails", testExecFails},
		{"Deadline", testDeadline},
		{"Cancel", testCancel},
		{"Stop", testStop},
		{"Setup", testSetup},
		{"Ids", testIDs},
		{"Unknown", testUnknown},
		{"Dial", testDial},
		{"Concurrent", testConcurrent},
		{"Privileges", testPrivileges},
		{"KernelFiles", testKernelFiles},
		{"Devices", testDevices},
		{"Neighbours", testNeighbours},
		{"Network", testNetwork},
		{"Egress", testEgress},
		{"EgressChanges", testEgressChanges},
		{"Memory", testMemory},
		{"Processes", testProcesses},
		{"Disk", testDisk},
		{"ReadOnly", testReadOnly},
		{"Stacked", testStacked},
		{"Writable", testWritable},
		{"CaptureRoot", testCaptureRoot},
		{"Work", testWork},
		{"WorkIsReplaced", testWorkIsReplaced},
		{"Cache", testCache},
		{"Durable", testDurable},
		{"DurableIsHad", testDurableIsHad},
		{"DurableDropped", testDurableDropped},
		{"DurableFull", testDurableFull},
		{"DurableHostile", testDurableHostile},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, h) })
	}
	if left := h.Runtime.List(); len(left) > 0 {
		t.Errorf("sandboxes are left: %v", left)
	}
}

// Base makes a root of busybox, with the probe, in the store.
func Base(t testing.TB, images *image.Store) []enplace.Digest {
	t.Helper()
	root := t.TempDir()
	busybox := require(t, "busybox", "apt-get install busybox-static")
	for _, dir := range []string{"bin", "dev", "env", "etc", "proc", "root", "run", "sys", "task", "tmp", "usr/bin", "var/tmp"} {
		check(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	check(t, os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky))
	b, err := os.ReadFile(busybox)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(root, "bin/busybox"), b, 0o755))
	applets, err := exec.Command(busybox, "--list").Output()
	check(t, err)
	for applet := range strings.FieldsSeq(string(applets)) {
		if applet != "busybox" {
			check(t, os.Symlink("busybox", filepath.Join(root, "bin", applet)))
		}
	}
	check(t, os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("root:x:0:0::/root:/bin/sh\n"), 0o644))
	check(t, os.Symlink("etc", filepath.Join(root, "link")))
	Build(t, "enplace/internal/sandbox/sandboxtest/probe", filepath.Join(root, "bin/probe"))
	info, err := images.PackDir(t.Context(), root, image.DirOptions{})
	check(t, err)
	return []enplace.Digest{info.Digest}
}

// guest has the programs that sandboxes have, built once for all tests of a package: to link them takes longer than many a test.
var guest = sync.OnceValues(func() (programs map[string][]byte, err error) {
	dir, err := os.MkdirTemp("", "enplace-guest-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	programs = map[string][]byte{}
	for _, program := range []string{"enplace-guest", "enplace-shim"} {
		file := filepath.Join(dir, program)
		if err := build("enplace/cmd/"+program, file); err != nil {
			return nil, err
		}
		if programs[program], err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	return programs, nil
})

// BuildGuest puts the programs that sandboxes have into a folder.
func BuildGuest(t testing.TB, dir string) {
	t.Helper()
	programs, err := guest()
	if err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock() // a child that has a program open for writing would keep it from being run
	defer syscall.ForkLock.RUnlock()
	for program, content := range programs {
		if err := os.WriteFile(filepath.Join(dir, program), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// Build builds a program of this module, linked statically.
func Build(t testing.TB, pkg, out string) {
	t.Helper()
	if err := build(pkg, out); err != nil {
		t.Fatal(err)
	}
}

func build(pkg, out string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "enplace/cmd/enplace-shim=-E main.first", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, b)
	}
	return nil
}

// require gives the path of a program, or skips the test; under CI its absence is a failure.
func require(t testing.TB, program, fix string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		Absent(t, "%s is not here: %s", program, fix)
	}
	return path
}

// Absent skips the test because the host lacks something, or fails it where CI is set.
func Absent(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Spec is a sandbox of the harness's base, with nothing in it.
func (h Harness) Spec(id string) sandbox.Spec {
	return sandbox.Spec{ID: id, Root: h.Base, Limits: enplace.DefaultTaskLimits, Egress: enplace.Egress{Policy: enplace.EgressNone}}
}

// Start starts a sandbox that ends with the test.
func (h Harness) Start(t testing.TB, s sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b, err := h.Runtime.Start(ctx, s)
	if err != nil {
		t.Fatalf("starting %s: %v", s.ID, err)
	}
	t.Cleanup(func() {
		stop(t, b)
		check(t, h.Runtime.Discard(context.Background(), s.ID))
	})
	return b
}

func stop(t testing.TB, b sandbox.Sandbox) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.Stop(ctx); err != nil {
		t.Errorf("stopping %s: %v", b.ID(), err)
	}
}

// result is what a command gave: its exit and both outputs.
type result struct {
	sandbox.Exit
	out, err string
}

// sh runs a script by the shell in the working directory.
func sh(t testing.TB, b sandbox.Sandbox, script string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	exit, err := b.Exec(ctx, sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Env: sandbox.BaseEnv(), Dir: sandbox.TaskDir,
		Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatalf("running %q: %v", script, err)
	}
	return result{exit, out.String(), errs.String()}
}

// want runs a script that must succeed with that output, space around it apart.
func want(t testing.TB, b sandbox.Sandbox, script, out string) {
	t.Helper()
	r := sh(t, b, script)
	if r.Code != 0 || strings.TrimSpace(r.out) != out {
		t.Errorf("%q: exit %d, output %q, errors %q; want output %q", script, r.Code, r.out, r.err, out)
	}
}

// refused runs a script that must fail for one of the reasons given.
func refused(t testing.TB, b sandbox.Sandbox, script string, reasons ...string) {
	t.Helper()
	r := sh(t, b, script)
	said := strings.ToLower(r.out + r.err)
	for _, reason := range reasons {
		if strings.Contains(said, strings.ToLower(reason)) {
			return
		}
	}
	t.Errorf("%q: exit %d, output %q, errors %q; want one of %q", script, r.Code, r.out, r.err, reasons)
}

// Pack makes an image of files: a path with / at its end is a folder.
func (h Harness) Pack(t testing.TB, files map[string]string) enplace.Digest {
	t.Helper()
	dir := t.TempDir()
	for path, content := range files {
		full := filepath.Join(dir, path)
		if strings.HasSuffix(path, "/") {
			check(t, os.MkdirAll(full, 0o755))
			continue
		}
		check(t, os.MkdirAll(filepath.Dir(full), 0o755))
		check(t, os.WriteFile(full, []byte(content), 0o644))
	}
	info, err := h.Images.PackDir(t.Context(), dir, image.DirOptions{})
	check(t, err)
	return info.Digest
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, kind enplace.Kind) {
	t.Helper()
	if enplace.KindOf(err) != kind {
		t.Errorf("got %v, want an error of kind %s", err, kind)
	}
}

func wantIs(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got %v, want %v", err, target)
	}
}
