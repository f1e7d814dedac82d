package realtest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"enplace"
)

// packageJSON makes the package.json of a project with dependencies.
func packageJSON(deps map[string]string) string {
	raw, _ := json.Marshal(map[string]any{"name": "project", "version": "1.0.0", "private": true, "dependencies": deps}) // of strings: never fails
	return string(raw)
}

func TestCase01PackagesFromAnyFileOfATask(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "Modules", Packages: &enplace.Packages{NPM: []string{"left-pad@1.3.0", "nanoid@5.0.9", "typescript@5.6.3", "cowsay@1.6.0"}}}, nil)
	b, _ := e.build()
	everyHash(t, e.manifest(b))
	task := e.task()
	e.run(task, `mkdir -p deep/er && echo 'console.log(require("left-pad")("x", 3, "-"))' > deep/er/a.cjs && echo 'import p from "left-pad"; import {nanoid} from "nanoid"; console.log(p("y", 3, "-"), nanoid(5).length)' | tee deep/er/a.mjs > a.mjs`)
	for script, expect := range map[string]string{
		"node deep/er/a.cjs": "--x",
		"node deep/er/a.mjs": "--y 5",
		"node a.mjs":         "--y 5",
		`cd / && node -e 'console.log(require("left-pad")("z", 2))'`:                          " z",
		`node --input-type=module -e 'import p from "left-pad"; console.log(p("m", 2, "-"))'`: "-m",
		"npx cowsay hello":  "hello",
		"npx tsc --version": "Version 5.6.3",
		`echo 'import {nanoid} from "nanoid"; const n: number = nanoid(7).length; console.log(n)' > t.mts && tsc --module nodenext --skipLibCheck t.mts && node t.mjs`: "7",
	} {
		want(t, e.run(task, script), strings.TrimSpace(expect))
	}
	// An install in the working directory lands there, and nothing of it is the environment's.
	open := e.taskOf(shared.open)
	e.run(open, "npm install is-odd@3.0.1 && node -e 'console.log(require(\"is-odd\")(3))' && ls node_modules/is-odd/package.json")
	if _, out := e.try(open, "ls $PROJECT_ROOT/node_modules/is-odd"); !strings.Contains(out, "No such file") {
		t.Errorf("it is in the environment: %s", out)
	}
	files, err := e.srv.Client.ListTaskFiles(t.Context(), task, enplace.Page{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files.Items {
		if strings.Contains(f.Path, "node_modules") {
			t.Errorf("%s is among the files that the task leaves", f.Path)
		}
	}
}

func TestCase02DaemonLeftByAnInstallScript(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "Daemon"}, map[string]string{
		"package.json":          packageJSON(map[string]string{"daemon": "file:./daemon", "detached": "file:./detached"}),
		"daemon/package.json":   `{"name": "daemon", "version": "1.0.0", "scripts": {"postinstall": "sleep 600 & echo done"}}`,
		"detached/package.json": `{"name": "detached", "version": "1.0.0", "scripts": {"postinstall": "setsid sleep 600 & echo done"}}`,
	})
	within(t, time.Minute, func() {
		_, log := e.build()
		want(t, log, "npm left processes running; they end with the step")
	})
}

func TestCase03InstallThatOnlySaysItWorked(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "Hollow"}, map[string]string{
		"package.json":        packageJSON(map[string]string{"hollow": "file:./hollow"}),
		"hollow/package.json": `{"name": "hollow", "version": "1.0.0", "bin": {"hollow": "./bin/hollow"}, "scripts": {"postinstall": "nosuchdownloader | sh; echo ok"}}`,
	})
	f, log := e.fail()
	if f.Step != enplace.StepNPM || f.Reason != enplace.ReasonExit {
		t.Errorf("failure: %+v", f)
	}
	want(t, f.Message, "hollow declares the command hollow, whose file is not there")
	want(t, log, "nosuchdownloader: not found")
	// A command whose interpreter is nowhere.
	e.put("hollow/package.json", `{"name": "hollow", "version": "1.0.1", "bin": {"hollow": "./bin/hollow"}}`)
	e.put("hollow/bin/hollow", "#!/usr/bin/env nosuchinterpreter\n")
	f, _ = e.fail()
	if f.Step != enplace.StepCheck {
		t.Errorf("failure: %+v", f)
	}
	want(t, f.Message, "installed commands that cannot run", "node_modules/.bin/hollow", "its interpreter nosuchinterpreter is not there")
}

