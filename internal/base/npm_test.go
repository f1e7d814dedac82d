package base

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// wrapped makes a work folder with the environment's node_modules linked above it, read only in effect: writing there
// would show. It gives a function that runs the wrapper in a folder below work.
func wrapped(t *testing.T) (work string, npm func(dir string, args ...string) string) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			absent(t, program+" is not installed")
		}
	}
	real, _ := exec.LookPath("npm")
	cli, err := filepath.EvalSymlinks(real)
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work = filepath.Join(top, "task")
	modules := filepath.Join(top, "env", "node_modules")
	write(t, filepath.Join(modules, "shared", "package.json"), `{"name":"shared","version":"1.0.0"}`)
	write(t, filepath.Join(top, "local", "package.json"), `{"name":"local","version":"1.0.0"}`)
	write(t, filepath.Join(work, "README"), "")
	if err := os.Symlink(modules, filepath.Join(top, "node_modules")); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(top, "npm")
	write(t, script, npmWrapper(work, cli))
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	return work, func(dir string, args ...string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(work, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(script, args...)
		cmd.Dir = filepath.Join(work, dir)
		cmd.Env = append(os.Environ(), "HOME="+top, "npm_config_userconfig="+filepath.Join(top, "npmrc"), "npm_config_offline=true",
			"npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("npm %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
}

func TestNPMTakesTheFolderAboveForTheProject(t *testing.T) {
	t.Parallel()
	work, npm := wrapped(t)
	local := filepath.Join(filepath.Dir(work), "local")
	for _, dir := range []string{"deep/er", "."} { // the inner one first: the outer becomes a project
		npm(dir, "install", local)
		if _, err := os.Stat(filepath.Join(work, dir, "node_modules", "local")); err != nil {
			t.Errorf("installed in %s: %v", dir, err)
		}
		if _, err := os.Stat(filepath.Join(work, dir, "package.json")); err != nil {
			t.Errorf("no package.json in %s: %v", dir, err)
		}
	}
	names, err := os.ReadDir(filepath.Join(filepath.Dir(work), "env", "node_modules"))
	if err != nil || len(names) != 1 {
		t.Errorf("the environment's packages were touched: %v %v", names, err)
	}
}

func TestNPMInit(t *testing.T) {
	t.Parallel()
	work, npm := wrapped(t)
	npm("app", "init", "-y")
	if _, err := os.Stat(filepath.Join(work, "app", "package.json")); err != nil {
		t.Error(err)
	}
}

func TestNPMPrefix(t *testing.T) {
	t.Parallel()
	work, npm := wrapped(t)
	if err := os.MkdirAll(filepath.Join(work, "project", "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(work, "project", "package.json"), `{"name":"project","version":"1.0.0"}`)
	for _, c := range []struct{ name, dir, want string }{
		{"no project", "empty", filepath.Join(work, "empty")},
		{"work itself", ".", work},
		{"below a project", "project/src", filepath.Join(work, "project")},
		{"outside of work", "..", filepath.Dir(work)},
	} {
		if got := npm(c.dir, "prefix"); got != c.want {
			t.Errorf("%s: npm takes %s, want %s", c.name, got, c.want)
		}
	}
}

func TestNPMLeavesTheCallersChoiceOfPlace(t *testing.T) {
	t.Parallel()
	work, npm := wrapped(t)
	other := filepath.Join(work, "other")
	global := npm(".", "prefix", "-g")
	if global == work {
		t.Errorf("-g gives the working directory")
	}
	for _, args := range [][]string{{"prefix", "--global"}, {"prefix", "--location=global"}, {"--location", "global", "prefix"}} {
		if got := npm(".", args...); got != global {
			t.Errorf("%v gives %s, want %s", args, got, global)
		}
	}
	for _, args := range [][]string{{"--prefix", other, "prefix"}, {"--prefix=" + other, "prefix"}, {"-C", other, "prefix"}} {
		if got := npm(".", args...); got != other {
			t.Errorf("%v gives %s, want %s", args, got, other)
		}
	}
}

// A script's own arguments, after --, are not npm's.
func TestNPMStopsReadingAtDashes(t *testing.T) {
	t.Parallel()
	work, npm := wrapped(t)
	if got := npm("e", "prefix", "--", "-g"); got != filepath.Join(work, "e") {
		t.Errorf("npm takes %s", got)
	}
}
