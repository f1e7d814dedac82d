package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/internal/store"
)

func setOf(hash string, used time.Time) store.SetRecord {
	bare, full := itemOf("", "bare", at(0)).Definition, itemOf("", "full", at(0)).Definition
	bare.Files = nil
	full.Files = []enplace.ItemFile{{Path: "a"}, {Path: "mise.toml", Content: "é\u0000<>\n"}, {Path: "z", Content: strings.Repeat("z", 300)}}
	return store.SetRecord{
		Set: enplace.Set{
			Hash: hash, Chain: enplace.NewChain("web", "ann"),
			Items:  []enplace.SetItem{{Definition: full, Scope: enplace.Organisation}, {Definition: bare, Scope: "team:web"}, {Definition: full, Scope: "person:ann"}},
			Egress: enplace.Egress{Policy: enplace.EgressOpen}, Base: "sha256:base", Arch: "amd64", Mise: "2026.9.15",
			Left: []enplace.LeftOut{{Key: "go", Scope: "team:web", Reason: "switched off"}}, Clashes: []enplace.Clash{},
		},
		Bundle: enplace.Bundle{Status: enplace.BundleBuilding}, CreatedAt: used, UsedAt: used,
	}
}

func sets(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Set(ctx, "one")
	want(t, err, store.ErrNotFound)
	r := setOf("one", at(1))
	got := must[store.SetRecord](t)(s.PutSet(ctx, r))
	r.CreatedAt, r.UsedAt = kept(at(1)), kept(at(1))
	same(t, "as made", got, r)
	same(t, "what was given", r.Items, setOf("one", at(1)).Items) // and stays as it was

	got, err = s.UpdateSet(ctx, "one", func(r *store.SetRecord) error {
		r.Bundle = enplace.Bundle{Status: enplace.BundleReady, Image: "sha256:bundle", Bytes: 1 << 40, BuiltAt: ptr(at(2)), UsedAt: ptr(at(2))}
		r.NextRefresh, r.UsedAt = 3, at(2)
		r.Hash, r.Items, r.Base, r.CreatedAt = "x", nil, "x", at(9)
		return nil
	})
	check(t, err)
	r.Bundle = enplace.Bundle{Status: enplace.BundleReady, Image: "sha256:bundle", Bytes: 1 << 40, BuiltAt: ptr(kept(at(2))), UsedAt: ptr(kept(at(2)))}
	r.NextRefresh, r.UsedAt = 3, kept(at(2))
	same(t, "the answer, with what may not be edited as it was", got, r)
	same(t, "as stored", must[store.SetRecord](t)(s.Set(ctx, "one")), r)

	known := setOf("one", at(3)) // of one that is known, only the use is kept
	known.Chain, known.NextRefresh = enplace.NewChain("", ""), 0
	r.UsedAt = kept(at(3))
	same(t, "put again", must[store.SetRecord](t)(s.PutSet(ctx, known)), r)

	refused := errors.New("refused by the rules")
	_, err = s.UpdateSet(ctx, "one", func(r *store.SetRecord) error { r.NextRefresh = 9; return refused })
	want(t, err, refused)
	same(t, "after a refusal", must[store.SetRecord](t)(s.Set(ctx, "one")), r)
	_, err = s.UpdateSet(ctx, "two", func(*store.SetRecord) error { return nil })
	want(t, err, store.ErrNotFound)

	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := s.UpdateSet(ctx, "one", func(r *store.SetRecord) error { r.NextRefresh++; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	same(t, "after 16 edits at once", must[store.SetRecord](t)(s.Set(ctx, "one")).NextRefresh, 3+16)
}

func setsDelete(t *testing.T, s store.Store) {
	ctx := t.Context()
	putPerson(t, s, "ann")
	for hash, minute := range map[string]int{"a": 1, "b": 1, "c": 2, "d": 3, "e": 4} {
		must[store.SetRecord](t)(s.PutSet(ctx, setOf(hash, at(minute))))
	}
	list := func(p enplace.Page) (enplace.List[store.SetRecord], error) { return s.ListSets(ctx, p) }
	hash := func(r store.SetRecord) string { return r.Hash }
	listed(t, "the last used first", []string{"e", "d", "c", "b", "a"}, hash, list)
	c := computerOf("person:ann")
	c.Sets = []enplace.ComputerSet{{Hash: "a"}, {Hash: "c"}, {Hash: "a"}}
	check(t, s.CreateComputer(ctx, c))
	same(t, "forgotten", must[int](t)(s.DeleteSets(ctx, at(3))), 1) // d was used at 3: not before
	listed(t, "with those of a computer", []string{"e", "d", "c", "a"}, hash, list)
	must[store.ComputerRecord](t)(s.UpdateComputer(ctx, "person:ann", func(c *store.ComputerRecord) error {
		c.Sets = []enplace.ComputerSet{{Hash: "d"}, {Hash: "never put"}}
		return nil
	}))
	same(t, "forgotten once no computer has them", must[int](t)(s.DeleteSets(ctx, at(4))), 2)
	listed(t, "left", []string{"e", "d"}, hash, list)
	check(t, s.DeleteComputer(ctx, "person:ann"))
	same(t, "forgotten with the computer", must[int](t)(s.DeleteSets(ctx, at(4))), 1)
	listed(t, "left", []string{"e"}, hash, list)
}

func computerOf(id string) store.ComputerRecord {
	return store.ComputerRecord{
		Computer: enplace.Computer{
			ID: id, State: enplace.ComputerRunning, Base: "sha256:base", Bundle: "sha256:bundle",
			Sets: []enplace.ComputerSet{}, Local: []enplace.ToolStatus{}, Limits: enplace.DefaultComputerLimits,
			Commands: []enplace.LastCommand{}, CreatedAt: at(1), UsedAt: at(1),
		},
		Root: []enplace.Digest{"sha256:bundle", "sha256:base"},
	}
}

func computers(t *testing.T, s store.Store) {
	ctx := t.Context()
	putPerson(t, s, "ann")
	putRoom(t, s, "lab", "")
	for _, id := range []string{"person:none", "room:none", "room:ann", "person:lab"} {
		want(t, s.CreateComputer(ctx, computerOf(id)), store.ErrNotFound)
	}
	c := computerOf("person:ann")
	c.Sets = []enplace.ComputerSet{{
		Hash: "one", AppliedAt: ptr(at(1)), RetryAt: ptr(at(2)), UsedAt: ptr(at(3)), Attempts: 2,
		Items: []enplace.ComputerItem{{InstalledItem: enplace.InstalledItem{Key: "jq", Status: enplace.ItemFailed, ErrorTail: "é\u0000<>"}, Obtained: enplace.FromDirect}},
	}}
	c.Commands = []enplace.LastCommand{{At: at(1), Conversation: "c1", Program: "make", ExitCode: 2}}
	c.Reported, c.Exports = map[string]int{"one jq": 2}, map[string][]string{"one": {"A=b"}}
	c.Locks = map[string][]string{"one": {"jq"}}
	check(t, s.CreateComputer(ctx, c))
	if !c.Commands[0].At.Equal(at(1)) || !c.Sets[0].AppliedAt.Equal(at(1)) || len(c.Root) != 2 {
		t.Error("what was given to be stored was changed")
	}
	want(t, s.CreateComputer(ctx, c), store.ErrExists)
	c.CreatedAt, c.UsedAt, c.Commands[0].At = kept(at(1)), kept(at(1)), kept(at(1))
	c.Sets[0].AppliedAt, c.Sets[0].RetryAt, c.Sets[0].UsedAt = ptr(kept(at(1))), ptr(kept(at(2))), ptr(kept(at(3)))
	same(t, "as stored", must[store.ComputerRecord](t)(s.Computer(ctx, "person:ann")), c)
	_, err := s.Computer(ctx, "room:lab")
	want(t, err, store.ErrNotFound)
	check(t, s.CreateComputer(ctx, computerOf("room:lab")))
	listed(t, "computers", []string{"person:ann", "room:lab"}, func(c store.ComputerRecord) string { return c.ID }, func(p enplace.Page) (enplace.List[store.ComputerRecord], error) {
		return s.ListComputers(ctx, p)
	})

	want(t, s.DeletePerson(ctx, "ann"), store.ErrConflict)
	want(t, s.DeleteRoom(ctx, "lab"), store.ErrConflict)
	check(t, s.DeleteComputer(ctx, "person:ann"))
	want(t, s.DeleteComputer(ctx, "person:ann"), store.ErrNotFound)
	check(t, s.DeletePerson(ctx, "ann"))
	check(t, s.DeleteComputer(ctx, "room:lab"))
	check(t, s.DeleteRoom(ctx, "lab"))
}

func computersUpdate(t *testing.T, s store.Store) {
	ctx := t.Context()
	putPerson(t, s, "ann")
	check(t, s.CreateComputer(ctx, computerOf("person:ann")))
	before := must[store.ComputerRecord](t)(s.Computer(ctx, "person:ann"))
	refused := errors.New("refused by the rules")
	_, err := s.UpdateComputer(ctx, "person:ann", func(c *store.ComputerRecord) error { c.State = enplace.ComputerStopped; return refused })
	want(t, err, refused)
	same(t, "after a refusal", must[store.ComputerRecord](t)(s.Computer(ctx, "person:ann")), before)

	got, err := s.UpdateComputer(ctx, "person:ann", func(c *store.ComputerRecord) error {
		same(t, "the computer to edit", *c, before)
		c.State, c.DiskBytes, c.UsedAt, c.Root = enplace.ComputerStopped, 7, at(2), []enplace.Digest{"sha256:other"}
		c.Sets = []enplace.ComputerSet{{Hash: "one", Items: []enplace.ComputerItem{}, RetryAt: ptr(at(3))}}
		c.ID, c.CreatedAt = "room:lab", at(9)
		return nil
	})
	check(t, err)
	after := before
	after.State, after.DiskBytes, after.UsedAt, after.Root = enplace.ComputerStopped, 7, kept(at(2)), []enplace.Digest{"sha256:other"}
	after.Sets = []enplace.ComputerSet{{Hash: "one", Items: []enplace.ComputerItem{}, RetryAt: ptr(kept(at(3)))}}
	same(t, "the answer, with its id and creation as they were", got, after)
	same(t, "as stored", must[store.ComputerRecord](t)(s.Computer(ctx, "person:ann")), after)
	_, err = s.UpdateComputer(ctx, "room:lab", func(*store.ComputerRecord) error { return nil })
	want(t, err, store.ErrNotFound)

	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, err := s.UpdateComputer(ctx, "person:ann", func(c *store.ComputerRecord) error { c.DiskBytes++; return nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	same(t, "after 16 edits at once", must[store.ComputerRecord](t)(s.Computer(ctx, "person:ann")).DiskBytes, 7+16)
}

func computerErrors(t *testing.T, s store.Store) {
	ctx := t.Context()
	putPerson(t, s, "ann")
	putPerson(t, s, "bob")
	entry := func(n int) enplace.ComputerError {
		return enplace.ComputerError{At: at(n), LastAt: at(n), Count: 1, Set: "one", Key: fmt.Sprint("k", n), Scope: "team:web", Definition: "d",
			Error: "failed", ErrorTail: "é\u0000<>", Attempt: n}
	}
	want(t, s.AppendComputerError(ctx, "person:ann", entry(0), 3), store.ErrNotFound)
	_, err := s.ListComputerErrors(ctx, "person:ann", enplace.Page{})
	want(t, err, store.ErrNotFound)
	check(t, s.CreateComputer(ctx, computerOf("person:ann")))
	check(t, s.CreateComputer(ctx, computerOf("person:bob")))
	list := func(p enplace.Page) (enplace.List[enplace.ComputerError], error) {
		return s.ListComputerErrors(ctx, "person:ann", p)
	}
	key := func(e enplace.ComputerError) string { return e.Key }
	listed(t, "none", []string{}, key, list)
	for n := range 4 {
		check(t, s.AppendComputerError(ctx, "person:ann", entry(n), 3))
	}
	check(t, s.AppendComputerError(ctx, "person:bob", entry(9), 3))
	listed(t, "of one time, by when they came", []string{"k3", "k2", "k1"}, key, list)
	e := entry(3)
	e.At, e.LastAt = kept(e.At), kept(e.LastAt)
	same(t, "an entry", must[enplace.List[enplace.ComputerError]](t)(list(enplace.Page{})).Items[0], e)

	joinedErrors(t, s, entry, list)

	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			if err := s.AppendComputerError(ctx, "person:ann", entry(10+n), 5); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	same(t, "after eight at once", len(must[enplace.List[enplace.ComputerError]](t)(list(enplace.Page{})).Items), 5)

	check(t, s.DeleteComputer(ctx, "person:ann"))
	check(t, s.CreateComputer(ctx, computerOf("person:ann")))
	listed(t, "of a computer made anew", []string{}, key, list)
}

// joinedErrors: the same error again is the same entry, newest now, and takes nobody's place however often it comes. The log holds
// k3, k2 and k1.
func joinedErrors(t *testing.T, s store.Store, entry func(int) enplace.ComputerError, list func(enplace.Page) (enplace.List[enplace.ComputerError], error)) {
	ctx := t.Context()
	for n := range 10 {
		e := entry(1)
		e.At, e.LastAt, e.Set, e.ErrorTail, e.Attempt = at(20+n), at(20+n), "two", "the last", 20+n
		check(t, s.AppendComputerError(ctx, "person:ann", e, 3))
	}
	key := func(e enplace.ComputerError) string { return e.Key }
	listed(t, "after one came again", []string{"k1", "k3", "k2"}, key, list)
	e := entry(1)
	e.At, e.LastAt, e.Count, e.Set, e.ErrorTail, e.Attempt = kept(at(1)), kept(at(29)), 11, "two", "the last", 29
	same(t, "one that came again", must[enplace.List[enplace.ComputerError]](t)(list(enplace.Page{})).Items[0], e)
	for _, change := range []func(*enplace.ComputerError){
		func(e *enplace.ComputerError) { e.Definition = "other" }, func(e *enplace.ComputerError) { e.Error = "other" },
		func(e *enplace.ComputerError) { e.Scope = "organisation" },
	} {
		e := entry(1)
		change(&e)
		check(t, s.AppendComputerError(ctx, "person:ann", e, 6))
	}
	listed(t, "with other errors of its key", []string{"k1", "k1", "k1", "k1", "k3", "k2"}, key, list)
}

// imagesOfToolchains: what bundles and computers need is kept, and no longer than they are there.
func imagesOfToolchains(t *testing.T, s store.Store) {
	ctx := t.Context()
	putPerson(t, s, "ann")
	must[store.SetRecord](t)(s.PutSet(ctx, setOf("building", at(1))))
	ready := setOf("ready", at(1))
	ready.Bundle.Image = "sha256:1"
	must[store.SetRecord](t)(s.PutSet(ctx, ready))
	c := computerOf("person:ann")
	c.Root = []enplace.Digest{"sha256:old", "sha256:base"}
	check(t, s.CreateComputer(ctx, c))
	check(t, s.PutStep(ctx, "apt", store.StepResult{Image: "sha256:apt"}, at(2)))
	same(t, "images", digests(t, s.ImageDigests), []enplace.Digest{"sha256:1", "sha256:apt", "sha256:base", "sha256:old"})

	must[store.SetRecord](t)(s.UpdateSet(ctx, "building", func(r *store.SetRecord) error { r.Bundle.Image = "sha256:2"; return nil }))
	must[store.SetRecord](t)(s.UpdateSet(ctx, "ready", func(r *store.SetRecord) error { r.Bundle = enplace.Bundle{}; return nil }))
	must[store.ComputerRecord](t)(s.UpdateComputer(ctx, "person:ann", func(c *store.ComputerRecord) error { c.Root = c.Root[:1]; return nil }))
	same(t, "after changes", digests(t, s.ImageDigests), []enplace.Digest{"sha256:2", "sha256:apt", "sha256:old"})
	check(t, s.DeleteComputer(ctx, "person:ann"))
	must[int](t)(s.DeleteSets(ctx, at(9)))
	same(t, "of what is left", digests(t, s.ImageDigests), []enplace.Digest{"sha256:apt"})
}
