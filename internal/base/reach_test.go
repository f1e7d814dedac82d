package base

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"enplace"
)

// A data directory below a home of mode 0700 failed at the last step, with a message about the machine's architecture.
func TestFolderThatIsClosedToOthersIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	below := filepath.Join(dir, "closed", "below")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Dir(below)
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := reachable(below); enplace.KindOf(err) != enplace.KindUnavailable || !strings.Contains(err.Error(), closed) {
		t.Error(err)
	}
	if err := reachable("/usr/lib"); err != nil {
		t.Error(err)
	}
}
