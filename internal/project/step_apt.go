package project

import (
	"context"
	"fmt"
	"regexp"
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
		// The path is no part of it: environments that declare the same share the layer, and the sandboxes held ready on it.
		Key: map[string]any{"recipe": recipeVersion, "step": enplace.StepApt, "root": p.rootImages(), "own": names}, Spec: spec, Capture: "/", Exclude: aptLeavesOut,
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
	// Python packages of Debian's compile themselves: with this, in a form that times in the image do not make stale.
	env := append(p.buildEnv(), "SOURCE_DATE_EPOCH=315619200")
	if err := sh.Do(ctx, build.Cmd{Argv: []string{"apt-get", "update", "-q", "-o", "APT::Sandbox::User=root", "--error-on=any"}, Env: env}); err != nil {
		return nil, err
	}
	uris, err := sh.Output(ctx, build.Cmd{Argv: slices.Concat(install, []string{"-qq", "--print-uris", "-o", "Acquire::ForceHash=SHA256", "--"}, names), Env: env})
	if err != nil {
		return nil, p.aptRefused(ctx, sh, names, err)
	}
	if err := sh.Do(ctx, build.Cmd{Argv: slices.Concat(install, []string{"--"}, names), Env: env}); err != nil {
		return nil, err
	}
	after, err := sh.Output(ctx, build.Cmd{Argv: []string{"dpkg-query", "-W", "-f", query}})
	if err != nil {
		return nil, err
	}
	const modules = "/usr/lib/python3/dist-packages"
	if strings.Contains(string(after), " python3-") {
		if err := sh.Do(ctx, build.Cmd{Argv: []string{"python3", "-I", "-c", compileScript, "", modules}, Env: env, Quiet: true}); err != nil {
			return nil, err
		}
	}
	return aptFindings{aptInstalled(string(before), string(after), string(uris), names)}, nil
}

// aptRefused turns what apt says of packages that it cannot install into what to do about it.
func (p *plan) aptRefused(ctx context.Context, sh *build.Shell, names []string, err error) error {
	if !build.IsExit(err) {
		return err
	}
	said, again := sh.Try(ctx, build.Cmd{Argv: slices.Concat([]string{"apt-get", "install", "-s", "-q", "--no-install-recommends", "--"}, names), Env: p.buildEnv()})
	if again != nil && !build.IsExit(again) {
		return again
	}
	var there string
	if missing := aptVanished(said); len(missing) > 0 {
		out, err := sh.Output(ctx, build.Cmd{Argv: append([]string{"apt-cache", "madison"}, missing...), Env: p.buildEnv()})
		if err != nil && !build.IsExit(err) {
			return err
		}
		there = string(out)
	}
	if f := aptFailure(said, there); f != nil {
		return f
	}
	return err
}

var aptVersion = regexp.MustCompile(`Version '([^']+)' for '([^']+)' was not found`)

// aptVanished gives the packages of which apt has not the version asked for.
func aptVanished(said string) []string {
	var names []string
	for _, g := range aptVersion.FindAllStringSubmatch(said, -1) {
		names = append(names, g[2])
	}
	return names
}

// aptFailure reads apt's errors. madison is what apt-cache madison says of the packages whose version is not there.
func aptFailure(said, madison string) *enplace.Failure {
	f := &enplace.Failure{Reason: enplace.ReasonExit}
	var what []string
	for line := range strings.Lines(said) {
		if e, ok := strings.CutPrefix(strings.TrimSpace(line), "E: "); ok && len(what) < 5 && !strings.HasPrefix(e, "Unable to correct") {
			what = append(what, e)
		}
	}
	if len(what) == 0 {
		return nil
	}
	f.Message = "apt cannot install the declared packages: " + strings.Join(what, "; ")
	for line := range strings.Lines(madison) {
		if col := strings.Split(line, "|"); len(col) == 3 {
			f.Fixes = append(f.Fixes, fmt.Sprintf("declare %s=%s, which the archive has now, or %[1]s without a version", strings.TrimSpace(col[0]), strings.TrimSpace(col[1])))
		}
	}
	if _, rest, ok := strings.Cut(said, "virtual package provided by:"); ok {
		var providers []string
		for line := range strings.Lines(strings.TrimPrefix(rest, "\n")) {
			name := strings.Fields(line)
			if !strings.HasPrefix(line, " ") || len(name) == 0 {
				break
			}
			providers = append(providers, name[0])
		}
		f.Fixes = append(f.Fixes, "it is a name that several packages provide; declare one of them: "+strings.Join(providers, ", "))
	}
	return f
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
		src, fetched := sources[name+"_"+f[2]]
		if !fetched && was[line] {
			src[0] = "base" // it was there before
		}
		out = append(out, enplace.ResolvedPackage{Manager: enplace.Apt, Name: name, Version: f[2], Hash: src[1], Source: src[0], Direct: direct[name]})
	}
	return out
}
