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

	laid    []pythonPart // what lies there already, of what was laid below
	done    pythonLock   // what the commands that succeeded were to install
	later   pythonLock   // what the declared packages come to, where that is known before their turn
	pipGone bool         // our pip was taken away
}

// rule installs what the project itself declares.
func (in *installation) rule(ctx context.Context) error {
	switch r := in.python; {
	case r.UVLock:
		in.sh.Note("rule: uv.lock, by uv sync")
		if len(r.Unlocked) > 0 {
			in.warnings = append(in.warnings, fmt.Sprintf("lock not in sync: uv.lock does not match pyproject.toml, so what it lacks was chosen anew: %s", strings.Join(r.Unlocked, ", ")))
		}
		return in.locked(ctx)
	case r.PoetryLock:
		in.sh.Note("rule: poetry.lock, by poetry export and uv pip install")
		return in.poetry(ctx)
	case len(r.Requirements) > 0 || r.Pyproject:
		return in.loose(ctx)
	}
	return nil
}

// locked installs by uv.lock. Where that has to be completed first, what it comes to is only known afterwards.
func (in *installation) locked(ctx context.Context) error {
	lock, err := in.exported(ctx, in.sh)
	if ignoreExit(err) != nil {
		return err
	}
	if err := in.clear(ctx, lock); err != nil {
		return err
	}
	if err := in.sh.Do(ctx, in.uv(in.sync("--no-install-project", "--no-install-workspace")...)); err != nil {
		return err
	}
	if len(in.python.Unlocked) > 0 {
		lock, err = in.exported(ctx, in.sh)
	}
	maps.Copy(in.lock, lock)
	maps.Copy(in.done, lock)
	return ignoreExit(err)
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

// loose installs requirement files and the dependencies of pyproject.toml together, so that they are resolved together. What
// the project needs to run must go in; a further file, such as requirements-docs.txt, that cannot stand beside it is left out
// with a warning.
func (in *installation) loose(ctx context.Context) error {
	needed, further := in.looseFiles()
	all := slices.Concat(needed, further)
	in.sh.Note("rule: %s, by uv pip install", strings.Join(all, " and "))
	err := in.files(ctx, all)
	if err == nil || !build.IsExit(err) || len(further) == 0 {
		return err
	}
	in.sh.Note("they cannot be installed together; %s first, then the others one by one", strings.Join(needed, " and "))
	if err := in.files(ctx, needed); err != nil {
		return err
	}
	for _, f := range further {
		switch err := in.files(ctx, slices.Concat(needed, []string{f})); {
		case build.IsExit(err):
			in.warnings = append(in.warnings, fmt.Sprintf("%s cannot be installed beside %s, and was left out", f, strings.Join(needed, " and ")))
		case err != nil:
			return err
		}
	}
	return nil
}

// looseFiles tells the files that a project runs by from further ones, which come by name: requirements-dev.txt and its kin.
func (in *installation) looseFiles() (needed, further []string) {
	if in.python.Pyproject {
		needed = append(needed, "pyproject.toml")
	}
	for _, f := range in.python.Requirements {
		if f == "requirements.txt" {
			needed = append(needed, f)
		} else {
			further = append(further, f)
		}
	}
	if len(needed) == 0 {
		return further[:1], further[1:]
	}
	return needed, further
}

func (in *installation) files(ctx context.Context, files []string) error {
	w := wanted{install: []string{"pip", "install"}}
	for _, f := range files {
		w.install, w.resolve = append(w.install, "-r", "./"+f), append(w.resolve, "./"+f)
	}
	return in.install(ctx, w)
}

// declared installs the declared packages, over what the project's own files brought.
func (in *installation) declared(ctx context.Context) error {
	w, err := in.declaration()
	if err != nil || w.stdin == "" {
		return err
	}
	w.lock, in.later = in.later, nil
	return in.install(ctx, w)
}

// ahead finds out what the declared packages will come to, so that they can stay where they lie while the project's own files have
// their turn.
func (in *installation) ahead(ctx context.Context) error {
	w, err := in.declaration()
	if err != nil || w.stdin == "" || len(in.laid) == 0 || !in.python.any() {
		return err
	}
	in.later, err = in.resolve(ctx, in.sh, w.stdin, w.resolve...)
	return ignoreExit(err)
}

func (in *installation) declaration() (wanted, error) {
	var names []string
	for _, entry := range in.run.Spec.Packages.Pip {
		pkg, err := enplace.ParsePackage(enplace.Pip, entry)
		if err != nil {
			return wanted{}, err
		}
		names = append(names, pkg.String())
	}
	if len(names) == 0 {
		return wanted{}, nil
	}
	return wanted{
		install: append([]string{"pip", "install", "--no-config", "--"}, names...),
		resolve: []string{"--no-config", "-"}, stdin: strings.Join(names, "\n") + "\n",
	}, nil
}

// wanted is one installation: uv's arguments, and those of the resolution before it.
type wanted struct {
	install, resolve []string
	stdin            string     // of the resolution
	lock             pythonLock // its result, where it is known
}

// install runs uv once it is known what will come: what is too large is refused before it is fetched, and what has to be
// compiled is named before that takes its time.
func (in *installation) install(ctx context.Context, w wanted) error {
	lock := w.lock
	if lock == nil && !in.python.InPlace { // a lock cannot name folders of the tree
		var err error
		if lock, err = in.resolve(ctx, in.sh, w.stdin, w.resolve...); ignoreExit(err) != nil {
			return err
		}
	}
	if err := lock.tooLarge(); err != nil {
		return err
	}
	maps.Copy(in.lock, lock)
	if err := in.clear(ctx, lock); err != nil {
		return err
	}
	source := lock.fromSource()
	if len(source) > 0 {
		in.sh.Note("no wheel for Python %s, so built from source: %s", in.pythonVersion(), strings.Join(source, ", "))
	}
	err := in.sh.Do(ctx, in.uv(w.install...))
	if err == nil {
		maps.Copy(in.done, lock)
	}
	if !build.IsExit(err) {
		return err
	}
	if err := in.unlay(ctx, nil); err != nil {
		return err
	}
	if len(source) > 0 {
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
