package project

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/store"
)

// Create makes an environment with an empty tree.
func (s *Service) Create(ctx context.Context, c enplace.Caller, in enplace.CreateEnvironment) (enplace.Environment, error) {
	if err := access.Check(c, access.Create, access.Thing{What: "environment", ID: in.Name}); err != nil {
		return enplace.Environment{}, err
	}
	slug, err := enplace.Slug(in.Name)
	if err != nil {
		return enplace.Environment{}, err
	}
	now := s.cfg.Now().UTC().Truncate(time.Microsecond) // as the store keeps it
	e := enplace.Environment{
		ID: enplace.NewID(enplace.PrefixEnvironment, now), Name: in.Name, Slug: slug, Path: enplace.EnvironmentPath(slug), Owner: c.Name(),
		Packages: noPackages(), PythonVersion: in.PythonVersion, PipIndexURL: in.PipIndexURL, Check: in.Check, Scripts: in.Scripts,
		Egress: in.Egress, Versions: []enplace.VersionSummary{}, CreatedAt: now, UpdatedAt: now,
	}
	if in.Packages != nil {
		e.Packages = normalised(*in.Packages)
	}
	if err := s.checkSettings(ctx, e, noPackages()); err != nil {
		return enplace.Environment{}, err
	}
	err = s.cfg.Store.CreateEnvironment(ctx, e)
	if errors.Is(err, store.ErrExists) {
		return enplace.Environment{}, enplace.Conflictf("the name gives the path %s, which another environment has; choose another name", e.Path).WithField("name")
	}
	if err != nil {
		return enplace.Environment{}, err
	}
	s.cfg.Audit.Record(ctx, c, "environment.create", e.ID, map[string]any{"name": e.Name, "slug": slug})
	return e, nil
}

func noPackages() enplace.Packages {
	return enplace.Packages{Pip: []string{}, NPM: []string{}, Apt: []string{}}
}

// normalised gives lists without blanks around their entries, and never nil.
func normalised(p enplace.Packages) enplace.Packages {
	trim := func(in []string) []string {
		out := make([]string, 0, len(in))
		for _, e := range in {
			out = append(out, strings.TrimSpace(e))
		}
		return out
	}
	return enplace.Packages{Pip: trim(p.Pip), NPM: trim(p.NPM), Apt: trim(p.Apt)}
}

// List gives the environments that the caller may know of, newest first.
func (s *Service) List(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Environment], error) {
	switch c.Kind {
	case enplace.KeyOperator:
		return s.cfg.Store.ListEnvironments(ctx, "", p)
	case enplace.KeyPerson:
		return s.cfg.Store.ListEnvironments(ctx, c.Name(), p)
	case enplace.KeyHarness:
		h, err := s.cfg.Store.Harness(ctx, c.Subject)
		if err == nil && h.Environment != "" {
			if e, err := s.load(ctx, c, access.Read, h.Environment); err == nil {
				return enplace.List[enplace.Environment]{Items: []enplace.Environment{e}}, nil
			}
		}
	}
	return enplace.List[enplace.Environment]{Items: []enplace.Environment{}}, nil
}

// Get gives an environment with its newest versions.
func (s *Service) Get(ctx context.Context, c enplace.Caller, id string) (enplace.Environment, error) {
	e, err := s.load(ctx, c, access.Read, id)
	if err != nil {
		return enplace.Environment{}, err
	}
	return s.withVersions(ctx, e)
}

func (s *Service) withVersions(ctx context.Context, e enplace.Environment) (enplace.Environment, error) {
	vs, err := s.cfg.Store.ListVersions(ctx, e.ID, enplace.Page{Limit: enplace.MaxPageSize})
	e.Versions = vs.Items
	return e, gone(err, e.ID)
}

