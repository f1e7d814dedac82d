package project

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"enplace"
	"enplace/internal/build"
)

// The releases that read poetry.lock files. Poetry knows no index but PyPI and those of the project, so it only says what is
// locked, with hashes and markers, and uv installs that from the index of the environment.
const (
	poetryNow    = "poetry==2.5.1"
	poetryExport = "poetry-plugin-export==1.10.1"
)

// poetryFile is where the locked packages are written down, as a requirements file.
const poetryFile = "/tmp/poetry-requirements.txt"

func (in *installation) poetry(ctx context.Context) error {
	args := []string{"tool", "run", "--no-config", "--from", poetryNow, "--with", poetryExport, "poetry", "export", "--no-interaction", "--no-ansi", "--output", poetryFile}
	for _, g := range in.python.PoetryGroups {
		args = append(args, "--with", g)
	}
	cmd := in.uv(args...)
	cmd.Env = append(cmd.Env, "UV_TOOL_DIR=/tmp/uv-tools", "POETRY_CACHE_DIR="+cacheDir+"/poetry", "POETRY_VIRTUALENVS_CREATE=false")
	out, err := in.sh.Try(ctx, cmd)
	if err == nil {
		return in.install(ctx, wanted{
			install: []string{"pip", "install", "--no-config", "--no-deps", "-r", poetryFile}, resolve: []string{"--no-config", "--no-deps", poetryFile},
		})
	}
	if !build.IsExit(err) || !strings.Contains(out, "changed significantly since poetry.lock was last generated") {
		return err
	}
	if !in.python.Project {
		return &enplace.Failure{Reason: enplace.ReasonExit, Message: "poetry.lock does not match pyproject.toml", Fixes: []string{"run poetry lock, and put the new poetry.lock into the tree"}}
	}
	in.warnings = append(in.warnings, "lock not in sync: poetry.lock does not match pyproject.toml, so what it lacks was chosen anew")
	raw, err := in.file(ctx, "poetry.lock")
	if err != nil {
		return err
	}
	pins := strings.Join(poetryPins(raw), "\n") + "\n"
	if err := in.sh.Do(ctx, build.Cmd{Argv: []string{"cp", "/dev/stdin", poetryFile}, Stdin: pins, Quiet: true}); err != nil {
		return err
	}
	return in.install(ctx, wanted{
		install: []string{"pip", "install", "-r", "./pyproject.toml", "-c", poetryFile}, resolve: []string{"./pyproject.toml", "-c", poetryFile},
	})
}

// poetryPins gives the versions of a poetry.lock as constraints. A package that is locked in several versions, for several
// Pythons, has none.
func poetryPins(raw []byte) []string {
	var lock struct {
		Packages []struct {
			Name, Version string
		} `toml:"package"`
	}
	if toml.Unmarshal(raw, &lock) != nil {
		return nil // poetry has read it before
	}
	versions := map[string][]string{}
	for _, p := range lock.Packages {
		versions[p.Name] = append(versions[p.Name], p.Version)
	}
	var pins []string
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		if len(versions[name]) == 1 {
			pins = append(pins, fmt.Sprintf("%s==%s", name, versions[name][0]))
		}
	}
	return pins
}

// poetryGroups gives the groups that poetry install takes in: those that are not optional.
func poetryGroups(doc pyproject) []string {
	groups := map[string]bool{}
	for name := range doc.Groups {
		groups[name] = true
	}
	own, _ := doc.Tool.Poetry["group"].(map[string]any)
	for name, g := range own {
		options, _ := g.(map[string]any)
		optional, _ := options["optional"].(bool)
		groups[name] = !optional
	}
	if doc.Tool.Poetry["dev-dependencies"] != nil { // of poetry before 1.2
		groups["dev"] = true
	}
	maps.DeleteFunc(groups, func(_ string, in bool) bool { return !in })
	return slices.Sorted(maps.Keys(groups))
}
