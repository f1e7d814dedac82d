package project

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"enplace"
)

// gitVersion are the words by which a project says that git knows its version.
var gitVersion = regexp.MustCompile(`setuptools[-_]scm|use_scm_version|hatch[-_]vcs|flit[-_]scm|dynamic-versioning|versioningit|\bpbr\b|source *= *"scm"`)

// variable is what pip, and uv, would replace in a requirements file.
var variable = regexp.MustCompile(`\$\{([A-Z0-9_]+)\}`)

// checkVariables refuses a variable that builds do not have: left as it is, it would send what was meant for a private index
// to a place that nobody meant.
func checkVariables(file, text string) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, g := range variable.FindAllStringSubmatch(line, -1) {
			if g[1] != "PROJECT_ROOT" {
				return &enplace.Failure{
					Reason: enplace.ReasonExit, Message: fmt.Sprintf("%s, line %d, uses ${%s}, and builds have no such variable", file, n, g[1]),
					Fixes: []string{"write the value itself, or declare the package and set pip_index_url"},
				}
			}
		}
	}
	return nil
}

// pythonInputs notes every file that what is installed depends on, the whole tree where something of it is installed or run.
func (p *plan) pythonInputs(ctx context.Context, doc pyproject, r *pythonRule) error {
	if err := p.requirementInputs(ctx, r); err != nil {
		return err
	}
	r.InPlace = r.InPlace || pointsIntoTree(doc)
	whole := false
	files := []string{"pyproject.toml", "uv.lock", "poetry.lock", "uv.toml", "setup.py", "setup.cfg", ".python-version"}
	if r.Pyproject && dynamicDependencies(doc) {
		lists, ok := dynamicFiles(doc)
		files, whole = append(files, lists...), !ok || p.isFile("setup.py")
	}
	for _, f := range files {
		if !p.isFile(f) {
			continue
		}
		raw, err := p.file(ctx, f)
		if err != nil {
			return err
		}
		r.input(p, f)
		r.NoBinary = r.NoBinary || bytes.Contains(raw, []byte("no-binary"))
		switch path.Ext(f) {
		case ".lock":
			r.InPlace = r.InPlace || lockPointsIntoTree(string(raw))
		case ".toml":
			var uv map[string]any
			r.InPlace = r.InPlace || fileURL.Match(raw) || f == "uv.toml" && toml.Unmarshal(raw, &uv) == nil && uvPointsIntoTree(uv)
		}
		if path.Ext(f) != ".lock" && gitVersion.Match(raw) {
			r.GitVersion = true
		}
	}
	if whole || r.InPlace {
		r.Inputs = append(r.Inputs, "tree "+string(p.run.Spec.Snapshot))
	}
	return nil
}

func (r *pythonRule) input(p *plan, file string) {
	r.Inputs = append(r.Inputs, file+" "+string(p.has[file].Digest))
}

// maxInputFiles bounds the files that are read for their dependencies: each may have megabytes, and name as many others as it has
// lines.
const maxInputFiles = 200

// requirementInputs follows requirement files to those they name.
func (p *plan) requirementInputs(ctx context.Context, r *pythonRule) error {
	seen := map[string]bool{}
	for queue := slices.Clone(r.Requirements); len(queue) > 0; queue = queue[1:] {
		f := queue[0]
		if seen[f] {
			continue
		}
		if seen[f] = true; len(seen) > maxInputFiles {
			return &enplace.Failure{Reason: enplace.ReasonLimit, Message: fmt.Sprintf("the requirements files name more than %d others", maxInputFiles), Fixes: []string{"put them into fewer files"}}
		}
		raw, err := p.file(ctx, f)
		if err != nil {
			return err
		}
		if err := checkVariables(f, string(raw)); err != nil {
			return err
		}
		r.input(p, f)
		r.GitVersion = r.GitVersion || gitVersion.Match(raw)
		r.NoBinary = r.NoBinary || bytes.Contains(raw, []byte("no-binary"))
		more, local := requirementRefs(f, string(raw))
		queue, r.InPlace = append(queue, more...), r.InPlace || local
	}
	return nil
}

// comment is what pip leaves out of a line.
var comment = regexp.MustCompile(`(^|\s+)#.*$`)

