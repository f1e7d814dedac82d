package project

import (
	"context"
	"fmt"
	"strings"

	"enplace"
	"enplace/internal/build"
)

// stepFiles installs the project itself, where it says how it is built: without its dependencies, which are there. A project
// that cannot be built is no reason to have no version: its dependencies stay, and a warning says so.
func (p *plan) stepFiles(ctx context.Context) (build.Outcome, error) {
	if !p.python.Buildable {
		return build.Skipped, nil
	}
	var found pythonFindings
	res, outcome, err := p.run.Layer(ctx, build.Layer{
		Key: p.key(enplace.StepFiles, map[string]any{
			"rule": p.python, "below": p.projectImages(), "describe": p.run.Spec.Tree.Describe, "pip": p.run.Spec.Packages.Pip, "index": p.pipIndex(),
		}),
		Spec: p.spec(true, true), Capture: p.root, Exclude: onlyInstalled(".venv", ".cache"),
		Run: func(ctx context.Context, sh *build.Shell) (any, error) { return p.installProject(ctx, sh) },
	}, &found)
	if err != nil {
		return "", err
	}
	p.layer(enplace.StepFiles, res.Image, res.Bytes)
	p.keepPython(found)
	return outcome, nil
}

func (p *plan) installProject(ctx context.Context, sh *build.Shell) (any, error) {
	if err := p.settleCache(ctx, sh); err != nil {
		return nil, err
	}
	args := []string{"pip", "install", "."}
	switch {
	case p.python.UVLock:
		args = p.sync("--no-editable")
	case p.python.PoetryLock, p.python.Pyproject:
		args = []string{"pip", "install", "--no-deps", "."}
	}
	cmd := p.uv(args...)
	if p.python.GitVersion && !p.isFile("PKG-INFO") { // a source distribution knows its version; a checkout without .git does not
		version := pretendVersion(p.run.Spec.Tree.Describe)
		sh.Note("the project takes its version from git, whose history is not here: it is given version %s", version)
		for _, name := range versionVariables {
			cmd.Env = append(cmd.Env, name+"="+version)
		}
	}
	var warnings []string
	if err := sh.Do(ctx, cmd); err != nil {
		if !build.IsExit(err) {
			return nil, err
		}
		path := p.root
		if p.hasBelow("src") {
			path += "/src"
		}
		warnings = append(warnings, fmt.Sprintf("the project itself could not be installed, only its dependencies are there (%v); set PYTHONPATH to %s in tasks that import it", err, path))
	}
	got, err := p.finishPython(ctx, sh, nil)
	if err != nil {
		return nil, err
	}
	return p.foundPython(ctx, sh, p.locked(), got, warnings)
}

// locked gives the packages that the Python step installed, so that their hashes are not looked up again.
func (p *plan) locked() pythonLock {
	lock := pythonLock{}
	for _, pkg := range p.manifest.Packages {
		if pkg.Manager == enplace.Pip && pkg.Hash != "" {
			known := &lockedFile{Hashes: map[string]string{"sha256": strings.TrimPrefix(pkg.Hash, "sha256:")}}
			lock[pkg.Name] = lockedPackage{Name: pkg.Name, Version: pkg.Version, Index: pkg.Source, Sdist: known}
		}
	}
	return lock
}

// versionVariables tell the tools that take a version from git what it is. Sources: the documentation of setuptools-scm (and
// hatch-vcs, which uses it), pbr, pdm-backend, uv-dynamic-versioning and poetry-dynamic-versioning.
var versionVariables = []string{
	"SETUPTOOLS_SCM_PRETEND_VERSION", "PBR_VERSION", "PDM_BUILD_SCM_VERSION", "UV_DYNAMIC_VERSIONING_BYPASS", "POETRY_DYNAMIC_VERSIONING_BYPASS",
}

// pretendVersion turns what git describe said into a version. Source: PEP 440, and the scheme of setuptools-scm.
func pretendVersion(describe string) string {
	tag, distance, commit := describe, "0", ""
	if parts := strings.Split(describe, "-"); len(parts) >= 3 && strings.HasPrefix(parts[len(parts)-1], "g") {
		tag = strings.Join(parts[:len(parts)-2], "-")
		distance, commit = parts[len(parts)-2], parts[len(parts)-1]
	}
	tag = strings.TrimPrefix(tag, "v")
	if tag == "" || strings.Trim(tag, "0123456789.") != "" {
		return "0.0.0"
	}
	if distance == "0" {
		return tag
	}
	return tag + ".post" + distance + "+" + commit
}
