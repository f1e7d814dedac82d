package project

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/build"
)

// installation fills a virtual environment.
type installation struct {
	*plan
	sh       *build.Shell
	lock     pythonLock // what resolutions and locks gave so far
	warnings []string
}

// rule installs what the project itself declares.
func (in *installation) rule(ctx context.Context) error {
	switch r := in.python; {
	case r.UVLock:
		in.sh.Note("rule: uv.lock, by uv sync")
		if len(r.Unlocked) > 0 {
			in.warnings = append(in.warnings, fmt.Sprintf("lock not in sync: uv.lock does not match pyproject.toml, so what it lacks was chosen anew: %s", strings.Join(r.Unlocked, ", ")))
		}
		if err := in.sh.Do(ctx, in.uv(in.sync("--no-install-project", "--no-install-workspace")...)); err != nil {
			return err
		}
		lock, err := in.exported(ctx, in.sh)
		maps.Copy(in.lock, lock)
		return ignoreExit(err)
	case r.PoetryLock:
		in.sh.Note("rule: poetry.lock, by poetry export and uv pip install")
		return in.poetry(ctx)
	case len(r.Requirements) > 0 || r.Pyproject:
		return in.loose(ctx)
	}
	return nil
}

// sync gives the arguments of uv sync: by the lock as it is, unless it does not match the project.
func (p *plan) sync(args ...string) []string {
	all := append([]string{"sync", "--inexact"}, args...)
	if len(p.python.Unlocked) == 0 {
		all = append(all, "--frozen")
	}
	return all
}

// ignoreExit drops the failure of a command whose answer can be done without.
func ignoreExit(err error) error {
	if build.IsExit(err) {
		return nil
	}
	return err
}

// loose installs requirement files and the dependencies of pyproject.toml together, so that they are resolved together.
func (in *installation) loose(ctx context.Context) error {
	files := slices.Clone(in.python.Requirements)
	if in.python.Pyproject {
		files = append(files, "pyproject.toml")
	}
	in.sh.Note("rule: %s, by uv pip install", strings.Join(files, " and "))
	err := in.files(ctx, files)
	if err == nil || !build.IsExit(err) || len(files) < 2 {
		return err
	}
	first := files[:1]
	if in.python.Pyproject {
		first = []string{"pyproject.toml"}
	}
	in.warnings = append(in.warnings, fmt.Sprintf("%s could not be installed together; only %s was", strings.Join(files, ", "), first[0]))
	return in.files(ctx, first)
}

func (in *installation) files(ctx context.Context, files []string) error {
	install, compile := []string{"pip", "install"}, []string{}
	for _, f := range files {
		install, compile = append(install, "-r", "./"+f), append(compile, "./"+f)
	}
	return in.install(ctx, install, "", compile)
}

// declared installs the declared packages, over what the project's own files brought.
func (in *installation) declared(ctx context.Context) error {
	var names []string
	for _, entry := range in.run.Spec.Packages.Pip {
		pkg, err := enplace.ParsePackage(enplace.Pip, entry)
		if err != nil {
			return err
		}
		names = append(names, pkg.String())
	}
	if len(names) == 0 {
		return nil
	}
	return in.install(ctx, append([]string{"pip", "install", "--no-config", "--"}, names...), strings.Join(names, "\n")+"\n", []string{"--no-config", "-"})
}

// install runs uv once it is known what will come: what is too large is refused before it is fetched, and what has to be
// compiled is named before that takes its time.
func (in *installation) install(ctx context.Context, install []string, stdin string, compile []string) error {
	lock := pythonLock{}
	if !in.python.InPlace { // a lock cannot name folders of the tree
		var err error
		if lock, err = in.resolve(ctx, in.sh, stdin, compile...); ignoreExit(err) != nil {
			return err
		}
		if err := lock.tooLarge(); err != nil {
			return err
		}
		maps.Copy(in.lock, lock)
	}
	source := lock.fromSource()
	if len(source) > 0 {
		in.sh.Note("no wheel for Python %s, so built from source: %s", in.pythonVersion(), strings.Join(source, ", "))
	}
	err := in.sh.Do(ctx, in.uv(install...))
	if err != nil && build.IsExit(err) && len(source) > 0 {
		return in.sourceFailed(ctx, source, err)
	}
	return err
}

func (in *installation) pythonVersion() string {
	if v := in.run.Spec.PythonVersion; v != "" {
		return v
	}
	return in.base.Python
}

// sourceFailed says which packages had no wheel, and the newest Python for which all of them have one.
func (in *installation) sourceFailed(ctx context.Context, source []string, failed error) error {
	f := &enplace.Failure{
		Reason:  enplace.ReasonExit,
		Message: fmt.Sprintf("%v. Without a wheel for Python %s, and so built from source: %s", failed, in.pythonVersion(), strings.Join(source, ", ")),
		Fixes:   []string{"declare versions that have wheels for this Python, or the Debian packages that building them needs"},
	}
	for minor := 14; minor >= 9; minor-- {
		version := fmt.Sprintf("3.%d", minor)
		if strings.HasPrefix(in.pythonVersion()+".", version+".") {
			continue
		}
		_, err := in.resolve(ctx, in.sh, strings.Join(source, "\n")+"\n", "--no-config", "--no-deps", "--only-binary", ":all:", "--python-version", version, "-")
		if err == nil {
			f.Fixes = append([]string{"set python_version to " + version + ", for which all of these have wheels"}, f.Fixes...)
			break
		}
		if !build.IsExit(err) {
			return err
		}
	}
	return f
}