// Update changes an environment. Packages that were not declared before are checked against their registries first; when
// one does not answer, the update is accepted and the build will tell.
func (s *Service) Update(ctx context.Context, c enplace.Caller, id string, in enplace.UpdateEnvironment) (enplace.Environment, error) {
	old, err := s.load(ctx, c, access.Write, id)
	if err != nil {
		return enplace.Environment{}, err
	}
	next := old
	apply(&next, in)
	if err := s.checkSettings(ctx, next, old.Packages); err != nil {
		return enplace.Environment{}, err
	}
	e, err := s.cfg.Store.UpdateEnvironment(ctx, id, func(e *enplace.Environment) error {
		apply(e, in)
		e.UpdatedAt = s.cfg.Now().UTC()
		return nil
	})
	if err != nil {
		return enplace.Environment{}, gone(err, id)
	}
	s.cfg.Audit.Record(ctx, c, "environment.update", id, map[string]any{"packages": e.Packages})
	return s.withVersions(ctx, e)
}

func apply(e *enplace.Environment, in enplace.UpdateEnvironment) {
	set(&e.Name, in.Name)
	set(&e.PythonVersion, in.PythonVersion)
	set(&e.PipIndexURL, in.PipIndexURL)
	set(&e.Check, in.Check)
	if in.Scripts != nil {
		e.Scripts = in.Scripts
	}
	if in.Egress != nil {
		e.Egress = in.Egress
	}
	if in.Packages != nil {
		set(&e.Packages.Pip, in.Packages.Pip)
		set(&e.Packages.NPM, in.Packages.NPM)
		set(&e.Packages.Apt, in.Packages.Apt)
		e.Packages = normalised(e.Packages)
	}
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

var pythonVersion = regexp.MustCompile(`^3\.[0-9]{1,2}(\.[0-9]{1,2})?$`)

// checkSettings refuses what a build could not work with. known are the packages that were accepted before.
func (s *Service) checkSettings(ctx context.Context, e enplace.Environment, known enplace.Packages) error {
	if err := enplace.CheckName(e.Name); err != nil {
		return err
	}
	if e.PythonVersion != "" && !pythonVersion.MatchString(e.PythonVersion) {
		return enplace.Invalidf("%q is not a Python version; write 3.12 or 3.12.4", e.PythonVersion).WithField("python_version")
	}
	if e.PipIndexURL != "" {
		u, err := url.Parse(e.PipIndexURL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
			return enplace.Invalidf("must be the https address of a package index, without credentials in it").WithField("pip_index_url")
		}
	}
	if len(e.Check) > 0 && e.Check[0] == "" {
		return enplace.Invalidf("the first word must name a program").WithField("check")
	}
	if e.Egress != nil {
		if err := e.Egress.Check("egress."); err != nil {
			return err
		}
	}
	pkgs, err := e.Packages.Parse()
	if err != nil {
		return err
	}
	return s.checkPackages(ctx, e, slices.DeleteFunc(pkgs, func(p enplace.Package) bool {
		for _, k := range known.Of(p.Manager) {
			if old, err := enplace.ParsePackage(p.Manager, k); err == nil && old == p {
				return true
			}
		}
		return false
	}))
}

// Delete removes an environment, and stops its build. Tasks that run on it keep the version they started with.
func (s *Service) Delete(ctx context.Context, c enplace.Caller, id string) error {
	e, err := s.load(ctx, c, access.Write, id)
	if err != nil {
		return err
	}
	// The record first: from then on no build can be queued.
	if err := s.cfg.Store.DeleteEnvironment(ctx, id); err != nil {
		return gone(err, id)
	}
	s.cfg.Audit.Record(ctx, c, "environment.delete", id, map[string]any{"name": e.Name, "slug": e.Slug})
	// What is left behind here, Collect finds.
	if err := s.dropLeft(ctx, id); err != nil {
		s.cfg.Logger.Warn("dropping what a deleted environment left", "environment", id, "err", err)
	}
	return nil
}

// dropLeft removes what an environment that was deleted left: the build that runs, its downloads, and the logs last, since they
// tell Collect that there is something left.
func (s *Service) dropLeft(ctx context.Context, id string) error {
	if err := s.queue.Abandon(ctx, id); err != nil {
		return err
	}
	if err := s.cfg.Runtime.DropCache(ctx, id); err != nil {
		return err
	}
	return s.queue.DropLogs(id)
}
