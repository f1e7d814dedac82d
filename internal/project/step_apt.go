package project

import (
	"context"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/build"
)

// aptFindings is what the apt step learned.
type aptFindings struct {
	Packages []enplace.ResolvedPackage `json:"packages"`
}

// stepApt installs the declared Debian packages as a layer over the base.
func (p *plan) stepApt(ctx context.Context) (build.Outcome, error) {
	names := slices.Sorted(slices.Values(p.run.Spec.Packages.Apt))
	if len(names) == 0 {
		return build.Skipped, nil
	}
	spec := p.spec(false, false)
	spec.Mounts = nil
	var found aptFindings
	res, outcome, err := p.run.Layer(ctx, build.Layer{
		Key: p.key(enplace.StepApt, names), Spec: spec, Capture: "/", Exclude: aptLeavesOut,
		Run: func(ctx context.Context, sh *build.Shell) (any, error) { return p.installApt(ctx, sh, names) },
	}, &found)
	if err != nil {
		return "", err
	}
	p.apt = enplace.ManifestImage{Step: enplace.StepApt, Digest: string(res.Image), Bytes: res.Bytes, Mount: "/"}
	p.manifest.Packages = append(p.manifest.Packages, found.Packages...)
	return outcome, nil
}

// aptLeavesOut are the lists, archives and logs that apt can do without.
func aptLeavesOut(path string) bool {
	for _, dir := range []string{"var/lib/apt/lists", "var/cache/apt", "var/cache/debconf", "var/cache/ldconfig", "var/log", "root", "var/lib/dpkg/lock", "var/lib/dpkg/lock-frontend"} {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

func (p *plan) installApt(ctx context.Context, sh *build.Shell, names []string) (any, error) {
	const query = `${db:Status-Abbrev} ${binary:Package} ${Version}\n`
	before, err := sh.Output(ctx, build.Cmd{Argv: []string{"dpkg-query", "-W", "-f", query}})
	if err != nil {
		return nil, err
	}
	install := []string{"apt-get", "install", "-y", "-q", "--no-install-recommends",
		"-o", "DPkg::Lock::Timeout=600", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold",
		"-o", "Dpkg::Use-Pty=0", "-o", "APT::Sandbox::User=root"}
	env := p.buildEnv()
	if err := sh.Do(ctx, build.Cmd{Argv: []string{"apt-get", "update", "-q", "-o", "APT::Sandbox::User=root", "--error-on=any"}, Env: env}); err != nil {
		return nil, err
	}
	uris, err := sh.Output(ctx, build.Cmd{Argv: slices.Concat(install, []string{"-qq", "--print-uris", "--"}, names), Env: env})
	if err != nil {
		return nil, err
	}
	if err := sh.Do(ctx, build.Cmd{Argv: slices.Concat(install, []string{"--"}, names), Env: env}); err != nil {
		return nil, err
	}
	after, err := sh.Output(ctx, build.Cmd{Argv: []string{"dpkg-query", "-W", "-f", query}})
	if err != nil {
		return nil, err
	}
	return aptFindings{aptInstalled(string(before), string(after), string(uris), names)}, nil
}

// aptInstalled compares what dpkg-query said before and after, and adds what apt said of where each package comes from.
func aptInstalled(before, after, uris string, declared []string) []enplace.ResolvedPackage {
	sources := map[string][2]string{} // name_version: uri and hash
	for line := range strings.Lines(uris) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		var hash string
		for _, word := range f[3:] {
			if h, ok := strings.CutPrefix(word, "SHA256:"); ok {
				hash = "sha256:" + h
			}
		}
		name, rest, _ := strings.Cut(f[1], "_")
		version, _, _ := strings.Cut(rest, "_")
		sources[name+"_"+strings.ReplaceAll(version, "%3a", ":")] = [2]string{strings.Trim(f[0], "'"), hash}
	}
	direct := map[string]bool{}
	for _, d := range declared {
		if pkg, err := enplace.ParsePackage(enplace.Apt, d); err == nil {
			direct[pkg.Name] = true
		}
	}
	was := map[string]bool{}
	for line := range strings.Lines(before) {
		was[strings.TrimSpace(line)] = true
	}
	var out []enplace.ResolvedPackage
	for line := range strings.Lines(after) {
		line = strings.TrimSpace(line)
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "ii" {
			continue
		}
		name, _, _ := strings.Cut(f[1], ":")
		if was[line] && !direct[name] {
			continue
		}
		src := sources[name+"_"+f[2]]
		out = append(out, enplace.ResolvedPackage{Manager: enplace.Apt, Name: name, Version: f[2], Hash: src[1], Source: src[0], Direct: direct[name]})
	}
	return out
}
