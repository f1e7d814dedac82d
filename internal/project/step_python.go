package project

import (
	"context"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/build"
)

// pythonFindings is what the Python step learned.
type pythonFindings struct {
	Python   string                    `json:"python"`
	Packages []enplace.ResolvedPackage `json:"packages"`
	Caches   []string                  `json:"caches"`
	Warnings []string                  `json:"warnings"`
}

// stepPython makes /env/<slug>/.venv: the project's own dependencies by the tool whose files it has, then the declared ones.
func (p *plan) stepPython(ctx context.Context) (build.Outcome, error) {
	rule, err := p.readPython(ctx)
	if err != nil {
		return "", err
	}
	p.python = rule
	for _, n := range rule.Notes {
		p.run.Warn("%s", n)
	}
	spec := p.run.Spec
	if !rule.any() && len(spec.Packages.Pip) == 0 && spec.PythonVersion == "" {
		return build.Skipped, nil
	}
	p.venv = true
	if p.emptyVenv, err = p.layVenv(ctx); err != nil {
		return "", err
	}
	r := &reuse{plan: p}
	var found pythonFindings
	res, outcome, err := p.run.Layer(ctx, build.Layer{
		Key: p.key(enplace.StepPython, map[string]any{
			"rule": rule, "pip": spec.Packages.Pip, "python": spec.PythonVersion, "index": p.pipIndex(), "base_python": p.base.Python,
			"venv": p.emptyVenv,
		}),
		Spec: p.spec(true, true), Capture: p.root, Below: r.below, Exclude: p.pythonLeavesOut(),
		Run: func(ctx context.Context, sh *build.Shell) (any, error) { return p.installPython(ctx, sh, r) },
	}, &found)
	if err != nil {
		return "", err
	}
	if outcome == build.Ran {
		r.leave(ctx, res.Image, found)
	}
	p.layer(enplace.StepPython, res.Image, res.Bytes)
	p.keepPython(found)
	return outcome, nil
}

func (p *plan) keepPython(found pythonFindings) {
	p.manifest.Interpreters["python"] = found.Python
	p.manifest.Packages = slices.DeleteFunc(p.manifest.Packages, func(r enplace.ResolvedPackage) bool { return r.Manager == enplace.Pip })
	p.manifest.Packages = append(p.manifest.Packages, found.Packages...)
	p.keepCaches(found.Caches)
	for _, w := range found.Warnings {
		p.run.Warn("%s", w)
	}
}

// onlyInstalled keeps what lies in the named folders and leaves out all else: what a build of a package leaves beside its
// sources is of no use.
func onlyInstalled(dirs ...string) func(string) bool {
	return func(path string) bool {
		top, _, _ := strings.Cut(path, "/")
		return top != "." && top != "" && !slices.Contains(dirs, top)
	}
}

// pythonLeavesOut is what the Python step does not keep. A package installed in place, from the tree, needs what its build
// left there.
func (p *plan) pythonLeavesOut() func(string) bool {
	leftOut := onlyInstalled(".venv", ".python", ".cache")
	if p.python.InPlace {
		leftOut = func(path string) bool {
			top, _, _ := strings.Cut(path, "/")
			return top == "build" || top == "node_modules"
		}
	}
	return func(path string) bool { return path == uvLockFile || leftOut(path) }
}

func (p *plan) pipIndex() string {
	switch {
	case p.run.Spec.PipIndexURL != "":
		return p.run.Spec.PipIndexURL
	case p.s.cfg.Registries.PyPI != "":
		return p.s.cfg.Registries.PyPI
	}
	return "https://pypi.org/simple"
}

// uvEnv are uv's settings. Source: uv's reference of environment variables.
func (p *plan) uvEnv() []string {
	env := append(p.buildEnv(),
		"UV_CACHE_DIR="+cacheDir+"/uv", "UV_LINK_MODE=copy",
		"UV_PROJECT_ENVIRONMENT="+p.root+"/.venv", "VIRTUAL_ENV="+p.root+"/.venv", "UV_PYTHON_INSTALL_DIR="+p.root+"/.python",
		"UV_PYTHON_DOWNLOADS=manual", "UV_HTTP_TIMEOUT=120", "UV_DEFAULT_INDEX="+p.pipIndex(), "PIP_CACHE_DIR="+cacheDir+"/pip",
	)
	if m := p.s.cfg.Registries.PythonMirror; m != "" {
		env = append(env, "UV_PYTHON_INSTALL_MIRROR="+m)
	}
	if l := p.s.cfg.Registries.PythonList; l != "" {
		env = append(env, "UV_PYTHON_DOWNLOADS_JSON_URL="+l)
	}
	return env
}

// uv is a command in the project's folder.
func (p *plan) uv(args ...string) build.Cmd {
	return build.Cmd{Argv: append([]string{"uv"}, args...), Dir: p.root, Env: p.uvEnv()}
}

// python3 is the interpreter of the environment being built.
func (p *plan) python3() string { return p.root + "/.venv/bin/python" }

// installPython fills the virtual environment that lies below, with what was laid into it already.
func (p *plan) installPython(ctx context.Context, sh *build.Shell, r *reuse) (any, error) {
	if err := p.settleCache(ctx, sh); err != nil {
		return nil, err
	}
	in := &installation{plan: p, sh: sh, lock: pythonLock{}, done: pythonLock{}, laid: r.laid}
	if err := in.ahead(ctx); err != nil {
		return nil, err
	}
	if err := in.rule(ctx); err != nil {
		return nil, err
	}
	if err := in.declared(ctx); err != nil {
		return nil, err
	}
	if in.pipGone {
		if err := p.placePip(ctx, sh); err != nil {
			return nil, err
		}
	}
	lost, err := leftAtHome(ctx, sh)
	if err != nil {
		return nil, err
	}
	got, err := p.finishPython(ctx, sh, in.laid)
	if err != nil {
		return nil, err
	}
	r.took(sh, in, got)
	return p.foundPython(ctx, sh, in.lock, got, append(in.warnings, lost...))
}
