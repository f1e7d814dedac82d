package project

import (
	"cmp"
	"context"
	_ "embed"
	"strings"

	"enplace"
	"enplace/internal/build"
)

// The scripts that finish and inspect a virtual environment. They run inside the sandbox.
var (
	//go:embed inspect.py
	inspectScript string // prints what is installed, as JSON
	//go:embed compile.py
	compileScript string
	//go:embed pip.sh
	pipCommand string
	//go:embed pip.py
	pipModule string
)

// placePip puts a pip where there is none that answers questions and says where packages belong.
const placePip = `cd "$1"/.venv || exit
[ -e bin/pip ] && exit
printf %s "$2" > bin/pip && chmod 755 bin/pip && ln -s pip bin/pip3 || exit
for site in lib/python3*/site-packages; do
  mkdir -p "$site/pip" && : > "$site/pip/__init__.py" && printf %s "$3" > "$site/pip/__main__.py" || exit
done`

// finishPython adds what a virtual environment that nobody writes to has need of: bytecode, and a pip.
func (p *plan) finishPython(ctx context.Context, sh *build.Shell) error {
	if err := sh.Do(ctx, build.Cmd{Argv: []string{"sh", "-c", placePip, "pip", p.root, pipCommand, pipModule}, Env: p.buildEnv(), Quiet: true}); err != nil {
		return err
	}
	sh.Note("compiling modules")
	return sh.Do(ctx, build.Cmd{
		Argv: []string{p.python3(), "-I", "-c", compileScript, cacheDir + "/bytecode", p.root + "/.venv/lib", p.root + "/.python"}, Env: p.buildEnv(), Quiet: true,
	})
}

// installedPython is what inspectScript prints.
type installedPython struct {
	Python        string `json:"python"`
	Caches        []string
	Distributions []struct {
		Name    string   `json:"name"`
		Version string   `json:"version"`
		Tags    []string `json:"tags"`
		URL     string   `json:"url"`
	} `json:"distributions"`
}

// inspectPython finds out what was installed, with the hashes of those very files by the locks, or else by the index.
func (p *plan) inspectPython(ctx context.Context, sh *build.Shell, lock pythonLock, warnings []string) (any, error) {
	raw, err := sh.Output(ctx, build.Cmd{Argv: []string{p.python3(), "-I", "-c", inspectScript, p.root}, Env: p.buildEnv()})
	if err != nil {
		return nil, err
	}
	var got installedPython
	if err := decodeJSON(raw, &got); err != nil {
		return nil, err
	}
	found := pythonFindings{Python: got.Python, Caches: got.Caches, Warnings: warnings, Packages: []enplace.ResolvedPackage{}}
	direct := p.directPython()
	var pins []string
	for _, d := range got.Distributions {
		name := canonical(d.Name)
		found.Packages = append(found.Packages, enplace.ResolvedPackage{Manager: enplace.Pip, Name: name, Version: d.Version, Source: d.URL, Direct: direct[name]})
		if d.URL == "" && lock[name].Version != d.Version {
			pins = append(pins, name+"=="+d.Version)
		}
	}
	rest := pythonLock{}
	if len(pins) > 0 {
		if rest, err = p.resolve(ctx, sh, strings.Join(pins, "\n")+"\n", "--no-config", "--no-deps", "-"); err != nil && !build.IsExit(err) {
			return nil, err
		}
		if err != nil {
			found.Warnings = append(found.Warnings, "the hashes of these Python packages could not be found out: "+strings.Join(pins, ", "))
		}
	}
	for i, d := range got.Distributions {
		pkg := &found.Packages[i]
		l, ok := lock[pkg.Name]
		if !ok || l.Version != pkg.Version {
			l, ok = rest[pkg.Name]
		}
		if ok && pkg.Source == "" {
			pkg.Source, pkg.Hash = cmp.Or(l.Index, p.pipIndex()), l.hash(d.Tags)
		}
	}
	return found, nil
}

func (p *plan) directPython() map[string]bool {
	direct := map[string]bool{}
	for _, entry := range p.run.Spec.Packages.Pip {
		if pkg, err := enplace.ParsePackage(enplace.Pip, entry); err == nil {
			direct[pkg.CanonicalName()] = true
		}
	}
	return direct
}
