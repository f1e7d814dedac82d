package project

import (
	"cmp"
	"context"
	_ "embed"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"enplace"
	"enplace/internal/build"
)

// inspectScript prints what is installed, as JSON. It runs inside the sandbox.
//
//go:embed inspect.py
var inspectScript string

// installedPython is what inspectScript prints.
type installedPython struct {
	Python        string `json:"python"`
	Caches        []string
	Distributions []struct {
		Name    string   `json:"name"`
		Version string   `json:"version"`
		Tags    []string `json:"tags"`
		URL     string   `json:"url"`
	} `json:"distributions"`
}

// inspectPython finds out what was installed, and asks the index for the hashes of those very files.
func (p *plan) inspectPython(ctx context.Context, sh *build.Shell, warnings []string) (any, error) {
	raw, err := sh.Output(ctx, build.Cmd{Argv: []string{p.root + "/.venv/bin/python", "-I", "-c", inspectScript, p.root}, Env: p.buildEnv()})
	if err != nil {
		return nil, err
	}
	var got installedPython
	if err := decodeJSON(raw, &got); err != nil {
		return nil, err
	}
	found := pythonFindings{Python: got.Python, Caches: got.Caches, Warnings: warnings, Packages: []enplace.ResolvedPackage{}}
	direct := p.directPython()
	var pins []string
	for _, d := range got.Distributions {
		name := enplace.Package{Manager: enplace.Pip, Name: d.Name}.CanonicalName()
		found.Packages = append(found.Packages, enplace.ResolvedPackage{Manager: enplace.Pip, Name: name, Version: d.Version, Source: d.URL, Direct: direct[name]})
		if d.URL == "" {
			pins = append(pins, name+"=="+d.Version)
		}
	}
	lock, err := p.lockOf(ctx, sh, pins)
	if err != nil {
		if !build.IsExit(err) {
			return nil, err
		}
		found.Warnings = append(found.Warnings, "the hashes of the Python packages could not be found out; the log has uv's reason")
		return found, nil
	}
	for i, d := range got.Distributions {
		if l, ok := lock[found.Packages[i].Name]; ok && found.Packages[i].Source == "" {
			found.Packages[i].Source, found.Packages[i].Hash = cmp.Or(l.Index, p.pipIndex()), l.hash(d.Tags)
		}
	}
	return found, nil
}

func (p *plan) directPython() map[string]bool {
	direct := map[string]bool{}
	for _, entry := range p.run.Spec.Packages.Pip {
		if pkg, err := enplace.ParsePackage(enplace.Pip, entry); err == nil {
			direct[pkg.CanonicalName()] = true
		}
	}
	return direct
}

// lockedPackage is a package of a lock file. Source: PEP 751.
type lockedPackage struct {
	Name   string `toml:"name"`
	Index  string `toml:"index"`
	Wheels []struct {
		Name   string            `toml:"name"`
		URL    string            `toml:"url"`
		Hashes map[string]string `toml:"hashes"`
	} `toml:"wheels"`
	Sdist struct {
		Hashes map[string]string `toml:"hashes"`
	} `toml:"sdist"`
}

func (p *plan) lockOf(ctx context.Context, sh *build.Shell, pins []string) (map[string]lockedPackage, error) {
	if len(pins) == 0 {
		return nil, nil
	}
	cmd := p.uv("pip", "compile", "-q", "--no-deps", "--no-header", "--format", "pylock.toml", "--python", p.root+"/.venv/bin/python", "-")
	cmd.Stdin = strings.Join(pins, "\n") + "\n"
	raw, err := sh.Output(ctx, cmd)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Packages []lockedPackage `toml:"packages"`
	}
	if err := toml.Unmarshal(raw, &doc); err != nil {
		return nil, &enplace.Failure{Reason: enplace.ReasonExit, Message: "uv gave a lock that cannot be read"}
	}
	lock := map[string]lockedPackage{}
	for _, l := range doc.Packages {
		lock[l.Name] = l
	}
	return lock, nil
}

// hash gives the hash of the wheel that has one of the tags of the installed one, or of the source that it was built from.
func (l lockedPackage) hash(tags []string) string {
	have := map[string]bool{}
	for _, t := range tags {
		have[t] = true
	}
	for _, w := range l.Wheels {
		name := w.Name
		if name == "" {
			name = w.URL[strings.LastIndex(w.URL, "/")+1:]
		}
		for _, t := range wheelTags(name) {
			if have[t] {
				return "sha256:" + w.Hashes["sha256"]
			}
		}
	}
	if h := l.Sdist.Hashes["sha256"]; h != "" {
		return "sha256:" + h
	}
	return ""
}

// wheelTags expands the compressed tags of a wheel's file name. Source: PEP 427 and PEP 425.
func wheelTags(name string) []string {
	parts := strings.Split(strings.TrimSuffix(name, ".whl"), "-")
	if len(parts) < 5 {
		return nil
	}
	parts = parts[len(parts)-3:]
	var tags []string
	for py := range strings.SplitSeq(parts[0], ".") {
		for abi := range strings.SplitSeq(parts[1], ".") {
			for platform := range strings.SplitSeq(parts[2], ".") {
				tags = append(tags, py+"-"+abi+"-"+platform)
			}
		}
	}
	return tags
}
