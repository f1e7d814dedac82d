package project

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/build"
)

// npmFindings is what the npm step learned.
type npmFindings struct {
	Packages []enplace.ResolvedPackage `json:"packages"`
	Scripts  []string                  `json:"scripts"`
	Caches   []string                  `json:"caches"`
	Warnings []string                  `json:"warnings"`
}

// listScript prints what lies in node_modules, as JSON. It runs inside the sandbox.
//
//go:embed inspect.js
var listScript string

// stepNPM makes /env/<slug>/node_modules: the project's own packages first, by its lock, then the declared ones.
func (p *plan) stepNPM(ctx context.Context) (build.Outcome, error) {
	rule, err := p.readNPM(ctx)
	if err != nil {
		return "", err
	}
	p.npm = rule
	declared := slices.Sorted(slices.Values(p.run.Spec.Packages.NPM))
	if !rule.Package && len(declared) == 0 {
		return build.Skipped, nil
	}
	p.modules = true
	var found npmFindings
	python := ""
	if p.venv { // node-gyp runs the first python3 it finds
		python = p.manifest.Interpreters["python"]
	}
	res, outcome, err := p.run.Layer(ctx, build.Layer{
		Key: p.key(enplace.StepNPM, map[string]any{
			"rule": rule, "npm": declared, "registry": p.s.cfg.Registries.NPM, "scripts": p.scripts(), "node": p.base.Node, "python": python,
		}),
		Spec: p.spec(true, true), Capture: p.root, Exclude: npmLeavesOut,
		Run: func(ctx context.Context, sh *build.Shell) (any, error) { return p.installNPM(ctx, sh, declared) },
	}, &found)
	if err != nil {
		return "", err
	}
	p.layer(enplace.StepNPM, res.Image, res.Bytes)
	p.manifest.Packages = append(p.manifest.Packages, found.Packages...)
	p.manifest.Scripts = found.Scripts
	p.keepCaches(found.Caches)
	for _, w := range found.Warnings {
		p.run.Warn("%s", w)
	}
	return outcome, nil
}

// npmLeavesOut is what npm may write and nobody wants. What it writes over files of the tree needs no rule: the tree lies on top.
func npmLeavesOut(p string) bool {
	top, _, _ := strings.Cut(p, "/")
	return slices.Contains([]string{".venv", ".python", ".npm", "package-lock.json", "npm-debug.log"}, top)
}

func (p *plan) scripts() bool { return p.run.Spec.Scripts == nil || *p.run.Spec.Scripts }

func (p *plan) npmEnv() []string {
	env := append(p.buildEnv(), "npm_config_cache="+cacheDir+"/npm", "npm_config_loglevel=warn", "npm_config_fund=false", "CI=true",
		"npm_config_yes=true",
		// npm waits for whoever holds the pipe that it gives to a script; without one a script's daemon holds up nothing.
		"npm_config_foreground_scripts=true", "YARN_CACHE_FOLDER="+cacheDir+"/yarn")
	if r := p.s.cfg.Registries.NPM; r != "" {
		env = append(env, "npm_config_registry="+r)
	}
	if !p.scripts() {
		env = append(env, "npm_config_ignore_scripts=true")
	}
	return env
}

// npmCmd is a command in the project's folder.
func (p *plan) npmCmd(argv ...string) build.Cmd {
	return build.Cmd{Argv: argv, Dir: p.root, Env: p.npmEnv()}
}

// managerCmd is a command of the lock's own manager, which is no part of the project.
func (p *plan) managerCmd(args ...string) build.Cmd {
	cmd := p.npmCmd(append([]string{"npm", "exec", "--yes", "--", p.npm.Manager}, args...)...)
	cmd.Dir = "/tmp"
	return cmd
}

func (p *plan) installNPM(ctx context.Context, sh *build.Shell, declared []string) (any, error) {
	var warnings []string
	if err := p.installLock(ctx, sh, &warnings); err != nil {
		return nil, err
	}
	if len(declared) > 0 {
		install := []string{"npm", "install", "--no-save", "--no-package-lock", "--"}
		if err := sh.Do(ctx, p.npmCmd(append(install, declared...)...)); err != nil {
			return nil, err
		}
	}
	lost, err := leftAtHome(ctx, sh)
	if err != nil {
		return nil, err
	}
	return p.inspectNPM(ctx, sh, declared, append(warnings, lost...))
}

