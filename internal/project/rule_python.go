package project

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"enplace"
)

// pythonRule is what a tree says of its Python dependencies, and so which tool installs them.
type pythonRule struct {
	UVLock       bool     `json:"uv_lock,omitempty"`
	Unlocked     []string `json:"unlocked,omitempty"` // dependencies that uv.lock has not, or otherwise
	PoetryLock   bool     `json:"poetry_lock,omitempty"`
	PoetryGroups []string `json:"poetry_groups,omitempty"`
	Requirements []string `json:"requirements,omitempty"` // files, the plain one first
	Project      bool     `json:"project,omitempty"`      // there is a [project] table
	Pyproject    bool     `json:"pyproject,omitempty"`    // its [project] dependencies are installed
	Buildable    bool     `json:"buildable,omitempty"`    // the project itself can be installed
	Requires     string   `json:"requires,omitempty"`     // requires-python
	GitVersion   bool     `json:"git_version,omitempty"`  // its version is asked of git
	InPlace      bool     `json:"in_place,omitempty"`     // something is installed from a folder of the tree
	Notes        []string `json:"-"`

	// Inputs are the digests of every file that the dependencies depend on; the whole snapshot when one of them points into
	// the tree.
	Inputs []string `json:"inputs,omitempty"`
}

// any reports whether the tree declares Python dependencies at all.
func (r pythonRule) any() bool {
	return r.UVLock || r.PoetryLock || r.Pyproject || r.Buildable || len(r.Requirements) > 0
}

type pyproject struct {
	Groups      map[string]any `toml:"dependency-groups"`
	Project     map[string]any `toml:"project"`
	BuildSystem map[string]any `toml:"build-system"`
	Tool        struct {
		Poetry map[string]any `toml:"poetry"`
	} `toml:"tool"`
}

// readPython finds out the rule. A lock comes before loose declarations, and each tool reads its own files.
func (p *plan) readPython(ctx context.Context) (pythonRule, error) {
	var r pythonRule
	raw, err := p.file(ctx, "pyproject.toml")
	if err != nil {
		return r, err
	}
	var doc pyproject
	if raw != nil {
		if err := toml.Unmarshal(raw, &doc); err != nil {
			return r, &enplace.Failure{Reason: enplace.ReasonExit, Message: fmt.Sprintf("pyproject.toml is not valid TOML: %v", err), Fixes: []string{"correct the file and build again"}}
		}
		r.Requires, _ = doc.Project["requires-python"].(string)
		if r.Requires == "" {
			deps, _ := doc.Tool.Poetry["dependencies"].(map[string]any)
			r.Requires = poetryRange(deps["python"])
		}
		r.Project = len(doc.Project) > 0
		r.Buildable = len(doc.BuildSystem) > 0 && (len(doc.Project) > 0 || len(doc.Tool.Poetry) > 0 || p.isFile("setup.py") || p.isFile("setup.cfg"))
	} else {
		r.Buildable = p.isFile("setup.py")
	}
	for _, e := range p.tree {
		if ok, _ := path.Match("requirements*.txt", e.Path); ok && e.Type == enplace.EntryFile {
			r.Requirements = append(r.Requirements, e.Path)
		}
	}
	slices.SortStableFunc(r.Requirements, func(a, b string) int { return len(a) - len(b) })
	switch {
	case p.isFile("uv.lock") && len(doc.Project) > 0:
		r.UVLock = true
		lock, err := p.file(ctx, "uv.lock")
		if err != nil {
			return r, err
		}
		r.Unlocked = unlocked(doc, lock)
	case p.isFile("poetry.lock") && raw != nil:
		r.PoetryLock, r.PoetryGroups = true, poetryGroups(doc)
	case len(doc.Project) > 0:
		r.Pyproject = true
	case len(doc.Tool.Poetry) > 0:
		r.Notes = append(r.Notes, "pyproject.toml declares its dependencies for poetry alone and there is no poetry.lock; the project is installed with whatever versions are current")
	case raw != nil && !r.Buildable:
		r.Notes = append(r.Notes, "pyproject.toml holds only tool settings; it declares nothing to install")
	}
	for _, f := range []string{"Pipfile.lock", "environment.yml", "conda-lock.yml"} {
		if p.isFile(f) {
			r.Notes = append(r.Notes, f+" is not read; declare its packages, or export them to requirements.txt")
		}
	}
	return r, p.pythonInputs(ctx, &r)
}

