// Package storetest is what every adapter of store must pass. It stands beside the contract, so that a new adapter starts
// from a test that fails.
package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"enplace"
	"enplace/internal/store"
)

// Place is where a store keeps its records: it can be opened, closed, and opened again.
type Place interface {
	Open(*testing.T) store.Store
}

// Run runs the suite. place gives one without records; what it opened ends with the test.
func Run(t *testing.T, place func(*testing.T) Place) {
	onOne := func(test func(*testing.T, store.Store)) func(*testing.T, Place) {
		return func(t *testing.T, p Place) { test(t, p.Open(t)) }
	}
	for name, test := range map[string]func(*testing.T, Place){
		"Environments":          onOne(environments),
		"EnvironmentsUpdate":    onOne(environmentsUpdate),
		"EnvironmentsDelete":    onOne(environmentsDelete),
		"Tree":                  onOne(tree),
		"TreeOrder":             onOne(treeOrder),
		"TreeAtomic":            onOne(treeAtomic),
		"TreeConcurrent":        onOne(treeConcurrent),
		"TreePaging":            onOne(treePaging),
		"BlobDigests":           onOne(blobDigests),
		"BuildsQueue":           onOne(buildsQueue),
		"BuildsQueueConcurrent": onOne(buildsQueueConcurrent),
		"BuildsClaim":           onOne(buildsClaim),
		"BuildsClaimConcurrent": onOne(buildsClaimConcurrent),
		"BuildsLease":           onOne(buildsLease),
		"BuildsUpdate":          onOne(buildsUpdate),
		"BuildsCancel":          onOne(buildsCancel),
		"BuildsFinish":          onOne(buildsFinish),
		"BuildsFinishSwap":      onOne(buildsFinishSwap),
		"BuildsInterrupt":       onOne(buildsInterrupt),
		"Versions":              onOne(versions),
		"VersionsActivate":      onOne(versionsActivate),
		"ImageDigests":          onOne(imageDigests),
		"Steps":                 onOne(steps),
		"Harnesses":             onOne(harnesses),
		"Tasks":                 onOne(tasks),
		"TasksPin":              onOne(tasksPin),
		"TasksFilter":           onOne(tasksFilter),
		"TasksUpdate":           onOne(tasksUpdate),
		"Teams":                 onOne(teams),
		"People":                onOne(people),
		"PeopleConcurrent":      onOne(peopleConcurrent),
		"Rooms":                 onOne(rooms),
		"Conversations":         onOne(conversations),
		"ScopesHold":            onOne(scopesHold),
		"Plugins":               onOne(plugins),
		"PluginsSync":           onOne(pluginsSync),
		"Items":                 onOne(items),
		"Choices":               onOne(choices),
		"ChoicesGo":             onOne(choicesGo),
		"Declared":              onOne(declared),
		"DeclaredOnce":          onOne(declaredOnce),
		"DeclaredAt":            onOne(declaredAt),
		"Secrets":               onOne(secrets),
		"Sets":                  onOne(sets),
		"SetsDelete":            onOne(setsDelete),
		"Computers":             onOne(computers),
		"ComputersUpdate":       onOne(computersUpdate),
		"ComputerErrors":        onOne(computerErrors),
		"ImagesOfToolchains":    onOne(imagesOfToolchains),
		"Keys":                  onOne(keys),
		"Audit":                 onOne(audit),
		"Requests":              onOne(requests),
		"RequestsExpire":        onOne(requestsExpire),
		"RequestsConcurrent":    onOne(requestsConcurrent),
		"Settings":              onOne(settings),
		"Cursors":               onOne(cursors),
		"Reopen":                reopen,
		"ReopenToolchains":      reopenToolchains,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, place(t))
		})
	}
}

// at gives a time of the tests, n minutes after the first. It is in no zone of UTC, since callers' clocks are not, and finer
// than any store keeps.
func at(n int) time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("", 3600)).Add(time.Duration(n) * time.Minute)
}

// kept is a time as a store gives it back.
func kept(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func ptr[T any](v T) *T { return &v }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func want(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("the error is %v, not %v", err, kind)
	}
}

