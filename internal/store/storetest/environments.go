package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"enplace"
	"enplace/internal/store"
)

func environments(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := enplace.Environment{
		ID: "henv_0", Name: "Content Studio", Slug: "content-studio", Path: "/env/content-studio", Owner: "ann",
		Packages:      enplace.Packages{Pip: []string{"pandas==2.2.3"}, NPM: []string{}, Apt: []string{"jq"}},
		PythonVersion: "3.12", PipIndexURL: "https://pypi.example/simple", Check: []string{"make", "test"}, Scripts: ptr(false),
		Egress: &enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: []string{"*.example.org"}}, CreatedAt: at(0), UpdatedAt: at(1),
	}
	check(t, s.CreateEnvironment(ctx, e))
	e.CreatedAt, e.UpdatedAt = kept(e.CreatedAt), kept(e.UpdatedAt)
	same(t, "as created", must[enplace.Environment](t)(s.Environment(ctx, "henv_0")), e)

	twin := e
	twin.ID = "henv_2"
	want(t, s.CreateEnvironment(ctx, twin), store.ErrExists)
	twin.ID, twin.Slug = e.ID, "other"
	want(t, s.CreateEnvironment(ctx, twin), store.ErrExists)
	_, err := s.Environment(ctx, "henv_2")
	want(t, err, store.ErrNotFound)

	// Ids decide, and no date, which a clock may have set back; every page is stable while new ones come in.
	var ann, all []string
	for i := range 5 {
		owner := []string{"ann", "bob"}[i%2]
		x := envOf(t, s, fmt.Sprint("e", i), owner, at(5-i*60))
		all = append(all, x.ID)
		if owner == "ann" {
			ann = append(ann, x.ID)
		}
	}
	newest := func(ids []string) []string {
		slices.Reverse(ids)
		return append(ids, "henv_0")
	}
	id := func(e enplace.Environment) string { return e.ID }
	list := func(owner string) func(enplace.Page) (enplace.List[enplace.Environment], error) {
		return func(p enplace.Page) (enplace.List[enplace.Environment], error) {
			return s.ListEnvironments(ctx, owner, p)
		}
	}
	all, ann = newest(all), newest(ann)
	listed(t, "all", all, id, list(""))
	listed(t, "ann's", ann, id, list("ann"))
	listed(t, "nobody's", []string{}, id, list("nobody"))

	first := must[enplace.List[enplace.Environment]](t)(s.ListEnvironments(ctx, "", enplace.Page{Limit: 3}))
	envOf(t, s, "late", "ann", at(50))
	rest := must[enplace.List[enplace.Environment]](t)(s.ListEnvironments(ctx, "", enplace.Page{Cursor: first.Next}))
	same(t, "the pages around a new one", len(first.Items)+len(rest.Items), len(all))
}

func environmentsUpdate(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	edit(t, s, e.ID, "a", "bb")
	before := must[enplace.Environment](t)(s.Environment(ctx, e.ID))

	refused := errors.New("refused by the rules")
	_, err := s.UpdateEnvironment(ctx, e.ID, func(e *enplace.Environment) error {
		e.Name = "never"
		return refused
	})
	want(t, err, refused)
	same(t, "after a refusal", must[enplace.Environment](t)(s.Environment(ctx, e.ID)), before)

	got, err := s.UpdateEnvironment(ctx, e.ID, func(e *enplace.Environment) error {
		e.Name, e.Packages.Pip, e.PythonVersion, e.PipIndexURL = "New", []string{"six"}, "3.13", "https://x.example"
		e.Check, e.Scripts, e.Egress = []string{"true"}, ptr(true), &enplace.Egress{Policy: enplace.EgressNone}
		e.UpdatedAt = at(9)
		e.Slug, e.Owner, e.ActiveVersion, e.Files, e.Bytes, e.CreatedAt = "moved", "eve", ptr(7), 99, 99, at(99)
		return nil
	})
	check(t, err)
	after := before
	after.Name, after.Packages.Pip, after.PythonVersion, after.PipIndexURL = "New", []string{"six"}, "3.13", "https://x.example"
	after.Check, after.Scripts, after.Egress, after.UpdatedAt = []string{"true"}, ptr(true), &enplace.Egress{Policy: enplace.EgressNone}, kept(at(9))
	same(t, "the answer, with what may not change as it was", got, after)
	same(t, "the record", must[enplace.Environment](t)(s.Environment(ctx, e.ID)), after)

	_, err = s.UpdateEnvironment(ctx, "henv_none", func(*enplace.Environment) error { return nil })
	want(t, err, store.ErrNotFound)

	// Each edit sees the one before it.
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, err := s.UpdateEnvironment(ctx, e.ID, func(e *enplace.Environment) error {
				e.Packages.Apt = append(e.Packages.Apt, "x")
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	same(t, "packages after 16 edits at once", len(must[enplace.Environment](t)(s.Environment(ctx, e.ID)).Packages.Apt), 16)
}

func environmentsDelete(t *testing.T, s store.Store) {
	ctx := t.Context()
	e, other := env(t, s, "one"), env(t, s, "two")
	edit(t, s, e.ID, "a")
	edit(t, s, other.ID, "b")
	succeed(t, s, e.ID, "sha256:one", at(1))
	succeed(t, s, other.ID, "sha256:two", at(1))
	queue(t, s, e.ID, at(2))

	check(t, s.DeleteEnvironment(ctx, e.ID))
	want(t, s.DeleteEnvironment(ctx, e.ID), store.ErrNotFound)
	_, err := s.Environment(ctx, e.ID)
	want(t, err, store.ErrNotFound)
	_, err = s.TreeEntry(ctx, e.ID, "a")
	want(t, err, store.ErrNotFound)
	_, err = s.TreeInfo(ctx, e.ID)
	want(t, err, store.ErrNotFound)
	_, err = s.ListTree(ctx, e.ID, "", enplace.Page{})
	want(t, err, store.ErrNotFound)
	_, err = s.Build(ctx, e.ID, 1)
	want(t, err, store.ErrNotFound)
	_, err = s.ListBuilds(ctx, e.ID, enplace.Page{})
	want(t, err, store.ErrNotFound)
	_, err = s.Version(ctx, e.ID, 1)
	want(t, err, store.ErrNotFound)
	_, err = s.ListVersions(ctx, e.ID, enplace.Page{})
	want(t, err, store.ErrNotFound)
	if _, ok, err := s.ClaimBuild(ctx, "worker", at(3), 1); ok || err != nil {
		t.Errorf("a build of a deleted environment was claimed: %v", err)
	}
	images := digests(t, s.ImageDigests)
	same(t, "images", images, []enplace.Digest{"sha256:base", "sha256:two"})
	if _, err := s.Version(ctx, other.ID, 1); err != nil {
		t.Errorf("the other environment: %v", err)
	}
	env(t, s, "one") // the slug is free again
}
