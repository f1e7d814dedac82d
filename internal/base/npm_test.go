package base_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"enplace/internal/base/basetest"
	"enplace/internal/image"
)

// task gives a writable root over the base, laid out as a task sees it: an environment's node_modules is linked in the folder
// above /task. It gives the path of the root's writable layer, and a function that runs npm in a folder.
func task(t *testing.T) (upper string, npm func(dir string, args ...string) string) {
	t.Helper()
	images, rec := basetest.Open(t)
	base, err := images.Acquire(context.Background(), rec.Digest)
	if err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	upper = filepath.Join(top, "upper")
	for name, content := range map[string]string{
		"env/p/node_modules/shared/package.json": `{"name":"shared","version":"1.0.0"}`,
		"opt/local/package.json":                 `{"name":"local","version":"1.0.0"}`,
		"task/project/package.json":              `{"name":"project","version":"1.0.0"}`,
		"task/project/src/x.js":                  "",
		"task/deep/er/x.js":                      "",
		"task/app/x.js":                          "",
	} {
		p := filepath.Join(upper, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/env/p/node_modules", filepath.Join(upper, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(top, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := image.Stack(image.StackOptions{Layers: []*image.Layer{base}, UserNS: -1, Upper: upper, Work: filepath.Join(top, "work")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
		if err := base.Close(); err != nil {
			t.Error(err)
		}
	})
	return upper, func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command("/usr/local/bin/npm", args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: fmt.Sprintf("/proc/self/fd/%d", root.Fd())}
		cmd.Dir = dir
		cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/root", "npm_config_offline=true", "npm_config_audit=false",
			"npm_config_fund=false", "npm_config_update_notifier=false"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("npm %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
}

func TestNPMTakesTheFolderAboveForTheProject(t *testing.T) {
	t.Parallel()
	upper, npm := task(t)
	for _, dir := range []string{"/task/deep/er", "/task"} { // the inner one first: the outer becomes a project
		npm(dir, "install", "/opt/local")
		for _, name := range []string{"node_modules/local", "package.json"} {
			if _, err := os.Lstat(filepath.Join(upper, dir, name)); err != nil {
				t.Errorf("installed in %s: %v", dir, err)
			}
		}
	}
	names, err := os.ReadDir(filepath.Join(upper, "env/p/node_modules"))
	if err != nil || len(names) != 1 {
		t.Errorf("the environment's packages were touched: %v %v", names, err)
	}
}

func TestNPMInit(t *testing.T) {
	t.Parallel()
	upper, npm := task(t)
	npm("/task/app", "init", "-y")
	if _, err := os.Stat(filepath.Join(upper, "task/app/package.json")); err != nil {
		t.Error(err)
	}
}

func TestNPMPrefix(t *testing.T) {
	t.Parallel()
	_, npm := task(t)
	for _, c := range []struct{ name, dir, want string }{
		{"no project", "/task/app", "/task/app"},
		{"work itself", "/task", "/task"},
		{"below a project", "/task/project/src", "/task/project"},
		{"outside of work", "/opt/local", "/opt/local"},
		{"above work", "/", "/"},
	} {
		if got := npm(c.dir, "prefix"); got != c.want {
			t.Errorf("%s: npm takes %s, want %s", c.name, got, c.want)
		}
	}
}

func TestNPMLeavesTheCallersChoiceOfPlace(t *testing.T) {
	t.Parallel()
	_, npm := task(t)
	for _, args := range [][]string{{"prefix", "-g"}, {"prefix", "--global"}, {"prefix", "--location=global"}, {"--location", "global", "prefix"}} {
		if got := npm("/task", args...); got != "/usr" {
			t.Errorf("%v gives %s", args, got)
		}
	}
	for _, args := range [][]string{{"--prefix", "/task/app", "prefix"}, {"--prefix=/task/app", "prefix"}, {"-C", "/task/app", "prefix"}} {
		if got := npm("/task", args...); got != "/task/app" {
			t.Errorf("%v gives %s", args, got)
		}
	}
}

// A script's own arguments, after --, are not npm's.
func TestNPMStopsReadingAtDashes(t *testing.T) {
	t.Parallel()
	_, npm := task(t)
	if got := npm("/task/app", "prefix", "--", "-g"); got != "/task/app" {
		t.Errorf("npm takes %s", got)
	}
}
