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
	NoBinary     bool     `json:"-"`                      // wheels are not to be used, for some package
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
		Poetry     map[string]any `toml:"poetry"`
		UV         map[string]any `toml:"uv"`
		Setuptools struct {
			Dynamic map[string]any `toml:"dynamic"`
		} `toml:"setuptools"`
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
	return r, p.pythonInputs(ctx, doc, &r)
}

func (p *plan) isFile(name string) bool { return p.has[name].Type == enplace.EntryFile }

// hasBelow reports whether the tree has a folder of that name at its top.
func (p *plan) hasBelow(folder string) bool {
	return slices.ContainsFunc(p.tree, func(e enplace.TreeEntry) bool { return strings.HasPrefix(e.Path, folder+"/") })
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