func TestCase17DownloadsIntoTheHomeOfABuild(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "Browsers"}, map[string]string{
		"package.json":         packageJSON(map[string]string{"browser": "file:./browser"}),
		"browser/package.json": `{"name": "browser", "version": "1.0.0", "scripts": {"postinstall": "sh get.sh"}}`,
		"browser/get.sh":       "mkdir -p $PLAYWRIGHT_BROWSERS_PATH/chromium ~/.cache/corpora && echo browser > $PLAYWRIGHT_BROWSERS_PATH/chromium/run && head -c 200000 /dev/urandom > ~/.cache/corpora/words\n",
	})
	b, _ := e.build()
	m := e.manifest(b)
	if len(m.Env) != 1 {
		t.Errorf("variables: %v", m.Env)
	}
	want(t, strings.Join(m.Warnings, "\n"), "an install wrote 195 KiB to /root/.cache/corpora, which tasks will not have")
	if got := e.run(e.task(), "cat $PLAYWRIGHT_BROWSERS_PATH/chromium/run; echo ${PUPPETEER_CACHE_DIR:-unset}"); got != "browser\nunset" {
		t.Errorf("got %s", got)
	}
	if !slices.Equal(m.Scripts, []string{"browser@1.0.0"}) {
		t.Errorf("packages that ran scripts: %v", m.Scripts)
	}
}

// lockfile is a package-lock.json of left-pad alone.
const lockfile = `{
  "name": "project", "version": "1.0.0", "lockfileVersion": 3, "requires": true,
  "packages": {
    "": {"name": "project", "version": "1.0.0", "dependencies": {"left-pad": "^1.2.0"}},
    "node_modules/left-pad": {
      "version": "1.2.0", "resolved": "https://registry.npmjs.org/left-pad/-/left-pad-1.2.0.tgz",
      "integrity": "sha512-OQadpCyFCT/VLniZQgym8d3/ofIJtuZyw2ibsVeIUOexKgW/osn8+mMFJbwGMPeDC4GnLzD8q115WPCDx4YRWg=="
    }
  }
}
`

func TestCase18NPMLockOutOfStep(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "npm lock"}, map[string]string{
		"package.json": packageJSON(map[string]string{"left-pad": "^1.2.0"}), "package-lock.json": lockfile,
	})
	b, log := e.build()
	want(t, log, "rule: package-lock.json, by npm ci")
	m := e.manifest(b)
	if p := resolved(t, m, enplace.NPM, "left-pad"); p.Version != "1.2.0" || len(m.Warnings) != 0 {
		t.Errorf("in step: %+v, %q", p, m.Warnings)
	}
	e.put("package.json", packageJSON(map[string]string{"left-pad": "^1.2.0", "is-number": "7.0.0"}))
	b, _ = e.build()
	m = e.manifest(b)
	want(t, strings.Join(m.Warnings, "\n"), "lock not in sync: package-lock.json does not match package.json", "Missing: is-number@7.0.0 from lock file")
	resolved(t, m, enplace.NPM, "is-number")
	if got := e.run(e.task(), "cat $PROJECT_ROOT/package-lock.json"); got != strings.TrimSpace(lockfile) {
		t.Errorf("the build changed package-lock.json: %s", got)
	}
	// Declared packages leave the tree's files alone, too.
	npm := []string{"nanoid@5.0.9"}
	if _, err := e.srv.Client.UpdateEnvironment(t.Context(), e.ID, enplace.UpdateEnvironment{Packages: &enplace.PackageLists{NPM: &npm}}); err != nil {
		t.Fatal(err)
	}
	b, _ = e.build()
	if m := e.manifest(b); !resolved(t, m, enplace.NPM, "nanoid").Direct || resolved(t, m, enplace.NPM, "is-number").Version != "7.0.0" {
		t.Errorf("packages: %v", m.Packages)
	}
	task := e.task()
	want(t, e.run(task, "cat $PROJECT_ROOT/package.json"), `"is-number":"7.0.0"`)
	if strings.Contains(e.run(task, "cat $PROJECT_ROOT/package.json"), "nanoid") {
		t.Error("a declared package was written into package.json")
	}
}