func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// pages reads a list page by page, checks that the pages are full, and gives all items.
func pages[T any](t *testing.T, limit int, list func(enplace.Page) (enplace.List[T], error)) []T {
	t.Helper()
	var all []T
	p := enplace.Page{Limit: limit}
	for {
		l, err := list(p)
		check(t, err)
		if l.Items == nil {
			t.Fatal("the items of a page are nil, and would be null on the wire")
		}
		all = append(all, l.Items...)
		if l.Next == "" {
			if limit > 0 && len(l.Items) > limit {
				t.Fatalf("%d items on a page of %d", len(l.Items), limit)
			}
			return all
		}
		if len(l.Items) != limit {
			t.Fatalf("%d items on a page of %d that has a next one", len(l.Items), limit)
		}
		p.Cursor = l.Next
	}
}

// listed checks that a list gives these items in order, whatever the size of its pages.
func listed[T any](t *testing.T, what string, want []string, name func(T) string, list func(enplace.Page) (enplace.List[T], error)) {
	t.Helper()
	for _, limit := range []int{0, 1, 2, len(want), len(want) + 1} {
		got := []string{}
		for _, item := range pages(t, limit, list) {
			got = append(got, name(item))
		}
		same(t, fmt.Sprintf("%s by %d", what, limit), got, want)
	}
}

// env adds an environment and gives it as the store does.
func env(t *testing.T, s store.Store, slug string) enplace.Environment {
	t.Helper()
	return envOf(t, s, slug, "ann", at(0))
}

func envOf(t *testing.T, s store.Store, slug, owner string, created time.Time) enplace.Environment {
	t.Helper()
	e := enplace.Environment{
		ID: enplace.NewID(enplace.PrefixEnvironment, created), Name: "Name of " + slug, Slug: slug, Owner: owner,
		Packages: enplace.Packages{Pip: []string{}, NPM: []string{}, Apt: []string{}}, CreatedAt: created, UpdatedAt: created,
	}
	check(t, s.CreateEnvironment(t.Context(), e))
	return must[enplace.Environment](t)(s.Environment(t.Context(), e.ID))
}

func file(path, content string) enplace.TreeEntry {
	return enplace.TreeEntry{Path: path, Type: enplace.EntryFile, Size: int64(len(content)), Digest: enplace.DigestOf([]byte(content))}
}

// edit puts files, each holding its own path.
func edit(t *testing.T, s store.Store, id string, paths ...string) {
	t.Helper()
	check(t, s.EditTree(t.Context(), id, at(1), func(tr store.Tree) error {
		for _, p := range paths {
			if err := tr.Put(file(p, p)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// queue queues a build with a spec of its own.
func queue(t *testing.T, s store.Store, id string, now time.Time) enplace.Build {
	t.Helper()
	return must[enplace.Build](t)(s.QueueBuild(t.Context(), id, "ann", now, specOf))
}

func specOf(e enplace.Environment, entries []enplace.TreeEntry, info store.TreeInfo) (store.BuildSpec, error) {
	return store.BuildSpec{
		Snapshot: enplace.DigestOf(fmt.Append(nil, e.ID, len(entries))), Slug: e.Slug, Packages: e.Packages, Active: e.ActiveVersion, Tree: info,
	}, nil
}

// succeed queues, claims and finishes a build with a version whose image is named by it.
func succeed(t *testing.T, s store.Store, id, image string, now time.Time) enplace.Version {
	t.Helper()
	queue(t, s, id, now)
	rec, ok, err := s.ClaimBuild(t.Context(), "worker", now, time.Hour)
	if err != nil || !ok {
		t.Fatalf("claiming: %v, %v", ok, err)
	}
	b, activated, err := finish(t, s, rec, image, now)
	check(t, err)
	if !activated || b.Version == nil {
		t.Fatalf("the build ended as %+v, activated: %v", b, activated)
	}
	return must[enplace.Version](t)(s.Version(t.Context(), id, *b.Version))
}

func finish(t *testing.T, s store.Store, rec store.BuildRecord, image string, now time.Time) (enplace.Build, bool, error) {
	t.Helper()
	end := rec.Build
	end.Status, end.EndedAt = enplace.BuildSucceeded, &now
	return s.FinishBuild(t.Context(), rec.Environment, rec.N, end, &enplace.Version{
		VersionSummary: enplace.VersionSummary{Digest: "sha256:of-" + image, Bytes: 7, CreatedAt: now},
		Manifest: enplace.Manifest{
			Base: "sha256:base", Images: []enplace.ManifestImage{{Step: "files", Digest: image, Bytes: 7, Mount: "/env/x"}},
			Snapshot: string(rec.Spec.Snapshot), Packages: []enplace.ResolvedPackage{{Manager: enplace.Pip, Name: "six", Version: "1.17.0"}},
			Warnings: []string{},
		},
	})
}
