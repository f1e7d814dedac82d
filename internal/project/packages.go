package project

import (
	"context"
	"fmt"
	"strings"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/pkgindex"
)

// CheckPackage asks a registry about a name and version, for the environment's Python and index when one is named.
func (s *Service) CheckPackage(ctx context.Context, c enplace.Caller, q enplace.PackageQuery) (enplace.PackageCheck, error) {
	var e enplace.Environment
	if q.Environment != "" {
		var err error
		if e, err = s.load(ctx, c, access.Read, q.Environment); err != nil {
			return enplace.PackageCheck{}, err
		}
	}
	entry := q.Name
	if q.Version != "" {
		entry += versionMark(q.Manager, q.Version) + q.Version
	}
	pkg, err := enplace.ParsePackage(q.Manager, entry)
	if err != nil {
		return enplace.PackageCheck{}, err
	}
	check, err := s.cfg.Index.Check(ctx, pkg, s.target(e))
	check.Version = q.Version
	return check, err
}

// versionMark is what stands between a name and a bare version.
func versionMark(m enplace.Manager, version string) string {
	switch m {
	case enplace.NPM:
		return "@"
	case enplace.Apt:
		return "="
	}
	if strings.ContainsAny(version[:1], "=<>!~") {
		return ""
	}
	return "=="
}

// debianGlibc is the C library of the base's Debian, by which wheels are judged. A base of another origin may have an older one;
// then the build tells.
const debianGlibc = "2.41"

// machine gives what wheels call an architecture of Debian's.
var machine = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// target is what the packages of an environment must run on.
func (s *Service) target(e enplace.Environment) pkgindex.Target {
	t := pkgindex.Target{PipIndexURL: e.PipIndexURL, Glibc: debianGlibc}
	if b, ok := s.cfg.Base(); ok {
		t.Python, t.Node, t.Arch = b.Python, b.Node, machine[b.Arch]
	}
	if e.PythonVersion != "" {
		t.Python = e.PythonVersion
	}
	return t
}

// checkPackages refuses packages that their registries do not have. A registry that does not answer refuses nothing.
func (s *Service) checkPackages(ctx context.Context, e enplace.Environment, pkgs []enplace.Package) error {
	if len(pkgs) == 0 {
		return nil
	}
	checks, err := s.cfg.Index.CheckAll(ctx, pkgs, s.target(e))
	if err != nil {
		return err
	}
	for i, check := range checks {
		switch {
		case check.Unchecked:
			s.cfg.Logger.Warn("a package was accepted unchecked", "manager", pkgs[i].Manager, "package", pkgs[i].String(), "why", check.Message)
		case !check.Exists, !check.VersionExists, !check.Installable:
			e := enplace.Invalidf("%s: %s", pkgs[i], check.Message).WithField("packages." + string(pkgs[i].Manager))
			if check.Latest != "" && !check.VersionExists {
				e.WithFix("%s", fmt.Sprintf("declare %s, the latest", latest(pkgs[i], check.Latest)))
			}
			return e
		}
	}
	return nil
}

func latest(p enplace.Package, version string) enplace.Package {
	p.Version = version
	if p.Manager == enplace.Pip {
		p.Version = "==" + version
	}
	return p
}
