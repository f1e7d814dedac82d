package base

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"enplace/internal/image"
)

// absent skips a test for what the machine lacks, which is a failure where everything must be there.
func absent(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		absent(t, "needs root")
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// busybox gives the one program that a whole root can be made of.
func busybox(t testing.TB) []byte {
	t.Helper()
	for _, p := range []string{"/bin/busybox", "/usr/bin/busybox"} {
		if data, err := os.ReadFile(p); err == nil {
			return data
		}
	}
	absent(t, "busybox-static is not installed")
	return nil
}

// newBuilder makes a Builder without tools and authorities, in a folder that containers can pass through.
func newBuilder(t testing.TB, cfg Config) *Builder {
	t.Helper()
	needRoot(t)
	if _, err := exec.LookPath("runc"); err != nil {
		absent(t, "runc is not installed")
	}
	dir := t.TempDir()
	for p := dir; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	images, err := image.Open(filepath.Join(dir, "images"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := images.Close(); err != nil {
			t.Error(err)
		}
		left, err := mountsBelow(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left mounted: %v %v", left, err)
		}
	})
	cfg.Dir, cfg.Images = filepath.Join(dir, "base"), images
	if cfg.Tools == nil {
		cfg.Tools = []Tool{}
	}
	if cfg.ExtraCAs == nil {
		cfg.ExtraCAs = []string{}
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
