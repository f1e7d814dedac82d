package project

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/base"
	"enplace/internal/build"
	"enplace/internal/sandbox"
)

// recipeVersion is part of every layer's key: raise it when a step gives another result for the same input.
const recipeVersion = 7

// cacheDir is where a build finds the downloads of earlier builds of the same environment. Environments never share one: an
// install script of one could poison another's.
const (
	cacheDir = "/var/cache/enplace"
	cacheMiB = 16 << 10
)

// plan is one build as its steps go along.
type plan struct {
	s    *Service
	run  *build.Run
	base base.Base
	root string // /env/<slug>
	tree []enplace.TreeEntry
	has  map[string]enplace.TreeEntry

	apt    enplace.ManifestImage   // no digest without apt packages
	files  []enplace.ManifestImage // the tree: one image, or one and a difference
	layers []enplace.ManifestImage // python, npm, project
	python pythonRule
	npm    npmRule
	venv   bool
	// emptyVenv is the image of the virtual environment before anything is installed into it.
	emptyVenv enplace.Digest
	modules   bool
	caches    []string // folders of /env/<slug>/.cache

	manifest enplace.Manifest
}

// recipe makes a version of an environment.
func (s *Service) recipe(ctx context.Context, r *build.Run) (*enplace.Version, error) {
	b, ok := s.cfg.Base()
	if !ok {
		return nil, noBase()
	}
	p := &plan{s: s, run: r, base: b, root: enplace.EnvironmentPath(r.Spec.Slug)}
	p.manifest = enplace.Manifest{
		Base: string(b.Digest), Snapshot: string(r.Spec.Snapshot), Commit: r.Spec.Tree.Commit,
		Interpreters: map[string]string{}, Packages: []enplace.ResolvedPackage{}, Warnings: []string{},
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) (build.Outcome, error)
	}{
		{enplace.StepSnapshot, p.stepSnapshot},
		{enplace.StepApt, p.stepApt},
		{enplace.StepPython, p.stepPython},
		{enplace.StepNPM, p.stepNPM},
		{enplace.StepFiles, p.stepFiles},
		{enplace.StepCheck, p.stepCheck},
		{enplace.StepSeal, p.stepSeal},
	} {
		if err := r.Step(ctx, step.name, step.do); err != nil {
			return nil, err
		}
	}
	p.manifest.Durations = r.Durations()
	p.manifest.Warnings = append(p.manifest.Warnings, r.Warnings()...)
	return &enplace.Version{
		VersionSummary: enplace.VersionSummary{Build: r.N, Digest: p.digest(), Bytes: p.manifest.Bytes, CreatedAt: s.cfg.Now().UTC()},
		Environment:    r.Environment, Manifest: p.manifest,
	}, nil
}

// digest names the version by what a task reads: its images, in their order.
func (p *plan) digest() string {
	digests := []string{p.manifest.Base}
	for _, m := range p.manifest.Images {
		digests = append(digests, m.Mount+" "+m.Digest)
	}
	return string(enplace.DigestOf([]byte(strings.Join(digests, "\n"))))
}

// rootImages are those of a sandbox's root: the base, and apt's layer over it.
func (p *plan) rootImages() []enplace.Digest {
	root := []enplace.Digest{p.base.Digest}
	if p.apt.Digest != "" {
		root = append(root, enplace.Digest(p.apt.Digest))
	}
	return root
}

// projectImages are those at /env/<slug> so far, lowest first. The tree comes last, so that no package hides a file of it.
func (p *plan) projectImages() []enplace.Digest {
	var all []enplace.Digest
	for _, m := range slices.Concat(p.layers, p.files) {
		all = append(all, enplace.Digest(m.Digest))
	}
	return all
}

// spec is the sandbox of a step.
func (p *plan) spec(writable, cache bool) sandbox.Spec {
	egress := p.s.cfg.BuildEgress
	if p.run.Spec.Egress != nil {
		egress = *p.run.Spec.Egress
	}
	spec := sandbox.Spec{Root: p.rootImages(), Egress: egress}
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Path: p.root, Images: p.projectImages(), Writable: writable})
	if cache {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Path: cacheDir, Cache: p.run.Environment, CacheMiB: cacheMiB})
	}
	return spec
}

// key is a layer's key: what every layer depends on, and its own. The environment is in it as well as the path, which another one
// may have had before: what an install script left in that one's downloads got into layers that ask for nothing but good packages.
func (p *plan) key(step string, own any) any {
	return map[string]any{"recipe": recipeVersion, "step": step, "environment": p.run.Environment, "root": p.rootImages(), "path": p.root, "own": own}
}

