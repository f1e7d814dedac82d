package project

import (
	"context"
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
