package project

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/build"
	"enplace/internal/sandbox"
)

// checkFindings is what the check of the installed packages learned.
type checkFindings struct {
	Node     string   `json:"node"`
	Python   string   `json:"python"`
	Warnings []string `json:"warnings"`
}

// stepCheck proves the result where tasks will see it, read only: interpreters start, each command's interpreter exists,
// native modules have their libraries, and the user's own command passes.
func (p *plan) stepCheck(ctx context.Context) (build.Outcome, error) {
	var found checkFindings
	spec := p.spec(false, false)
	spec.Limits = enplace.DefaultTaskLimits // a sandbox as tasks have it: the pool starts to hold some of this root ready
	_, outcome, err := p.run.Layer(ctx, build.Layer{
		// Only the layers of packages: a change of the tree alone does not change them, and checking them takes a while.
		Key:  p.key(enplace.StepCheck, map[string]any{"layers": p.layers, "venv": p.venv, "modules": p.modules}),
		Spec: spec,
		Run:  func(ctx context.Context, sh *build.Shell) (any, error) { return p.checkInstalled(ctx, sh) },
	}, &found)
	if err != nil {
		return "", err
	}
	for _, w := range found.Warnings {
		p.run.Warn("%s", w)
	}
	if found.Node != "" {
		p.manifest.Interpreters["node"] = found.Node
	}
	if found.Python != "" {
		p.manifest.Interpreters["python"] = found.Python
	}
	if len(p.run.Spec.Check) == 0 {
		return outcome, nil
	}
	// The user's command may look at anything, so it runs each time.
	_, _, err = p.run.Layer(ctx, build.Layer{
		Key: []any{"check", p.run.Environment, p.run.N}, Spec: spec,
		Run: func(ctx context.Context, sh *build.Shell) (any, error) {
			return nil, sh.Do(ctx, build.Cmd{Argv: p.run.Spec.Check, Dir: p.root, Env: p.taskEnv()})
		},
	}, nil)
	return build.Ran, err
}

// taskEnv are the variables that a task will have.
func (p *plan) taskEnv() []string {
	m := enplace.Manifest{Images: p.layers, Env: p.manifest.Env}
	return sandbox.Env(m.Bin(p.root), m.Vars(p.root))
}

func (p *plan) checkInstalled(ctx context.Context, sh *build.Shell) (any, error) {
	var f checkFindings
	python := "/usr/bin/python3"
	if p.venv {
		python = p.root + "/.venv/bin/python3"
	}
	out, err := sh.Output(ctx, build.Cmd{Argv: []string{python, "-c", "import platform; print(platform.python_version())"}, Env: p.taskEnv()})
	if err == nil {
		f.Python = strings.TrimSpace(string(out))
	} else if p.venv {
		return nil, fmt.Errorf("the environment's Python does not start: %w", err)
	}
	if out, err := sh.Output(ctx, build.Cmd{Argv: []string{"node", "-p", "process.versions.node"}, Env: p.taskEnv()}); err == nil {
		f.Node = strings.TrimSpace(string(out))
	} else if p.modules {
		return nil, fmt.Errorf("node does not start: %w", err)
	}
	if err := p.checkCommands(ctx, sh); err != nil {
		return nil, err
	}
	f.Warnings, err = p.checkLibraries(ctx, sh)
	return f, err
}

// checkCommands reads the first line of each installed command, and proves that the interpreter it names is there.
func (p *plan) checkCommands(ctx context.Context, sh *build.Shell) error {
	const script = `for f in "$1"/.venv/bin/* "$1"/node_modules/.bin/*; do
  [ -e "$f" ] || { [ -L "$f" ] && echo "$f: links to $(readlink "$f"), which is not there"; continue; }
  [ -f "$f" ] && [ -x "$f" ] || continue
  IFS= read -r line < "$f" 2>/dev/null || continue
  case "$line" in '#!'*) ;; *) continue;; esac
  set -- "$1" ${line#??}
  [ -x "$2" ] || echo "$f: its interpreter $2 is not there"
done`
	out, err := sh.Output(ctx, build.Cmd{Argv: []string{"sh", "-fc", "set +f\n" + script, "check", p.root}, Env: p.taskEnv()})
	if err != nil {
		return err
	}
	if broken := strings.TrimSpace(string(out)); broken != "" {
		lines := strings.Split(broken, "\n")
		return &enplace.Failure{Reason: enplace.ReasonExit, Message: "installed commands that cannot run: " + strings.Join(lines[:min(5, len(lines))], "; "),
			Fixes: []string{"see the log; a package that brings such a command is broken or made for another system"}}
	}
	return nil
}

// checkLibraries reads the dynamic section of every native module, and warns of libraries that neither the system nor the
// environment has. A warning and no failure: optional plugins lack theirs on purpose.
func (p *plan) checkLibraries(ctx context.Context, sh *build.Shell) ([]string, error) {
	const script = `command -v readelf >/dev/null || exit 0
ldconfig -p 2>/dev/null | sed -n 's/^[[:space:]]*\([^ ]*\) .*/have \1/p'
cd "$1" || exit 0
find .venv .python node_modules -type f \( -name '*.so' -o -name '*.so.*' -o -name '*.node' \) -print 2>/dev/null | head -20000 > /tmp/modules
sed 's|.*/|have |' /tmp/modules
tr '\n' '\0' < /tmp/modules | xargs -0 -r readelf -dW 2>/dev/null | sed -n 's/^File: /file /p; s/.*(NEEDED).*\[\(.*\)\]$/need \1/p'`
	out, err := sh.Output(ctx, build.Cmd{Argv: []string{"sh", "-c", script, "check", p.root}, Env: p.taskEnv()})
	if err != nil {
		return nil, err
	}
	return missingLibraries(out), nil
}

func missingLibraries(out []byte) []string {
	have, needs := map[string]bool{}, map[string]string{}
	file := ""
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		word, rest, _ := strings.Cut(sc.Text(), " ")
		switch word {
		case "have":
			have[rest] = true
		case "file":
			file = rest
		case "need":
			if _, ok := needs[rest]; !ok {
				needs[rest] = file
			}
		}
	}
	var missing []string
	for lib, by := range needs {
		// A musl build beside the glibc one is never loaded here.
		if !have[lib] && !strings.Contains(by, "musl") && !strings.HasPrefix(lib, "libc.musl") && !strings.HasPrefix(lib, "ld-linux") {
			missing = append(missing, fmt.Sprintf("%s needs %s, which is not installed; declare the Debian package that has it if you use it", path.Clean(by), lib))
		}
	}
	slices.Sort(missing)
	if len(missing) > 20 {
		missing = append(missing[:20], fmt.Sprintf("and %d more native modules lack a library", len(missing)-20))
	}
	return missing
}
