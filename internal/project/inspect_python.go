package project

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/build"
)

// installedPython is what inspectScript prints. It is bounded before it is kept: see bounded.
type installedPython struct {
	Python string `json:"python"`
	Tag    string `json:"tag"`  // of bytecode
	Site   string `json:"site"` // where distributions are, below the project's folder
	Caches []string

	Known         []string       `json:"known"` // of those asked about, what is there
	Distributions []distribution `json:"distributions"`
}

// distribution is an installed package as it says of itself.
type distribution struct {
	Info    string   `json:"info"` // its folder of metadata
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Tags    []string `json:"tags"`
	URL     string   `json:"url"`

	known *pythonPart // what was laid below, and is still there
}

// finishPython adds what a virtual environment that nobody writes to has need of, bytecode, and finds out what is in it. Looked at
// is only what was written; what was laid below and is as it was is known.
func (p *plan) finishPython(ctx context.Context, sh *build.Shell, laid []pythonPart) (installedPython, error) {
	var got installedPython
	written, err := sh.Written(ctx, p.root, 1<<10)
	if err != nil {
		return got, err
	}
	var folders []string
	for dir := range written {
		if strings.HasPrefix(dir, ".venv/lib/") || strings.HasPrefix(dir, ".python/") {
			folders = append(folders, p.root+"/"+dir)
		}
	}
	if len(folders) > 0 {
		sh.Note("compiling modules")
		cmd := p.script(compileScript, cacheDir+"/bytecode")
		cmd.Stdin = strings.Join(folders, "\x00")
		if err := sh.Do(ctx, cmd); err != nil {
			return got, err
		}
	}
	known := map[string]*pythonPart{}
	for i, part := range laid {
		if _, again := written[part.info()]; !again {
			known[part.Info] = &laid[i]
		}
	}
	cmd := p.script(inspectScript, p.root)
	for info := range known {
		cmd.Stdin += info + "\n"
	}
	raw, err := sh.Output(ctx, cmd)
	if err != nil {
		return got, err
	}
	if err := decodeJSON(raw, &got); err != nil {
		return got, err
	}
	for _, info := range got.Known {
		if part := known[info]; part != nil {
			got.Distributions = append(got.Distributions, distribution{Info: info, Name: part.Package.Name, Version: part.Package.Version, known: part})
		}
	}
	slices.SortFunc(got.Distributions, func(a, b distribution) int { return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	return got, nil
}

// foundPython says of what was installed where it is from, with the hashes of those very files by the locks, or else by the index.
func (p *plan) foundPython(ctx context.Context, sh *build.Shell, lock pythonLock, got installedPython, warnings []string) (pythonFindings, error) {
	found := pythonFindings{Python: got.Python, Caches: got.Caches, Warnings: warnings, Packages: []enplace.ResolvedPackage{}}
	direct := p.directPython()
	var pins []string
	for _, d := range got.Distributions {
		name := canonical(d.Name)
		found.Packages = append(found.Packages, enplace.ResolvedPackage{Manager: enplace.Pip, Name: name, Version: d.Version, Source: d.URL, Direct: direct[name]})
		if d.known == nil && d.URL == "" && lock[name].Version != d.Version {
			pins = append(pins, name+"=="+d.Version)
		}
	}
	rest := pythonLock{}
	if len(pins) > 0 {
		var err error
		if rest, err = p.resolve(ctx, sh, strings.Join(pins, "\n")+"\n", "--no-config", "--no-deps", "-"); err != nil && !build.IsExit(err) {
			return found, err
		}
		if err != nil {
			found.Warnings = append(found.Warnings, "the hashes of these Python packages could not be found out: "+strings.Join(pins, ", "))
		}
	}
	for i, d := range got.Distributions {
		pkg := &found.Packages[i]
		if d.known != nil {
			pkg.Source, pkg.Hash = d.known.Package.Source, d.known.Package.Hash
			continue
		}
		l, ok := lock[pkg.Name]
		if !ok || l.Version != pkg.Version {
			l, ok = rest[pkg.Name]
		}
		if ok && pkg.Source == "" {
			pkg.Source, pkg.Hash = cmp.Or(l.Index, p.pipIndex()), l.hash(d.Tags)
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