// installLock installs what package.json declares, by the manager whose lock is there.
func (p *plan) installLock(ctx context.Context, sh *build.Shell, warnings *[]string) error {
	if !p.npm.Package {
		return nil
	}
	switch p.npm.Lock {
	case "pnpm-lock.yaml":
		sh.Note("rule: pnpm-lock.yaml, by %s", p.npm.Manager)
		return sh.Do(ctx, p.managerCmd("--dir", p.root, "install", "--frozen-lockfile", "--store-dir", cacheDir+"/pnpm", "--package-import-method", "copy"))
	case "yarn.lock":
		sh.Note("rule: yarn.lock, by %s", p.npm.Manager)
		return sh.Do(ctx, p.managerCmd("--cwd", p.root, "install", "--frozen-lockfile", "--non-interactive"))
	case "":
		sh.Note("rule: package.json without a lock, by npm install")
		return sh.Do(ctx, p.npmCmd("npm", "install", "--no-package-lock"))
	}
	sh.Note("rule: %s, by npm ci", p.npm.Lock)
	out, err := sh.Try(ctx, p.npmCmd("npm", "ci"))
	if err == nil || !build.IsExit(err) || !outOfStep(out) {
		return err
	}
	*warnings = append(*warnings, fmt.Sprintf("lock not in sync: %s does not match package.json, so versions were chosen anew; the first that differ: %s", p.npm.Lock, strings.Join(lockMisses(out), ", ")))
	return sh.Do(ctx, p.npmCmd("npm", "install", "--no-audit"))
}

// outOfStep reports whether npm ci refused because lock and package.json do not match, rather than for any other reason.
func outOfStep(output string) bool {
	return strings.Contains(output, "npm ci") && strings.Contains(output, "can only install packages when your package.json and package-lock.json")
}

// lockMisses gives the lines in which npm ci names what the lock lacks or has otherwise.
func lockMisses(output string) []string {
	var out []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "npm error"))
		if (strings.HasPrefix(line, "Missing:") || strings.HasPrefix(line, "Invalid:")) && len(out) < 10 {
			out = append(out, line)
		}
	}
	return out
}

func (p *plan) inspectNPM(ctx context.Context, sh *build.Shell, declared, warnings []string) (any, error) {
	raw, err := sh.Output(ctx, build.Cmd{Argv: []string{"node", "-e", listScript, p.root}, Dir: "/", Env: p.buildEnv()})
	if err != nil {
		return nil, err
	}
	var got struct {
		Packages []struct {
			Name, Version, Integrity, Resolved string
			Scripts                            bool
			Hollow                             []string // commands whose file is not there
		} `json:"packages"`
		Caches []string `json:"caches"`
	}
	if err := decodeJSON(raw, &got); err != nil {
		return nil, err
	}
	direct := map[string]bool{}
	for _, entry := range declared {
		if pkg, err := enplace.ParsePackage(enplace.NPM, entry); err == nil {
			direct[pkg.Name] = true
		}
	}
	for _, g := range got.Packages {
		if len(g.Hollow) == 0 {
			continue
		}
		what := fmt.Sprintf("%s declares the command %s, whose file is not there", g.Name, strings.Join(g.Hollow, ", "))
		if direct[g.Name] || slices.Contains(p.npm.Direct, g.Name) {
			return nil, &enplace.Failure{Reason: enplace.ReasonExit, Message: what,
				Fixes: []string{"its install script may have failed without saying so: see the log", "declare another version"}}
		}
		warnings = append(warnings, what)
	}
	found := npmFindings{Packages: []enplace.ResolvedPackage{}, Caches: got.Caches, Warnings: warnings}
	for _, g := range got.Packages {
		found.Packages = append(found.Packages, enplace.ResolvedPackage{
			Manager: enplace.NPM, Name: g.Name, Version: g.Version, Hash: g.Integrity, Source: g.Resolved, Direct: direct[g.Name],
		})
		if g.Scripts && p.scripts() {
			found.Scripts = append(found.Scripts, g.Name+"@"+g.Version)
		}
	}
	return found, nil
}