// requirementRefs gives the files that a requirements file includes, and whether it installs something from the tree.
// Source: pip's requirements file format.
func requirementRefs(file, text string) (more []string, local bool) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(comment.ReplaceAllString(strings.TrimSpace(line), ""))
		for _, opt := range []string{"-r", "-c", "--requirement", "--constraint"} {
			if rest, ok := strings.CutPrefix(line, opt); ok && rest != "" && rest[0] != '-' && !strings.Contains(rest, "://") {
				name := strings.Trim(strings.TrimLeft(rest, " \t="), `"'`)
				more = append(more, path.Join(path.Dir(file), name))
				break
			}
		}
		elsewhere := strings.Contains(line, "://") && !strings.Contains(line, "file:")
		switch {
		case strings.HasPrefix(line, "-e"), strings.HasPrefix(line, "--editable"), strings.Contains(line, "file:"):
			local = true
		case strings.HasPrefix(line, "-f"), strings.HasPrefix(line, "--find-links"):
			local = local || !elsewhere
		case !strings.HasPrefix(line, "-") && !elsewhere:
			local = local || strings.HasPrefix(line, ".") || strings.Contains(line, "/") || strings.Contains(line, ".whl") || strings.Contains(line, ".tar.")
		}
	}
	return more, local
}

// fileURL is a dependency that names a file or folder, in a text that declares dependencies.
var fileURL = regexp.MustCompile(`["@ ]file:|@ *\.{1,2}/`)

// pointsIntoTree reports whether a project says of a dependency that it is a folder or file of the tree. Sources: uv's reference
// of [tool.uv], poetry's of path dependencies.
func pointsIntoTree(doc pyproject) bool {
	if uvPointsIntoTree(doc.Tool.UV) {
		return true
	}
	tables := []any{doc.Tool.Poetry["dependencies"], doc.Tool.Poetry["dev-dependencies"]}
	groups, _ := doc.Tool.Poetry["group"].(map[string]any)
	for _, g := range groups {
		if group, ok := g.(map[string]any); ok {
			tables = append(tables, group["dependencies"])
		}
	}
	return slices.ContainsFunc(tables, anyPath)
}

// uvPointsIntoTree says it of uv's settings.
func uvPointsIntoTree(uv map[string]any) bool {
	if anyPath(uv["sources"]) {
		return true
	}
	places, _ := uv["find-links"].([]any)
	indexes, _ := uv["index"].([]any)
	for _, i := range indexes {
		if index, ok := i.(map[string]any); ok {
			places = append(places, index["url"])
		}
	}
	return slices.ContainsFunc(places, func(place any) bool {
		at, _ := place.(string)
		return at != "" && (!strings.Contains(at, "://") || strings.HasPrefix(at, "file:"))
	})
}

// anyPath reports whether a table of dependencies has one with a path, or of the same workspace. A dependency may be a table or
// several.
func anyPath(table any) bool {
	dependencies, _ := table.(map[string]any)
	for _, d := range dependencies {
		several, ok := d.([]any)
		if !ok {
			several = []any{d}
		}
		for _, one := range several {
			source, _ := one.(map[string]any)
			if source["path"] != nil || source["workspace"] == true {
				return true
			}
		}
	}
	return false
}

// lockPointsIntoTree reports whether uv.lock or poetry.lock has a package from a folder other than the project itself. Both are
// written by programs, always alike.
func lockPointsIntoTree(text string) bool {
	text = strings.ReplaceAll(strings.ReplaceAll(text, `editable = "."`, ""), `virtual = "."`, "")
	return strings.Contains(text, "directory = ") || strings.Contains(text, "editable = ") || strings.Contains(text, "path = ") ||
		strings.Contains(text, `type = "directory"`) || strings.Contains(text, `type = "file"`)
}

// dynamicDependencies reports whether a project leaves it to its build to say what it depends on.
func dynamicDependencies(doc pyproject) bool {
	dynamic, _ := doc.Project["dynamic"].([]any)
	return slices.Contains(dynamic, any("dependencies")) || slices.Contains(dynamic, any("optional-dependencies"))
}

// dynamicFiles gives the files that setuptools reads the dependencies from; false where another build may read anything.
func dynamicFiles(doc pyproject) (files []string, ok bool) {
	files = namedFiles(doc.Tool.Setuptools.Dynamic["dependencies"])
	extras, _ := doc.Tool.Setuptools.Dynamic["optional-dependencies"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(extras)) {
		files = append(files, namedFiles(extras[name])...)
	}
	return files, len(files) > 0
}

// namedFiles gives the files of a table of setuptools: one, or a list of them.
func namedFiles(table any) (files []string) {
	fields, _ := table.(map[string]any)
	several, ok := fields["file"].([]any)
	if !ok {
		several = []any{fields["file"]}
	}
	for _, f := range several {
		if name, ok := f.(string); ok {
			files = append(files, path.Clean(name))
		}
	}
	return files
}
