package project

import (
	"context"
	_ "embed"
	"errors"
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
			err := sh.Do(ctx, build.Cmd{Argv: p.run.Spec.Check, Dir: p.root, Env: p.taskEnv()})
			if f, ok := errors.AsType[*enplace.Failure](err); ok && f.Reason == enplace.ReasonExit {
				f.Message = "the environment's own check failed: " + f.Message
			}
			return nil, err
		},
	}, nil)
	return build.Ran, err
}

// taskEnv are the variables that a task will have.
func (p *plan) taskEnv() []string {
	m := enplace.Manifest{Images: p.layers, Env: p.downloaded()}
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
	out, err = sh.Output(ctx, build.Cmd{Argv: []string{"sh", "-c", checkScript, "check", p.root}, Env: p.taskEnv()})
	if err != nil {
		return nil, err
	}
	seen := readChecked(out)
	if len(seen.broken) > 0 {
		return nil, &enplace.Failure{
			Reason: enplace.ReasonExit, Message: "installed commands that cannot run: " + strings.Join(seen.broken[:min(5, len(seen.broken))], "; "),
			Fixes: []string{"the package that brings such a command is broken, made for another system, or its install script failed without saying so: see the log"},
		}
	}
	f.Warnings = seen.missing()
	return f, nil
}

// checkScript looks at commands and native modules. It runs inside the sandbox.
//
//go:embed check.sh
var checkScript string

// checked is what checkScript found.
type checked struct {
	broken []string          // commands, with what is wrong
	have   map[string]bool   // libraries
	needs  map[string]string // libraries, with a module that needs them
}

func readChecked(out []byte) checked {
	c := checked{have: map[string]bool{}, needs: map[string]string{}}
	var file, machine, own string
	for line := range strings.Lines(string(out)) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "broken":
			c.broken = append(c.broken, rest)
		case "have":
			c.have[rest] = true
		case "file":
			file = rest
		case "machine":
			machine = rest
			if own == "" {
				own = rest
			}
		case "need":
			if _, known := c.needs[rest]; !known && machine == own && ours(file, rest) {
				c.needs[rest] = file
			}
		}
	}
	return c
}

// ours reports whether a module is one that this system would load: builds for other C libraries lie beside those for glibc.
func ours(file, library string) bool {
	return !strings.Contains(file, "musl") && !strings.Contains(file, "android") && !strings.HasPrefix(library, "libc.musl") && !strings.HasPrefix(library, "ld-")
}

// missing gives a warning for each library that neither the system nor the environment has. A warning and no failure: optional
// plugins lack theirs on purpose.
func (c checked) missing() []string {
	var missing []string
	for lib, by := range c.needs {
		if !c.have[lib] {
			missing = append(missing, fmt.Sprintf("%s needs %s, which is not installed; declare the Debian package that has it if you use it", path.Clean(by), lib))
		}
	}
	slices.Sort(missing)
	if len(missing) > 20 {
		missing = append(missing[:20], fmt.Sprintf("and %d more native modules lack a library", len(missing)-20))
	}
	return missing
}
