package enplace

import (
	"regexp"
	"strings"
)

// Manager is a package manager.
type Manager string

// The package managers.
const (
	Pip Manager = "pip"
	NPM Manager = "npm"
	Apt Manager = "apt"
)

// Managers lists them in the order of a page.
var Managers = []Manager{Pip, NPM, Apt}

// Packages are the declared packages, one list per manager.
type Packages struct {
	Pip []string `json:"pip"`
	NPM []string `json:"npm"`
	Apt []string `json:"apt"`
}

// Of gives the list of one manager.
func (p Packages) Of(m Manager) []string {
	switch m {
	case Pip:
		return p.Pip
	case NPM:
		return p.NPM
	}
	return p.Apt
}

// Package is one parsed entry of a list.
type Package struct {
	Manager Manager
	Name    string // as written; CanonicalName for comparing
	Extras  string // pip: "[a,b]", or empty
	Version string // pip: a PEP 440 specifier set such as ==2.2.3 or >=2,<3; npm: a version, range or tag; apt: an exact version; empty for any
	Arch    string // apt: the architecture after a colon
}

// String gives the entry as its manager takes it.
func (p Package) String() string {
	switch {
	case p.Manager == NPM && p.Version != "":
		return p.Name + "@" + p.Version
	case p.Manager == Apt:
		s := p.Name
		if p.Arch != "" {
			s += ":" + p.Arch
		}
		if p.Version != "" {
			s += "=" + p.Version
		}
		return s
	}
	return p.Name + p.Extras + p.Version
}

var (
	pipEntry  = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(\[[A-Za-z0-9._,\s-]*\])?\s*(.*)$`)
	pipClause = regexp.MustCompile(`^(===|==|~=|!=|<=|>=|<|>)\s*([A-Za-z0-9.!+_*-]+)$`)
	npmEntry  = regexp.MustCompile(`^((?:@[a-z0-9-][a-z0-9._~-]*/)?[A-Za-z0-9][A-Za-z0-9._~-]*)(?:@(.*))?$`)
	npmRange  = regexp.MustCompile(`^[A-Za-z0-9.^~<>=|*xX +-]+$`)
	aptEntry  = regexp.MustCompile(`^([a-z0-9][a-z0-9+.-]+)(?::([a-z0-9-]+))?(?:=([A-Za-z0-9.+~:-]+))?$`)
)

// ParsePackage reads one entry of a list. What a manager would take as an option, a path, a URL, a pattern or a removal is
// refused. Sources: PEP 508 and PEP 440; npm's package-spec; Debian policy 5.6.1 and 5.6.12.
func ParsePackage(m Manager, entry string) (Package, error) {
	s := strings.TrimSpace(entry)
	bad := func(format string, args ...any) (Package, error) {
		return Package{}, Invalidf(format, args...).WithField("packages." + string(m))
	}
	switch {
	case s == "":
		return bad("an entry is empty; remove it")
	case len(s) > 300:
		return bad("the entry %q… has more than 300 characters", s[:40])
	case s[0] == '-':
		return bad("%q is an option; only names with an optional version can be declared", s)
	}
	switch m {
	case Pip:
		g := pipEntry.FindStringSubmatch(s)
		if g == nil || strings.ContainsAny(g[3], "@;/\\") {
			return bad("%q is not a Python package; write a name, name==1.2.3 or name[extra]>=1,<2 (URLs, paths and markers belong in a requirements file)", s)
		}
		var clauses []string
		if g[3] != "" {
			for c := range strings.SplitSeq(g[3], ",") {
				v := pipClause.FindStringSubmatch(strings.TrimSpace(c))
				if v == nil {
					return bad("%q has no valid version after the name; write name==1.2.3 or name>=1,<2", s)
				}
				clauses = append(clauses, v[1]+v[2])
			}
		}
		extras := strings.Join(strings.Fields(g[2]), "")
		return Package{Manager: m, Name: g[1], Extras: extras, Version: strings.Join(clauses, ",")}, nil
	case NPM:
		g := npmEntry.FindStringSubmatch(s)
		if g == nil || g[2] != "" && !npmRange.MatchString(g[2]) || strings.HasSuffix(s, "@") {
			return bad("%q is not an npm package; write name, name@1.2.3, name@^1 or @scope/name (URLs, paths and aliases belong in package.json)", s)
		}
		return Package{Manager: m, Name: g[1], Version: strings.TrimSpace(g[2])}, nil
	case Apt:
		g := aptEntry.FindStringSubmatch(s)
		if g == nil || strings.HasSuffix(s, "-") || strings.HasSuffix(s, "+") && !strings.HasSuffix(s, "++") {
			return bad("%q is not a Debian package; write name, name:arch or name=version (no patterns, releases, paths or removals)", s)
		}
		return Package{Manager: m, Name: g[1], Arch: g[2], Version: g[3]}, nil
	}
	return bad("%q is no package manager; there are pip, npm and apt", m)
}

var pep503 = regexp.MustCompile(`[-_.]+`)

// CanonicalName is the name that a manager's registry compares by: PEP 503 for pip, lower case as it is for the others.
func (p Package) CanonicalName() string {
	if p.Manager == Pip {
		return strings.ToLower(pep503.ReplaceAllString(p.Name, "-"))
	}
	return p.Name
}

// Parse parses every list, refusing more than MaxPackagesPerManager entries and a name declared twice.
func (p Packages) Parse() ([]Package, error) {
	var all []Package
	for _, m := range Managers {
		list := p.Of(m)
		if len(list) > MaxPackagesPerManager {
			return nil, TooLargef("%d packages are declared; the limit is %d for each manager", len(list), MaxPackagesPerManager).WithField("packages." + string(m))
		}
		seen := map[string]string{}
		for _, entry := range list {
			pkg, err := ParsePackage(m, entry)
			if err != nil {
				return nil, err
			}
			key := pkg.CanonicalName() + ":" + pkg.Arch
			if first, ok := seen[key]; ok {
				return nil, Invalidf("%q and %q declare the same package; keep one", first, entry).WithField("packages." + string(m))
			}
			seen[key] = entry
			all = append(all, pkg)
		}
	}
	return all, nil
}

// PackageQuery asks a registry about a name.
type PackageQuery struct {
	Manager     Manager
	Name        string
	Version     string
	Environment string // optional: its Python version and index are asked
}

// PackageCheck is what a registry says of a name and version. A registry that did not answer is an error of kind
// KindUpstream, never Exists == false.
type PackageCheck struct {
	Manager       Manager `json:"manager"`
	Name          string  `json:"name"`
	CanonicalName string  `json:"canonical_name"`
	Version       string  `json:"version"`
	Exists        bool    `json:"exists"`
	VersionExists bool    `json:"version_exists" doc:"True without a version to check when the name exists"`
	Yanked        bool    `json:"yanked"`
	Installable   bool    `json:"installable" doc:"Whether this environment's Python, Node or Debian can install it"`
	Latest        string  `json:"latest"`
	Unchecked     bool    `json:"unchecked,omitempty" doc:"The registry did not answer, so nothing else here is known"`
	Message       string  `json:"message" doc:"What it means, and what to do"`
}