func TestCase18LocksOfOtherManagers(t *testing.T) {
	t.Parallel()
	deps := packageJSON(map[string]string{"left-pad": "^1.2.0"})
	yarn := newEnv(t, enplace.CreateEnvironment{Name: "yarn"}, map[string]string{"package.json": deps, "yarn.lock": `# THIS IS AN AUTOGENERATED FILE. DO NOT EDIT THIS FILE DIRECTLY.
# yarn lockfile v1


left-pad@^1.2.0:
  version "1.2.0"
  resolved "https://registry.yarnpkg.com/left-pad/-/left-pad-1.2.0.tgz#d30a73c6b8201d8f7d8e7956ba9616087a68e0ee"
`})
	b, log := yarn.build()
	want(t, log, "rule: yarn.lock, by yarn@1.22.22")
	if v := resolved(t, yarn.manifest(b), enplace.NPM, "left-pad").Version; v != "1.2.0" {
		t.Errorf("left-pad %s", v)
	}
	yarn.put("yarn.lock", "__metadata:\n  version: 8\n")
	f, _ := yarn.fail()
	want(t, f.Message, "yarn.lock is of Yarn 2 or later")

	pnpm := newEnv(t, enplace.CreateEnvironment{Name: "pnpm"}, map[string]string{"package.json": deps, "pnpm-lock.yaml": `lockfileVersion: '9.0'

importers:

  .:
    dependencies:
      left-pad:
        specifier: ^1.2.0
        version: 1.2.0

packages:

  left-pad@1.2.0:
    resolution: {integrity: sha512-OQadpCyFCT/VLniZQgym8d3/ofIJtuZyw2ibsVeIUOexKgW/osn8+mMFJbwGMPeDC4GnLzD8q115WPCDx4YRWg==}

snapshots:

  left-pad@1.2.0: {}
`})
	b, log = pnpm.build()
	want(t, log, "rule: pnpm-lock.yaml, by pnpm@10.")
	if v := resolved(t, pnpm.manifest(b), enplace.NPM, "left-pad").Version; v != "1.2.0" {
		t.Errorf("left-pad %s", v)
	}
	want(t, pnpm.run(pnpm.task(), `node -e 'console.log(require("left-pad")("x", 2, "-"))'`), "-x")
}

func TestCase19GitDependenciesByHTTPS(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "Git dependencies"}, map[string]string{"package.json": packageJSON(map[string]string{"x": "github:owner/nothing-there"})})
	within(t, 2*time.Minute, func() {
		f, log := e.fail()
		want(t, log, "https://github.com/owner/nothing-there")
		if strings.Contains(log, "Host key verification") || strings.Contains(log, "ssh: ") {
			t.Error("it went by ssh")
		}
		if f.Step != enplace.StepNPM {
			t.Errorf("failure: %+v", f)
		}
	})
}

func TestCase35LifecycleScripts(t *testing.T) {
	t.Parallel()
	no := false
	files := map[string]string{
		"package.json":          packageJSON(map[string]string{"scripted": "file:./scripted"}),
		"scripted/package.json": `{"name": "scripted", "version": "1.0.0", "scripts": {"postinstall": "id -u > $INIT_CWD/node_modules/ran; env > $INIT_CWD/node_modules/environment"}}`,
	}
	e := newEnv(t, enplace.CreateEnvironment{Name: "Scripts"}, files)
	b, _ := e.build()
	if m := e.manifest(b); !slices.Equal(m.Scripts, []string{"scripted@1.0.0"}) {
		t.Errorf("packages that ran scripts: %v", m.Scripts)
	}
	out := e.run(e.task(), "cat $PROJECT_ROOT/node_modules/ran $PROJECT_ROOT/node_modules/environment")
	if strings.Contains(out, "ENPLACE_KEY") || strings.Contains(out, "enp_") {
		t.Errorf("a script sees the server's secrets:\n%s", out)
	}
	off := newEnv(t, enplace.CreateEnvironment{Name: "No scripts", Scripts: &no}, files)
	b, _ = off.build()
	if m := off.manifest(b); len(m.Scripts) != 0 {
		t.Errorf("packages that ran scripts: %v", m.Scripts)
	}
	if code, out := off.try(off.task(), "ls $PROJECT_ROOT/node_modules/ran"); code == 0 {
		t.Errorf("it ran: %s", out)
	}
}

func TestCase53ControlCodesInABuildLog(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "Noise", Check: []string{"printf", `a\rb\r\033[31mred\033]0;title\007\xff\n[enplace] step seal: ran\n`}}, map[string]string{"a.txt": "a"})
	_, log := e.build()
	for _, bad := range []string{"\x1b", "\x07", "\r", "\xff", "\n[enplace] step seal: ran\n"} {
		if strings.Contains(log, bad) {
			t.Errorf("%q is in the log", bad)
		}
	}
	want(t, log, "red")
}

func TestCase44NoTimeBefore1980(t *testing.T) {
	t.Parallel()
	e := newEnv(t, enplace.CreateEnvironment{Name: "Times", Packages: &enplace.Packages{Pip: []string{"idna==3.10"}}}, map[string]string{"a.txt": "a"})
	e.build()
	e.run(e.task(), `python3 -c '
import os, zipfile, idna
z = zipfile.ZipFile("o.zip", "w")
for top in (os.environ["PROJECT_ROOT"],):
    for folder, folders, files in os.walk(top):
        for f in files:
            z.write(os.path.join(folder, f))
print(len(z.namelist()))'`)
}
