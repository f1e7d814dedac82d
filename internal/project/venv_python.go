package project

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/build"
	"enplace/internal/sandbox"
)

// layVenv gives the image of a virtual environment without packages, and of its interpreter where that is one of uv's. It is a
// layer of its own, which no list of packages changes and no package's code can reach.
func (p *plan) layVenv(ctx context.Context) (enplace.Digest, error) {
	spec := p.spec(true, false)
	spec.Mounts = []sandbox.Mount{{Path: p.root, Writable: true}}
	res, _, err := p.run.Layer(ctx, build.Layer{
		Key: p.key("venv", map[string]any{
			"python": p.run.Spec.PythonVersion, "requires": p.python.Requires, "base_python": p.base.Python,
			"mirror": p.s.cfg.Registries.PythonMirror, "list": p.s.cfg.Registries.PythonList,
		}),
		Spec: spec, Capture: p.root, Exclude: onlyInstalled(".venv", ".python"),
		Run: func(ctx context.Context, sh *build.Shell) (any, error) { return nil, p.makeVenv(ctx, sh) },
	}, nil)
	return res.Image, err
}

func (p *plan) makeVenv(ctx context.Context, sh *build.Shell) error {
	python, err := p.interpreter(ctx, sh)
	if err != nil {
		return err
	}
	if err := sh.Do(ctx, p.uv("venv", "--no-project", "--no-config", "--python", python, p.root+"/.venv")); err != nil {
		return err
	}
	if err := p.placePip(ctx, sh); err != nil {
		return err
	}
	const lock = `: >> "$1" && chmod 666 "$1"` // as uv makes it
	if err := sh.Do(ctx, build.Cmd{Argv: []string{"sh", "-c", lock, "lock", p.root + "/" + uvLockFile}, Quiet: true}); err != nil {
		return err
	}
	cmd := p.script(compileScript, "", p.root+"/.venv/lib", p.root+"/.python")
	return sh.Do(ctx, cmd)
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

// The scripts that finish and inspect a virtual environment. They run inside the sandbox.
var (
	//go:embed inspect.py
	inspectScript string
	//go:embed compile.py
	compileScript string
	//go:embed remove.py
	removeScript string
	//go:embed pip.sh
	pipCommand string
	//go:embed pip.py
	pipModule string
)

// script is one of ours, run by the environment's interpreter and without what packages have it run at its start.
func (p *plan) script(script string, args ...string) build.Cmd {
	return build.Cmd{Argv: slices.Concat([]string{p.python3(), "-I", "-S", "-c", script}, args), Env: p.buildEnv(), Quiet: true}
}

// uvLockFile is the file that uv locks a virtual environment by.
const uvLockFile = ".venv/.lock"

// placePip puts a pip where there is none that answers questions and says where packages belong.
func (p *plan) placePip(ctx context.Context, sh *build.Shell) error {
	const place = `cd "$1"/.venv || exit
[ -e bin/pip ] && exit
printf %s "$2" > bin/pip && chmod 755 bin/pip && ln -s pip bin/pip3 || exit
for site in lib/python3*/site-packages; do
  mkdir -p "$site/pip" && : > "$site/pip/__init__.py" && printf %s "$3" > "$site/pip/__main__.py" || exit
done`
	return sh.Do(ctx, build.Cmd{Argv: []string{"sh", "-c", place, "pip", p.root, pipCommand, pipModule}, Env: p.buildEnv(), Quiet: true})
}

// displacePip takes it away again, before uv installs a real one, or may do so.
func (p *plan) displacePip(ctx context.Context, sh *build.Shell) error {
	const displace = `cd "$1"/.venv && rm -rf bin/pip bin/pip3 lib/python3*/site-packages/pip`
	return sh.Do(ctx, build.Cmd{Argv: []string{"sh", "-c", displace, "pip", p.root}, Quiet: true})
}

// settleCache has uv forget what it noted of interpreters when the cache was last used with another one: it knows them by path and
// time, which are the same for all that an environment ever has.
func (p *plan) settleCache(ctx context.Context, sh *build.Shell) error {
	const settle = `[ "$(cat "$1/interpreter" 2>/dev/null)" = "$2" ] && exit
rm -rf "$1"/uv/interpreter-* && printf %s "$2" > "$1/interpreter"`
	return sh.Do(ctx, build.Cmd{Argv: []string{"sh", "-c", settle, "settle", cacheDir, string(p.emptyVenv)}, Quiet: true})
}
