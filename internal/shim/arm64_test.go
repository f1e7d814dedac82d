package shim_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"enplace/internal/shim"
)

// TestSandbox runs the entry in assembly of this machine's processor; here it is arm64's, if need be under an emulator.
func TestEntryOfARM64(t *testing.T) {
	program := t.TempDir() + "/node"
	build := exec.Command("go", "build", "-ldflags", "-E main.first", "-o", program, "enplace/cmd/enplace-shim")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=arm64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	emulator, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		t.Skip("it builds; qemu-aarch64-static, which would run it, is not installed")
	}
	out, err := exec.Command(emulator, "-E", shim.SetVar+"="+strings.Repeat("d", 64), program, "x").CombinedOutput()
	if code := err.(*exec.ExitError).ExitCode(); code != 127 || !strings.Contains(string(out), "the tools of this conversation are not in place") {
		t.Errorf("exit %d: %s", code, out)
	}
}
