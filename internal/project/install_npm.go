package project

import (
	"context"
	"fmt"
	"strings"

	"enplace/internal/build"
)

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
