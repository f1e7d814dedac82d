package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"enplace"
	"enplace/internal/store"
)

func tree(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	script := enplace.TreeEntry{Path: "bin/run", Type: enplace.EntryFile, Size: 10, Executable: true, Digest: enplace.DigestOf([]byte("x"))}
	link := enplace.TreeEntry{Path: "bin/current", Type: enplace.EntryLink, Target: "run"}
	check(t, s.EditTree(ctx, e.ID, at(3), func(tr store.Tree) error {
		_, err := tr.Get("bin/run")
		want(t, err, store.ErrNotFound)
		for _, x := range []enplace.TreeEntry{script, link, file("a.txt", "abc"), file("dir/b", "defgh")} {
			check(t, tr.Put(x))
		}
		same(t, "inside", must[enplace.TreeEntry](t)(tr.Get("bin/run")), script)
		totals(t, tr, 4, 18)
		check(t, tr.Put(file("a.txt", "abcdefg"))) // replaces
		totals(t, tr, 4, 22)
		for path, has := range map[string]bool{"bin": true, "bin/run": false, "bi": false, "b": false, "dir": true, "nothing": false} {
			if got, err := tr.HasBelow(path); got != has || err != nil {
				t.Errorf("HasBelow(%s) is %v, %v", path, got, err)
			}
		}
		return tr.SetInfo(store.TreeInfo{Commit: "abc123", Describe: "v1.0"})
	}))
	same(t, "an entry", must[enplace.TreeEntry](t)(s.TreeEntry(ctx, e.ID, "bin/current")), link)
	_, err := s.TreeEntry(ctx, e.ID, "bin")
	want(t, err, store.ErrNotFound)
	same(t, "info", must[store.TreeInfo](t)(s.TreeInfo(ctx, e.ID)), store.TreeInfo{Commit: "abc123", Describe: "v1.0"})
	got := must[enplace.Environment](t)(s.Environment(ctx, e.ID))
	if got.Files != 4 || got.Bytes != 22 || !got.UpdatedAt.Equal(kept(at(3))) {
		t.Errorf("the environment has %d files, %d bytes, updated %v", got.Files, got.Bytes, got.UpdatedAt)
	}

	check(t, s.EditTree(ctx, e.ID, at(4), func(tr store.Tree) error {
		same(t, "entries below bin", must[int](t)(tr.Delete("bin")), 2)
		_, err := tr.Delete("bin")
		want(t, err, store.ErrNotFound)
		totals(t, tr, 2, 12)
		same(t, "one file", must[int](t)(tr.Delete("a.txt")), 1)
		same(t, "the rest", must[int](t)(tr.Clear()), 1)
		totals(t, tr, 0, 0)
		return tr.Put(file("new", "n"))
	}))
	same(t, "info stays", must[store.TreeInfo](t)(s.TreeInfo(ctx, e.ID)).Commit, "abc123")
	got = must[enplace.Environment](t)(s.Environment(ctx, e.ID))
	if got.Files != 1 || got.Bytes != 1 {
		t.Errorf("the environment has %d files, %d bytes", got.Files, got.Bytes)
	}
	want(t, s.EditTree(ctx, "henv_none", at(5), func(store.Tree) error { return nil }), store.ErrNotFound)
}

func totals(t *testing.T, tr store.Tree, files int, bytes int64) {
	t.Helper()
	if f, b, err := tr.Totals(); f != files || b != bytes || err != nil {
		t.Errorf("totals are %d files and %d bytes, %v; want %d and %d", f, b, err, files, bytes)
	}
}

// hostilePaths sort by their bytes, and not as any language would.
var hostilePaths = []string{
	" leading", "%", "'; DROP TABLE tree; --", "A", "Z", "_", "a", "a b", "a-b", "a.b", "a/b", "a/b/c", "a/é", "a0", "aB", "b", "ab/c",
	"e\u0301", "é", "z", "\U0001F600", "\U0010FFFF", "\U0010FFFF/x", "\uFFFD",
}

func treeOrder(t *testing.T, s store.Store) {
	ctx := t.Context()
	e, other := env(t, s, "one"), env(t, s, "two")
	edit(t, s, e.ID, hostilePaths...)
	edit(t, s, other.ID, "a", "a/other")
	sorted := slices.Sorted(slices.Values(hostilePaths))
	path := func(e enplace.TreeEntry) string { return e.Path }
	for prefix, want := range map[string][]string{
		"":                       sorted,
		"a":                      {"a", "a/b", "a/b/c", "a/é"},
		"a/b":                    {"a/b", "a/b/c"},
		"ab":                     {"ab/c"},
		"b":                      {"b"},
		"\U0010FFFF":             {"\U0010FFFF", "\U0010FFFF/x"},
		"'; DROP TABLE tree; --": {"'; DROP TABLE tree; --"},
		"a%":                     {},
		"nothing":                {},
	} {
		listed(t, fmt.Sprintf("below %q", prefix), want, path, func(p enplace.Page) (enplace.List[enplace.TreeEntry], error) {
			return s.ListTree(ctx, e.ID, prefix, p)
		})
	}
	// Neighbours of a folder by name are not in it.
	check(t, s.EditTree(ctx, e.ID, at(2), func(tr store.Tree) error {
		same(t, "deleted", must[int](t)(tr.Delete("a")), 4)
		totals(t, tr, len(hostilePaths)-4, int64(len(strings.Join(hostilePaths, ""))-len("aa/ba/b/ca/é")))
		return nil
	}))
}

