package pkgindex

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"enplace"
)

// String gives the normal form of PEP 440, but for trailing zeros, which it leaves out: equal versions give the same.
func (v pyVersion) String() string {
	release := v.release
	for len(release) > 1 && release[len(release)-1] == "0" {
		release = release[:len(release)-1]
	}
	s := strings.Join(release, ".")
	if v.epoch != "0" {
		s = v.epoch + "!" + s
	}
	if v.pre != "" {
		s += v.pre + v.preN
	}
	if v.post != "" {
		s += ".post" + v.post
	}
	if v.dev != "" {
		s += ".dev" + v.dev
	}
	if v.local != nil {
		s += "+" + strings.Join(v.local, ".")
	}
	return s
}

var sourceEndings = []string{".tar.gz", ".zip", ".tgz", ".tar.bz2", ".tar.xz", ".tar"}

// splitFilename gives the version of a file of the project, and a wheel's python, abi and platform tags (PEP 427, PEP 625).
func splitFilename(name, filename string) (version string, tags []string, ok bool) {
	if stem, found := strings.CutSuffix(filename, ".whl"); found {
		parts := strings.Split(stem, "-")
		if len(parts) != 5 && len(parts) != 6 {
			return "", nil, false
		}
		return strings.ReplaceAll(parts[1], "_", "-"), parts[len(parts)-3:], true
	}
	for _, ending := range sourceEndings {
		stem, found := strings.CutSuffix(filename, ending)
		if !found {
			continue
		}
		// Old archives have dashes in their names, so the name decides where the version starts.
		for i := range len(stem) {
			if stem[i] == '-' && (enplace.Package{Manager: enplace.Pip, Name: stem[:i]}).CanonicalName() == name {
				return stem[i+1:], nil, true
			}
		}
		return "", nil, false
	}
	return "", nil, false
}

// fits reports whether the release has a wheel for the target, and whether it has its source.
func (r *pyRelease) fits(t Target) (wheel, source bool) {
	pinnedYank := r.yanked()
	for _, f := range r.files {
		if f.yanked && !pinnedYank || !f.runsOn(t.Python) {
			continue
		}
		if f.wheel == nil {
			source = true
		} else if fitsTags(f.wheel, t) {
			wheel = true
		}
	}
	return wheel, source
}

// runsOn compares requires-python. One that cannot be read counts for nothing, as it does for installers.
func (f pyFile) runsOn(python string) bool {
	v, ok := parsePyVersion(python)
	if !ok || f.requires == "" {
		return true
	}
	spec, ok := parsePySpec(f.requires)
	return !ok || spec.holds(v, python)
}

// fitsTags reports whether any combination of a wheel's tags is one of CPython's on Linux with glibc.
func fitsTags(tags []string, t Target) bool {
	platforms := strings.Split(tags[2], ".")
	if !slices.ContainsFunc(platforms, func(p string) bool { return fitsPlatform(p, t) }) {
		return false
	}
	minor, ok := pythonMinor(t.Python)
	if !ok {
		return true
	}
	for python := range strings.SplitSeq(tags[0], ".") {
		for abi := range strings.SplitSeq(tags[1], ".") {
			if fitsPython(python, abi, minor) {
				return true
			}
		}
	}
	return false
}

func fitsPython(python, abi string, minor int) bool {
	own := "cp3" + strconv.Itoa(minor)
	n, numbered := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(python, "cp3"), "py3"))
	switch abi {
	case "none":
		return python == "py3" || python == own || strings.HasPrefix(python, "py3") && numbered == nil && n <= minor
	case "abi3":
		return strings.HasPrefix(python, "cp3") && numbered == nil && n >= 2 && n <= minor
	}
	return python == own && (abi == own || minor < 8 && abi == own+"m")
}

var (
	manylinux    = regexp.MustCompile(`^manylinux_(\d{1,3})_(\d{1,4})_(.+)$`)
	oldManylinux = []string{"manylinux1_", "manylinux2010_", "manylinux2014_"} // glibc 2.17 at most, which all have
)

func fitsPlatform(p string, t Target) bool {
	if p == "any" || p == "linux_"+t.Arch {
		return true
	}
	fitsArch := func(arch string) bool { return t.Arch == "" || arch == t.Arch }
	for _, prefix := range oldManylinux {
		if arch, ok := strings.CutPrefix(p, prefix); ok {
			return fitsArch(arch)
		}
	}
	m := manylinux.FindStringSubmatch(p)
	if m == nil || m[1] != "2" {
		return false
	}
	needs, _ := strconv.Atoi(m[2])
	return needs <= glibcMinor(t.Glibc) && fitsArch(m[3])
}

// glibcMinor gives the 36 of 2.36, which is Debian 12's and the default.
func glibcMinor(s string) int {
	if n, err := strconv.Atoi(strings.TrimPrefix(s, "2.")); err == nil {
		return n
	}
	return 36
}

// pythonMinor gives the 13 of 3.13.5.
func pythonMinor(s string) (int, bool) {
	rest, ok := strings.CutPrefix(s, "3.")
	if !ok {
		return 0, false
	}
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	return n, err == nil
}

// shortPython gives "Python 3.13" for 3.13.5.
func shortPython(s string) string {
	if n, ok := pythonMinor(s); ok {
		return "Python 3." + strconv.Itoa(n)
	}
	return strings.TrimSpace("Python " + s)
}
