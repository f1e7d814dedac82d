package project

import (
	"context"
	"fmt"
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
	var found pythonFindings
	res, outcome, err := p.run.Layer(ctx, build.Layer{
		Key: p.key(enplace.StepPython, map[string]any{
			"rule": rule, "pip": spec.Packages.Pip, "python": spec.PythonVersion, "index": p.pipIndex(), "base_python": p.base.Python,
		}),
		Spec: p.spec(true, true), Capture: p.root, Exclude: p.pythonLeavesOut(),
		Run: func(ctx context.Context, sh *build.Shell) (any, error) { return p.installPython(ctx, sh) },
	}, &found)
	if err != nil {
		return "", err
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
	if !p.python.InPlace {
		return onlyInstalled(".venv", ".python", ".cache")
	}
	return func(path string) bool {
		top, _, _ := strings.Cut(path, "/")
		return top == "build" || top == "node_modules"
	}
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

func (p *plan) installPython(ctx context.Context, sh *build.Shell) (any, error) {
	python, err := p.interpreter(ctx, sh)
	if err != nil {
		return nil, err
	}
	if err := sh.Do(ctx, p.uv("venv", "--no-project", "--no-config", "--python", python, p.root+"/.venv")); err != nil {
		return nil, err
	}
	in := &installation{plan: p, sh: sh, lock: pythonLock{}}
	if err := in.rule(ctx); err != nil {
		return nil, err
	}
	if err := in.declared(ctx); err != nil {
		return nil, err
	}
	if err := p.finishPython(ctx, sh); err != nil {
		return nil, err
	}
	lost, err := leftAtHome(ctx, sh)
	if err != nil {
		return nil, err
	}
	return p.inspectPython(ctx, sh, in.lock, append(in.warnings, lost...))
}

// interpreter gives the Python that the environment asks for: the base's when it will do, else one of uv's managed ones,
// installed into the version.
func (p *plan) interpreter(ctx context.Context, sh *build.Shell) (string, error) {
	want := p.run.Spec.PythonVersion
	if want == "" || want == p.base.Python || strings.HasPrefix(p.base.Python, want+".") {
		if want != "" || p.python.Requires == "" || p.baseFits(ctx, sh) {
			return "/usr/bin/python3", nil
		}
		want = p.python.Requires
		sh.Note("requires-python is %s, which the base's Python %s is not", want, p.base.Python)
	}
	if err := sh.Do(ctx, p.uv("python", "install", "--no-bin", want)); err != nil {
		if !build.IsExit(err) {
			return "", err
		}
		return "", &enplace.Failure{Reason: enplace.ReasonExit, Message: fmt.Sprintf("Python %s could not be installed; the log has uv's reason", want), Fixes: []string{
			"leave python_version out to use the base's Python " + p.base.Python,
			"if this site does not reach the default download place, set a mirror on the server: enplace serve --python-mirror URL",
		}}
	}
	out, err := sh.Output(ctx, p.uv("python", "find", "--managed-python", "--no-project", want))
	return strings.TrimSpace(string(out)), err
}

// baseFits asks uv whether the base's Python meets requires-python.
func (p *plan) baseFits(ctx context.Context, sh *build.Shell) bool {
	_, err := sh.Output(ctx, p.uv("python", "find", "--system", "--no-project", "--no-python-downloads", p.python.Requires))
	return err == nil
}