func treeAtomic(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	edit(t, s, e.ID, "a", "b/c")
	before := must[enplace.Environment](t)(s.Environment(ctx, e.ID))
	refused := errors.New("refused by the rules")
	err := s.EditTree(ctx, e.ID, at(9), func(tr store.Tree) error {
		must[int](t)(tr.Clear())
		check(t, tr.Put(file("new", "new")))
		check(t, tr.SetInfo(store.TreeInfo{Commit: "never"}))
		return refused
	})
	want(t, err, refused)
	same(t, "the environment", must[enplace.Environment](t)(s.Environment(ctx, e.ID)), before)
	listed(t, "the tree", []string{"a", "b/c"}, func(e enplace.TreeEntry) string { return e.Path }, func(p enplace.Page) (enplace.List[enplace.TreeEntry], error) {
		return s.ListTree(ctx, e.ID, "", p)
	})
	same(t, "info", must[store.TreeInfo](t)(s.TreeInfo(ctx, e.ID)), store.TreeInfo{})

	cut, cancel := context.WithCancel(ctx)
	err = s.EditTree(cut, e.ID, at(9), func(tr store.Tree) error {
		check(t, tr.Put(file("new", "new")))
		cancel()
		return nil
	})
	want(t, err, context.Canceled)
	_, err = s.TreeEntry(ctx, e.ID, "new")
	want(t, err, store.ErrNotFound)
	edit(t, s, e.ID, "still works")
}

func treeConcurrent(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			edit(t, s, e.ID, fmt.Sprintf("dir/%02d", i), "shared")
			if _, err := s.ListTree(ctx, e.ID, "", enplace.Page{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got := must[enplace.Environment](t)(s.Environment(ctx, e.ID))
	if got.Files != 17 || got.Bytes != 16*6+6 {
		t.Errorf("%d files and %d bytes after 16 edits at once", got.Files, got.Bytes)
	}
}

// treePaging: entries put and deleted between two pages neither repeat nor hide another.
func treePaging(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	edit(t, s, e.ID, "b", "d", "f", "h")
	first := must[enplace.List[enplace.TreeEntry]](t)(s.ListTree(ctx, e.ID, "", enplace.Page{Limit: 2}))
	check(t, s.EditTree(ctx, e.ID, at(2), func(tr store.Tree) error {
		must[int](t)(tr.Delete("d")) // the one that the cursor stands behind
		check(t, tr.Put(file("a", "a")))
		return tr.Put(file("g", "g"))
	}))
	rest := must[enplace.List[enplace.TreeEntry]](t)(s.ListTree(ctx, e.ID, "", enplace.Page{Cursor: first.Next}))
	var got []string
	for _, e := range append(first.Items, rest.Items...) {
		got = append(got, e.Path)
	}
	same(t, "both pages", got, []string{"b", "d", "f", "g", "h"})
}

func blobDigests(t *testing.T, s store.Store) {
	e := env(t, s, "one")
	edit(t, s, e.ID, "a", "b")
	v := succeed(t, s, e.ID, "sha256:one", at(1))
	check(t, s.EditTree(t.Context(), e.ID, at(2), func(tr store.Tree) error {
		must[int](t)(tr.Clear())
		check(t, tr.Put(enplace.TreeEntry{Path: "link", Type: enplace.EntryLink, Target: "c"}))
		return tr.Put(file("c", "c"))
	}))
	other := enplace.DigestOf([]byte("the tree as it is now"))
	second := must[enplace.Build](t)(s.QueueBuild(t.Context(), e.ID, "ann", at(3), func(enplace.Environment, []enplace.TreeEntry, store.TreeInfo) (store.BuildSpec, error) {
		return store.BuildSpec{Snapshot: other}, nil
	}))
	snapshots := []enplace.Digest{enplace.Digest(v.Manifest.Snapshot), other}
	slices.Sort(snapshots)
	needed := func(snapshot bool) []enplace.Digest {
		return digests(t, func(ctx context.Context, each func(enplace.Digest)) error {
			return s.BlobDigests(ctx, func(d enplace.Digest, is bool) {
				if is == snapshot {
					each(d)
				}
			})
		})
	}
	same(t, "blobs", needed(false), []enplace.Digest{enplace.DigestOf([]byte("c"))})
	same(t, "snapshots", needed(true), snapshots)
	must[enplace.Build](t)(s.RequestCancel(t.Context(), e.ID, second.N, at(4)))
	same(t, "snapshots without that of a build that made no version", needed(true), []enplace.Digest{enplace.Digest(v.Manifest.Snapshot)})
}

// digests gives what each was called with, sorted and each once.
func digests(t *testing.T, list func(context.Context, func(enplace.Digest)) error) []enplace.Digest {
	t.Helper()
	var all []enplace.Digest
	check(t, list(t.Context(), func(d enplace.Digest) { all = append(all, d) }))
	slices.Sort(all)
	return slices.Compact(all)
}
