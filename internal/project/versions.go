package project

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/store"
)

// ListVersions gives the versions of an environment, newest first.
func (s *Service) ListVersions(ctx context.Context, c enplace.Caller, id string, p enplace.Page) (enplace.List[enplace.VersionSummary], error) {
	if _, err := s.load(ctx, c, access.Read, id); err != nil {
		return enplace.List[enplace.VersionSummary]{}, err
	}
	l, err := s.cfg.Store.ListVersions(ctx, id, p)
	return l, gone(err, id)
}

// GetVersion gives a version with its manifest.
func (s *Service) GetVersion(ctx context.Context, c enplace.Caller, id string, n int) (enplace.Version, error) {
	e, err := s.load(ctx, c, access.Read, id)
	if err != nil {
		return enplace.Version{}, err
	}
	return s.version(ctx, e, n)
}

func (s *Service) version(ctx context.Context, e enplace.Environment, n int) (enplace.Version, error) {
	v, err := s.cfg.Store.Version(ctx, e.ID, n)
	if errors.Is(err, store.ErrNotFound) {
		return enplace.Version{}, noVersion(n)
	}
	v.Active = e.ActiveVersion != nil && *e.ActiveVersion == n
	return v, err
}

func noVersion(n int) error {
	return enplace.NotFoundf("the environment has no version %d", n).WithFix("list its versions")
}

// DeleteVersion removes a version that is not active. Tasks that run on it keep it until they end.
func (s *Service) DeleteVersion(ctx context.Context, c enplace.Caller, id string, n int) error {
	if _, err := s.load(ctx, c, access.Write, id); err != nil {
		return err
	}
	switch err := s.cfg.Store.DeleteVersion(ctx, id, n); {
	case errors.Is(err, store.ErrNotFound):
		return noVersion(n)
	case errors.Is(err, store.ErrConflict):
		return enplace.Conflictf("version %d is the active one", n).WithFix("activate another version first")
	case err != nil:
		return err
	}
	s.cfg.Audit.Record(ctx, c, "version.delete", id, map[string]any{"n": n})
	return nil
}

// Activate makes a version the active one: new tasks read it, running ones keep theirs.
func (s *Service) Activate(ctx context.Context, c enplace.Caller, id string, n int) (enplace.Environment, error) {
	if _, err := s.load(ctx, c, access.Write, id); err != nil {
		return enplace.Environment{}, err
	}
	switch err := s.cfg.Store.ActivateVersion(ctx, id, n, nil, s.cfg.Now().UTC()); {
	case errors.Is(err, store.ErrNotFound):
		return enplace.Environment{}, noVersion(n)
	case err != nil:
		return enplace.Environment{}, err
	}
	s.cfg.Audit.Record(ctx, c, "version.activate", id, map[string]any{"n": n})
	return s.Get(ctx, c, id)
}

// Diff gives the files and packages in which two versions differ.
func (s *Service) Diff(ctx context.Context, c enplace.Caller, id string, from, to int) (enplace.VersionDiff, error) {
	e, err := s.load(ctx, c, access.Read, id)
	if err != nil {
		return enplace.VersionDiff{}, err
	}
	d := enplace.VersionDiff{From: from, To: to, Files: []enplace.FileChange{}, Packages: []enplace.PackageChange{}}
	var trees [2][]enplace.TreeEntry
	var pkgs [2][]enplace.ResolvedPackage
	for i, n := range []int{from, to} {
		v, err := s.version(ctx, e, n)
		if err != nil {
			return enplace.VersionDiff{}, err
		}
		if trees[i], err = s.snapshot(ctx, enplace.Digest(v.Manifest.Snapshot)); err != nil {
			return enplace.VersionDiff{}, err
		}
		pkgs[i] = v.Manifest.Packages
	}
	changed, removed := treeDiff(trees[0], trees[1])
	old := byPath(trees[0])
	for _, entry := range changed {
		change := "added"
		if _, ok := old[entry.Path]; ok {
			change = "changed"
		}
		d.Files = append(d.Files, enplace.FileChange{Path: entry.Path, Change: change})
	}
	for _, p := range removed {
		d.Files = append(d.Files, enplace.FileChange{Path: p, Change: "removed"})
	}
	slices.SortFunc(d.Files, func(a, b enplace.FileChange) int { return strings.Compare(a.Path, b.Path) })
	d.Packages = append(d.Packages, packageDiff(pkgs[0], pkgs[1])...)
	return d, nil
}

func byPath(tree []enplace.TreeEntry) map[string]enplace.TreeEntry {
	m := make(map[string]enplace.TreeEntry, len(tree))
	for _, e := range tree {
		m[e.Path] = e
	}
	return m
}

// treeDiff gives the entries of next that are new or other than in old, and the paths that next has no more.
func treeDiff(old, next []enplace.TreeEntry) (changed []enplace.TreeEntry, removed []string) {
	was := byPath(old)
	for _, e := range next {
		if w, ok := was[e.Path]; !ok || w != e {
			changed = append(changed, e)
		}
		delete(was, e.Path)
	}
	return changed, slices.Sorted(maps.Keys(was))
}

// packageDiff compares by manager and name; of a package that is there several times, all versions count.
func packageDiff(old, next []enplace.ResolvedPackage) []enplace.PackageChange {
	type id struct {
		m    enplace.Manager
		name string
	}
	versions := func(list []enplace.ResolvedPackage) map[id]string {
		m := map[id]string{}
		for _, p := range list {
			k := id{p.Manager, p.Name}
			if m[k] != "" && m[k] != p.Version {
				m[k] += ", " + p.Version
				continue
			}
			m[k] = p.Version
		}
		return m
	}
	was, is := versions(old), versions(next)
	var out []enplace.PackageChange
	for k, v := range is {
		if was[k] != v {
			out = append(out, enplace.PackageChange{Manager: k.m, Name: k.name, From: was[k], To: v})
		}
		delete(was, k)
	}
	for k, v := range was {
		out = append(out, enplace.PackageChange{Manager: k.m, Name: k.name, From: v})
	}
	slices.SortFunc(out, func(a, b enplace.PackageChange) int {
		return strings.Compare(string(a.Manager)+a.Name, string(b.Manager)+b.Name)
	})
	return out
}
