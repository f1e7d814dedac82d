package pkgindex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pault.ag/go/debian/version"

	"enplace"
)

// aptTTL is how long a package list holds before the mirror is asked whether it has another.
const aptTTL = time.Hour

// aptList is one Packages file, as small as it can be held.
type aptList struct {
	packages map[string][]aptVersion
	provides map[string][]string // virtual name to the names that provide it
	modified string              // Last-Modified
	until    time.Time
}

type aptVersion struct {
	version string
	arch    string // the architecture, or all
}

// checkApt looks the name up in the package lists of the sources.
func (x *Index) checkApt(ctx context.Context, c enplace.PackageCheck, pkg enplace.Package) (enplace.PackageCheck, error) {
	if len(x.c.Apt) == 0 {
		return c, couldNot("this server", "has no Debian sources to ask")
	}
	var found []aptVersion
	var providers []string
	native := ""
	for _, s := range x.c.Apt {
		native = s.Arch
		for _, component := range s.Components {
			list, err := x.list(ctx, s, component)
			if err != nil {
				return c, err
			}
			found = append(found, list.packages[pkg.Name]...)
			providers = append(providers, list.provides[pkg.Name]...)
		}
	}
	suites := x.suites()
	if len(found) == 0 {
		return judgeVirtual(c, providers, suites), nil
	}
	slices.SortStableFunc(found, func(a, b aptVersion) int { return compareDebian(a.version, b.version) })
	return judgeApt(c, pkg, found, native, suites), nil
}

// judgeVirtual says what a name means that no package has.
func judgeVirtual(c enplace.PackageCheck, providers []string, suites string) enplace.PackageCheck {
	if len(providers) == 0 {
		c.Message = fmt.Sprintf("%s has no package %q; check the spelling", suites, c.Name)
		return c
	}
	slices.Sort(providers)
	providers = slices.Compact(providers)
	const most = 8
	names := strings.Join(providers[:min(len(providers), most)], ", ")
	if more := len(providers) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	c.Exists, c.VersionExists = true, c.Version == ""
	c.Message = fmt.Sprintf("%s is a virtual package, which cannot be installed by itself; declare one of those that provide it: %s", c.Name, names)
	return c
}

// judgeApt says what the versions found, oldest first, mean for what is asked.
func judgeApt(c enplace.PackageCheck, pkg enplace.Package, found []aptVersion, native, suites string) enplace.PackageCheck {
	c.Exists, c.Latest = true, found[len(found)-1].version
	if c.VersionExists = pkg.Version == ""; !c.VersionExists {
		c.VersionExists = slices.ContainsFunc(found, func(v aptVersion) bool { return v.version == pkg.Version })
	}
	var have []string
	for _, v := range found {
		if !slices.Contains(have, v.version) {
			have = append(have, v.version)
		}
	}
	switch {
	case !c.VersionExists:
		c.Message = fmt.Sprintf("%s does not have version %s of %s, which may have been there earlier; now it has %s", suites, pkg.Version, c.Name, strings.Join(have, " and "))
	case pkg.Arch != "" && pkg.Arch != native && pkg.Arch != "all":
		c.Message = fmt.Sprintf("packages for %s cannot be installed on this system, which is %s; leave :%s out", pkg.Arch, native, pkg.Arch)
	case pkg.Arch == "all" && !slices.ContainsFunc(found, func(v aptVersion) bool { return v.arch == "all" }):
		c.Message = fmt.Sprintf("%s is not one package for all architectures; leave :all out", c.Name)
	default:
		c.Installable = true
		v := c.Latest
		if pkg.Version != "" {
			v = pkg.Version
		}
		c.Message = fmt.Sprintf("%s %s will be installed", c.Name, v)
		if pkg.Version != "" {
			c.Message += "; Debian keeps no old versions, so this one can be gone at a later build"
		}
	}
	return c
}

// suites names the sources in a message.
func (x *Index) suites() string {
	var names []string
	for _, s := range x.c.Apt {
		if !slices.Contains(names, s.Suite) {
			names = append(names, s.Suite)
		}
	}
	return "Debian (" + strings.Join(names, ", ") + ")"
}

// compareDebian orders by Debian policy 5.6.12; what is no version comes first.
func compareDebian(a, b string) int {
	va, errA := version.Parse(a)
	vb, errB := version.Parse(b)
	if errA != nil || errB != nil {
		if (errA != nil) == (errB != nil) {
			return strings.Compare(a, b)
		}
		if errA != nil {
			return -1
		}
		return 1
	}
	return version.Compare(va, vb)
}

// list gives a package list that is an hour old at most, from memory, from the cache folder, or from the mirror.
func (x *Index) list(ctx context.Context, s AptSource, component string) (*aptList, error) {
	base := fmt.Sprintf("%s/dists/%s/%s/binary-%s/Packages", strings.TrimRight(s.Mirror, "/"), s.Suite, component, s.Arch)
	if l := x.held(base); l != nil && x.c.Now().Before(l.until) {
		return l, nil
	}
	v, err := x.shared(ctx, "apt "+base, func(ctx context.Context) (any, error) {
		l := x.held(base)
		if l == nil {
			l = x.loadList(base)
		}
		if l == nil || !x.c.Now().Before(l.until) {
			fresh, err := x.fetchList(ctx, base, l)
			if err != nil {
				return nil, err
			}
			l = fresh
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.lists[base] = l
		return l, nil
	})
	if errors.Is(err, errAbsent) {
		return nil, couldNot(hostOf(base), fmt.Sprintf("has no package list of %s %s for %s", s.Suite, component, s.Arch))
	}
	if err != nil {
		return nil, err
	}
	return v.(*aptList), nil
}

func (x *Index) held(base string) *aptList {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.lists[base]
}
