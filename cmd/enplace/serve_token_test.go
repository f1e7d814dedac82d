package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const secretToken = "github_pat_0123456789abcdefghij"

// A token for GitHub comes from a file that nobody else can read, and is in no message.
func TestCase12TokenFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good", secretToken+"\n", 0o400)
	if got, err := readToken(good); err != nil || got != secretToken {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := readToken(""); err != nil || got != "" {
		t.Errorf("%q, %v", got, err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	for path, why := range map[string]string{
		write("group", secretToken, 0o640):                          "others than root may read it",
		write("world", secretToken, 0o604):                          "others than root may read it",
		write("short", "ghp_1", 0o600):                              "holds no token",
		write("two", secretToken+"\n"+secretToken, 0o600):           "holds no token",
		write("long", secretToken+strings.Repeat("x", 2000), 0o600): "holds no token",
		write("empty", "\n", 0o600):                                 "holds no token",
		link:                                                        "is a link",
		dir:                                                         "it is no file",
		filepath.Join(dir, "none"):                                  "cannot be opened",
	} {
		got, err := readToken(path)
		if err == nil || got != "" || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), secretToken) {
			t.Errorf("%s: %q, %v; want %q", path, got, err, why)
		}
	}
}