func (p *plan) isFile(name string) bool { return p.has[name].Type == enplace.EntryFile }

// hasBelow reports whether the tree has a folder of that name at its top.
func (p *plan) hasBelow(folder string) bool {
	return slices.ContainsFunc(p.tree, func(e enplace.TreeEntry) bool { return strings.HasPrefix(e.Path, folder+"/") })
}

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

// pythonInputs follows requirement files to those they name, and notices what points into the tree.
func (p *plan) pythonInputs(ctx context.Context, r *pythonRule) error {
	queue := slices.Clone(r.Requirements)
	for _, f := range []string{"pyproject.toml", "uv.lock", "poetry.lock", "uv.toml", "setup.py", "setup.cfg", ".python-version"} {
		if p.isFile(f) {
			queue = append(queue, f)
		}
	}
	seen, whole := map[string]bool{}, false
	for len(queue) > 0 {
		f := queue[0]
		queue = queue[1:]
		if seen[f] {
			continue
		}
		seen[f] = true
		raw, err := p.file(ctx, f)
		if err != nil {
			return err
		}
		r.Inputs = append(r.Inputs, f+" "+string(p.has[f].Digest))
		switch path.Ext(f) {
		case ".txt", ".in":
			if err := checkVariables(f, string(raw)); err != nil {
				return err
			}
			more, local := requirementRefs(f, string(raw))
			queue, whole = append(queue, more...), whole || local
		case ".lock", ".toml":
			whole = whole || localSource(f, string(raw))
		}
		if path.Ext(f) != ".lock" && gitVersion.Match(raw) {
			r.GitVersion = true
		}
	}
	if r.InPlace = whole; whole {
		r.Inputs = append(r.Inputs, "tree "+string(p.run.Spec.Snapshot))
	}
	return nil
}

// requirementRefs gives the files that a requirements file includes, and whether it installs something from the tree.
// Source: pip's requirements file format.
func requirementRefs(file, text string) (more []string, local bool) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		for _, opt := range []string{"-r", "-c", "--requirement", "--constraint"} {
			if rest, ok := strings.CutPrefix(line, opt); ok && rest != "" && strings.ContainsAny(rest[:1], " \t=/.abcdefghijklmnopqrstuvwxyz") {
				name := strings.Trim(strings.TrimLeft(rest, " \t="), `"'`)
				more = append(more, path.Join(path.Dir(file), name))
				break
			}
		}
		switch {
		case strings.HasPrefix(line, "-e"), strings.HasPrefix(line, "--editable"), strings.HasPrefix(line, "."), strings.HasPrefix(line, "/"),
			strings.Contains(line, "file:"), strings.HasPrefix(line, "--find-links"), strings.HasPrefix(line, "-f"):
			local = true
		}
	}
	return more, local
}

// localSource reports whether a lock or a project installs a package from a folder other than the project itself.
func localSource(file, text string) bool {
	if file == "pyproject.toml" {
		return strings.Contains(text, "file:") || strings.Contains(text, "workspace = true") || strings.Contains(text, "path = ")
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, `editable = "."`, ""), `virtual = "."`, "")
	return strings.Contains(text, "directory = ") || strings.Contains(text, "editable = ") || strings.Contains(text, "path = ") ||
		strings.Contains(text, `type = "directory"`) || strings.Contains(text, `type = "file"`)
}

var plainRange = regexp.MustCompile(`^[0-9.,<>=! *]+$`)

// poetryRange turns what poetry says of Python into a requires-python that uv can read; empty where it cannot be.
// Source: poetry's documentation of dependency specification.
func poetryRange(v any) string {
	s, _ := v.(string)
	s = strings.TrimSpace(s)
	parts := strings.Split(strings.TrimLeft(s, "^~"), ".")
	switch {
	case strings.HasPrefix(s, "^"), strings.HasPrefix(s, "~") && !strings.HasPrefix(s, "~="):
		last := 0 // the part that may not change
		if s[0] == '~' && len(parts) > 1 {
			last = 1
		}
		n, err := strconv.Atoi(parts[last])
		if err != nil {
			return ""
		}
		next := append(slices.Clone(parts[:last]), strconv.Itoa(n+1))
		return ">=" + strings.Join(parts, ".") + ",<" + strings.Join(next, ".")
	case s != "*" && plainRange.MatchString(s):
		return s
	}
	return ""
}
