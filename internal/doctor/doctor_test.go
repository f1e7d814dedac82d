package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func find(t *testing.T, all []Finding, name string) Finding {
	t.Helper()
	for _, f := range all {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("nothing on %q", name)
	return Finding{}
}

// The machine that tests run on can run Enplace, or the findings say what it lacks and how that is mended.
func TestThisHost(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
	dir := t.TempDir()
	for p := dir; p != os.TempDir(); p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	all := Check(context.Background(), Config{DataDir: filepath.Join(dir, "not", "there", "yet")})
	for _, f := range all {
		t.Logf("%-20s %-5v %s", f.Name, f.OK, f.Detail)
		if f.OK == (f.Fix != "") {
			t.Errorf("%s: ok %v with the fix %q", f.Name, f.OK, f.Fix)
		}
		if f.Detail == "" {
			t.Errorf("%s says nothing", f.Name)
		}
	}
	if os.Getenv("CI") != "" && !OK(all) {
		t.Error("this host lacks something that is required")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() // its parent is closed to others
	all := Check(context.Background(), Config{DataDir: filepath.Join(dir, "data"), Runtime: "no-such-runtime"})
	if f := find(t, all, "container runtime"); f.OK || !strings.Contains(f.Detail, "no-such-runtime") || f.Fix == "" {
		t.Errorf("%+v", f)
	}
	if f := find(t, all, "data directory"); f.OK || !strings.HasPrefix(f.Fix, "chmod o+x /") {
		t.Errorf("%+v", f)
	}
	if OK(all) {
		t.Error("it counts as fit")
	}
}

func TestOptionalThingsDoNotCount(t *testing.T) {
	t.Parallel()
	if !OK([]Finding{{OK: true, Required: true}, {OK: false}}) || OK([]Finding{{Required: true}}) {
		t.Error("OK does not look at what is required")
	}
}

func TestEndedContextEndsTheCheck(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	if all := Check(ctx, Config{}); len(all) != 0 {
		t.Errorf("%d findings", len(all))
	}
}