// layer adds an image at /env/<slug>.
func (p *plan) layer(step string, image enplace.Digest, bytes int64) {
	p.layers = append(p.layers, enplace.ManifestImage{Step: step, Digest: string(image), Bytes: bytes, Mount: p.root})
}

// maxDeclaration bounds a file that declares or locks dependencies: locks of large workspaces have several MiB.
const maxDeclaration = 16 << 20

// file reads such a file of the tree; nil where there is none.
func (p *plan) file(ctx context.Context, path string) ([]byte, error) {
	e, ok := p.has[path]
	if !ok || e.Type != enplace.EntryFile {
		return nil, nil
	}
	if e.Size > maxDeclaration {
		return nil, enplace.TooLargef("has %d MiB; a file that is read for its dependencies may have %d", e.Size>>20, maxDeclaration>>20).WithField(path)
	}
	b, err := p.s.cfg.Blobs.Open(ctx, e.Digest)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	defer b.Close()
	return io.ReadAll(b)
}

// keepCaches notes which of the download folders a step filled.
func (p *plan) keepCaches(found []string) {
	for _, dir := range found {
		if !slices.Contains(p.caches, dir) {
			p.caches = append(p.caches, dir)
		}
	}
}

// downloaded gives the variables by which tools find in the version what steps downloaded for them; nil for none.
func (p *plan) downloaded() map[string]string {
	var env map[string]string
	for name, dir := range downloads {
		if slices.Contains(p.caches, dir) {
			if env == nil {
				env = map[string]string{}
			}
			env[name] = p.root + "/.cache/" + dir
		}
	}
	return env
}

// Bounds of what is noted of packages. What says it runs beside their code.
const (
	maxResolved      = 20_000
	maxResolvedField = 1000
	maxVersionField  = 40
)

// bounded holds what a version's manifest says of packages and interpreters to what can be kept and shown.
func bounded(m *enplace.Manifest) error {
	if n := len(m.Packages) + len(m.Scripts); n > maxResolved {
		return &enplace.Failure{Reason: enplace.ReasonLimit, Message: fmt.Sprintf("the version has %d packages; the limit is %d", n, maxResolved), Fixes: []string{"remove packages"}}
	}
	for i := range m.Packages {
		for _, s := range []*string{&m.Packages[i].Name, &m.Packages[i].Version, &m.Packages[i].Hash, &m.Packages[i].Source} {
			*s = enplace.Shown(*s, maxResolvedField)
		}
	}
	for i := range m.Scripts {
		m.Scripts[i] = enplace.Shown(m.Scripts[i], maxResolvedField)
	}
	for name, version := range m.Interpreters {
		m.Interpreters[name] = enplace.Shown(version, maxVersionField)
	}
	return nil
}

// stepSeal verifies every image, measures the version and holds it to its limit.
func (p *plan) stepSeal(ctx context.Context) (build.Outcome, error) {
	m := &p.manifest
	if err := bounded(m); err != nil {
		return "", err
	}
	if p.apt.Digest != "" {
		m.Images = append(m.Images, p.apt)
	}
	m.Images = append(append(m.Images, p.layers...), p.files...)
	for _, image := range m.Images {
		if err := p.s.cfg.Images.Verify(ctx, enplace.Digest(image.Digest)); err != nil {
			return "", fmt.Errorf("verifying the image of step %s: %w", image.Step, err)
		}
		info, err := p.s.cfg.Images.Stat(enplace.Digest(image.Digest))
		if err != nil {
			return "", err
		}
		m.Bytes += image.Bytes
		m.Files += info.Files
	}
	if m.Bytes > enplace.MaxVersionBytes {
		var parts []string
		for _, image := range m.Images {
			parts = append(parts, fmt.Sprintf("%s %d MiB", image.Step, image.Bytes>>20))
		}
		return "", &enplace.Failure{
			Reason:  enplace.ReasonLimit,
			Message: fmt.Sprintf("the version has %d MiB; the limit is %d MiB (%s)", m.Bytes>>20, enplace.MaxVersionBytes>>20, strings.Join(parts, ", ")),
			Fixes:   []string{"remove packages or files"},
		}
	}
	m.Env = p.downloaded()
	p.run.Log.Note("%d files, %d packages, %.1f MiB over the base", m.Files, len(m.Packages), float64(m.Bytes)/(1<<20))
	return build.Ran, nil
}

// decodeJSON reads what a program inside printed.
func decodeJSON(raw []byte, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("reading what a step reported: %w", err)
	}
	return nil
}
