package project

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"enplace"
)

// uvLock is what a uv.lock says of the packages that the project itself consists of.
type uvLock struct {
	Packages []struct {
		Name     string            `toml:"name"`
		Source   map[string]any    `toml:"source"`
		Metadata uvLockRequirement `toml:"metadata"`
	} `toml:"package"`
}

type uvLockRequirement struct {
	Dist []struct {
		Name      string `toml:"name"`
		Specifier string `toml:"specifier"`
	} `toml:"requires-dist"`
}

// requirement is the part of a dependency that can be compared without evaluating it: its name and versions. Source: PEP 508.
var requirement = regexp.MustCompile(`^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;@)]*)\)?`)

// unlocked gives the dependencies of a project that its uv.lock has not, or with other versions: somebody changed one without
// the other. uv sync --frozen would install without them and say nothing.
func unlocked(doc pyproject, raw []byte) []string {
	declared, _ := doc.Project["dependencies"].([]any)
	name, _ := doc.Project["name"].(string)
	var lock uvLock
	if name == "" || len(declared) == 0 || toml.Unmarshal(raw, &lock) != nil {
		return nil // uv says what is wrong with a lock
	}
	known := map[string][]string{}
	for _, pkg := range lock.Packages {
		if pkg.Name == canonical(name) && pkg.Source["registry"] == nil {
			for _, r := range pkg.Metadata.Dist {
				known[r.Name] = append(known[r.Name], clauses(r.Specifier))
			}
		}
	}
	var out []string
	for _, d := range declared {
		text, _ := d.(string)
		g := requirement.FindStringSubmatch(text)
		if g != nil && !strings.Contains(text, "@") && !slices.Contains(known[canonical(g[1])], clauses(g[2])) {
			out = append(out, text)
		}
	}
	return out
}

func canonical(name string) string {
	return enplace.Package{Manager: enplace.Pip, Name: name}.CanonicalName()
}

// clauses puts a set of version specifiers into one form.
func clauses(spec string) string {
	parts := strings.Split(strings.Join(strings.Fields(spec), ""), ",")
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	slices.Sort(parts)
	return strings.Join(parts, ",")
}
