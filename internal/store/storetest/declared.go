package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"enplace"
	"enplace/internal/store"
)

// choiceNames gives the choices that are there, as scope/key=state.
func choiceNames(t *testing.T, s store.Store, scopes ...enplace.Scope) []string {
	t.Helper()
	names := []string{}
	for _, c := range must[store.Declared](t)(s.Declared(t.Context(), scopes)).Choices {
		names = append(names, fmt.Sprintf("%s/%s=%s", c.Scope, c.Key, c.State))
	}
	return names
}

func choose(t *testing.T, s store.Store, scope enplace.Scope, key string, state enplace.ItemChoice) {
	t.Helper()
	check(t, s.PutChoice(t.Context(), enplace.Choice{Scope: scope, Key: key, State: state}, at(3)))
}

func choices(t *testing.T, s store.Store) {
	ctx := t.Context()
	putTeam(t, s, "web", "ann")
	putTeam(t, s, "ops", "bob")
	off := func(scope enplace.Scope, key string) error {
		return s.PutChoice(ctx, enplace.Choice{Scope: scope, Key: key, State: enplace.ChoiceOff}, at(1))
	}
	want(t, off("person:ann", "jq"), store.ErrNotFound)
	check(t, putItem(ctx, s, itemOf("team:web", "jq", at(1))))
	for _, scope := range []enplace.Scope{enplace.Organisation, "team:ops", "person:bob", "person:none"} {
		want(t, off(scope, "jq"), store.ErrNotFound) // none of them reads it
	}
	check(t, off("person:ann", "jq"))
	check(t, off("team:web", "jq"))
	choose(t, s, "person:ann", "jq", enplace.ChoiceAdded)
	same(t, "choices", choiceNames(t, s), []string{"team:web/jq=off", "person:ann/jq=added"})
	choose(t, s, "person:ann", "jq", enplace.ChoiceInherit)
	choose(t, s, "person:none", "none", enplace.ChoiceInherit) // as it is
	same(t, "after inherit", choiceNames(t, s), []string{"team:web/jq=off"})
}

// choicesGo: a choice goes with the last item that it can be about, whatever removes that, and not before.
func choicesGo(t *testing.T, s store.Store) {
	ctx := t.Context()
	putTeam(t, s, "web", "ann")
	putTeam(t, s, "ops", "bob")
	put := func(scope enplace.Scope, key string) {
		t.Helper()
		check(t, putItem(ctx, s, itemOf(scope, key, at(1))))
	}
	put(enplace.Organisation, "jq")
	put(enplace.Organisation, "node")
	put("team:web", "jq")
	put("person:bob", "jq")
	for _, scope := range []enplace.Scope{enplace.Organisation, "team:web", "team:ops", "person:ann", "person:bob"} {
		choose(t, s, scope, "jq", enplace.ChoiceOff)
	}
	choose(t, s, "team:ops", "node", enplace.ChoiceOff)
	check(t, dropItem(ctx, s, enplace.Organisation, "jq"))
	same(t, "without the organisation's", choiceNames(t, s),
		[]string{"team:ops/node=off", "team:web/jq=off", "person:ann/jq=off", "person:bob/jq=off"})
	check(t, dropItem(ctx, s, "team:web", "jq"))
	same(t, "without the team's", choiceNames(t, s), []string{"team:ops/node=off", "person:bob/jq=off"})

	p := pluginOf("plug_1", "team:web", "tools", at(1))
	check(t, s.CreatePlugin(ctx, p, itemsOf("", at(1), "go", "zig")))
	choose(t, s, "person:ann", "go", enplace.ChoiceOff)
	choose(t, s, "person:ann", "zig", enplace.ChoiceOff)
	must[enplace.Plugin](t)(s.SyncPlugin(ctx, "plug_1", func(_ *enplace.Plugin, have []enplace.Item) ([]enplace.Item, error) { return have[:1], nil }))
	same(t, "after a sync without one", choiceNames(t, s, "person:ann"), []string{"person:ann/go=off"})
	check(t, s.DeletePlugin(ctx, "plug_1"))
	same(t, "without the plugin", choiceNames(t, s), []string{"team:ops/node=off", "person:bob/jq=off"})
}

func declared(t *testing.T, s store.Store) {
	ctx := t.Context()
	got := must[store.Declared](t)(s.Declared(ctx, nil))
	if got.Egress == nil || len(got.Items)+len(got.Choices)+len(got.Egress) > 0 {
		t.Errorf("nothing was declared, and it is %+v", got)
	}
	putTeam(t, s, "web", "ann")
	putTeam(t, s, "web-2", "zoe")
	scopes := []enplace.Scope{"person:zoe", "person:ann", "team:web-2", "team:web", enplace.Organisation}
	for _, scope := range scopes {
		check(t, putItem(ctx, s, itemOf(scope, "b", at(1))))
		check(t, putItem(ctx, s, itemOf(scope, "a", at(1))))
		check(t, s.PutEgress(ctx, scope, &enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: []string{string(scope)}}, at(1)))
		choose(t, s, scope, "a", enplace.ChoiceOff)
	}
	names := func(scopes ...enplace.Scope) []string {
		t.Helper()
		d := must[store.Declared](t)(s.Declared(ctx, scopes))
		all := []string{}
		for _, i := range d.Items {
			all = append(all, fmt.Sprint(i.Scope, "/", i.Key))
			if len(i.Files) != 1 || d.Egress[i.Scope].Hosts[0] != string(i.Scope) {
				t.Errorf("%+v with %+v", i, d.Egress)
			}
		}
		same(t, "policies", len(d.Egress), len(all)/2)
		same(t, "choices", len(d.Choices), len(all)/2)
		return all
	}
	same(t, "of a chain", names("person:ann", "team:web", enplace.Organisation, "person:ann"),
		[]string{"organisation/a", "organisation/b", "team:web/a", "team:web/b", "person:ann/a", "person:ann/b"})
	same(t, "of all", names(), []string{
		"organisation/a", "organisation/b", "team:web/a", "team:web/b", "team:web-2/a", "team:web-2/b",
		"person:ann/a", "person:ann/b", "person:zoe/a", "person:zoe/b",
	})
	same(t, "of nobody", names("person:none"), []string{})

	check(t, s.PutEgress(ctx, "team:web", &enplace.Egress{Policy: enplace.EgressNone}, at(2)))
	check(t, s.PutEgress(ctx, "team:web-2", nil, at(2)))
	same(t, "policies", must[store.Declared](t)(s.Declared(ctx, []enplace.Scope{"team:web", "team:web-2"})).Egress,
		map[enplace.Scope]enplace.Egress{"team:web": {Policy: enplace.EgressNone}})
}

// declaredOnce: what Declared gives is of one state, in which each change is whole or not there.
func declaredOnce(t *testing.T, s store.Store) {
	ctx := t.Context()
	putTeam(t, s, "web")
	check(t, s.CreatePlugin(ctx, pluginOf("plug_1", enplace.Organisation, "one", at(1)), itemsOf("", at(1), "a", "z")))
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for i := range 20 {
			_, err := s.SyncPlugin(ctx, "plug_1", func(_ *enplace.Plugin, have []enplace.Item) ([]enplace.Item, error) {
				have[0].Description, have[1].Description = fmt.Sprint(i), fmt.Sprint(i)
				return have, nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	seen := map[int64]string{}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		d := must[store.Declared](t)(s.Declared(ctx, []enplace.Scope{"team:web", enplace.Organisation}))
		one := d.Items[0].Description
		if was, ok := seen[d.At]; one != d.Items[1].Description || ok && was != one {
			t.Fatalf("at %d: %s and %s, before %s", d.At, one, d.Items[1].Description, was)
		}
		seen[d.At] = one
	}
	wg.Wait()
	same(t, "in the end", seen[must[int64](t)(s.DeclaredAt(ctx))], "19")
}

// declaredAt: what changes the answer of Declared, or a chain, raises the counter; what was refused, or changed nothing that
// is declared, does not.
func declaredAt(t *testing.T, s store.Store) {
	ctx := t.Context()
	team := func(people ...string) func() error {
		return func() error { putTeam(t, s, "web", people...); return nil }
	}
	org := enplace.Organisation
	resync := func(change func([]enplace.Item) []enplace.Item) func() error {
		return func() error {
			_, err := s.SyncPlugin(ctx, "plug_1", func(p *enplace.Plugin, have []enplace.Item) ([]enplace.Item, error) {
				p.SyncedAt = at(9)
				return change(have), nil
			})
			return err
		}
	}
	refused := errors.New("refused by the rules")
	offer := func(err error) func() error {
		return func() error {
			_, err := s.UpdateItem(ctx, org, "own", func(i *enplace.Item) error { i.Enabled = false; return err })
			return err
		}
	}
	last := must[int64](t)(s.DeclaredAt(ctx))
	for _, step := range []struct {
		what   string
		change func() error
		err    error
		raises bool
	}{
		{"a team is made", team("ann"), nil, true},
		{"a person joins", team("ann", "bob"), nil, true},
		{"a person is made", func() error { putPerson(t, s, "eve"); return nil }, nil, false},
		{"a plugin is added", func() error {
			return s.CreatePlugin(ctx, pluginOf("plug_1", org, "one", at(1)), itemsOf("", at(1), "a", "b"))
		}, nil, true},
		{"one is refused", func() error {
			return s.CreatePlugin(ctx, pluginOf("plug_2", org, "two", at(1)), itemsOf("", at(1), "a"))
		}, store.ErrExists, false},
		{"a sync finds nothing new", resync(func(have []enplace.Item) []enplace.Item { return have }), nil, false},
		{"a sync changes a file", resync(func(have []enplace.Item) []enplace.Item { have[0].Files[0].Content = "x"; return have }), nil, true},
		{"a sync changes an item's finding", resync(func(have []enplace.Item) []enplace.Item {
			have[0].Findings = []enplace.Finding{{Message: "m"}}
			return have
		}), nil, true},
		{"a sync removes an item", resync(func(have []enplace.Item) []enplace.Item { return have[:1] }), nil, true},
		{"a sync adds one", resync(func(have []enplace.Item) []enplace.Item { return append(have, itemOf("", "c", at(2))) }), nil, true},
		{"an item is put", func() error { return putItem(ctx, s, itemOf(org, "own", at(1))) }, nil, true},
		{"an item is offered otherwise", offer(nil), nil, true},
		{"that is refused", offer(refused), refused, false},
		{"a choice", func() error { choose(t, s, "person:ann", "own", enplace.ChoiceOff); return nil }, nil, true},
		{"no choice", func() error { choose(t, s, "person:ann", "own", enplace.ChoiceInherit); return nil }, nil, true},
		{"a choice about nothing", func() error {
			return s.PutChoice(ctx, enplace.Choice{Scope: "person:ann", Key: "none", State: enplace.ChoiceOff}, at(1))
		}, store.ErrNotFound, false},
		{"a policy", func() error { return s.PutEgress(ctx, org, &enplace.Egress{Policy: enplace.EgressNone}, at(1)) }, nil, true},
		{"no policy", func() error { return s.PutEgress(ctx, org, nil, at(1)) }, nil, true},
		{"an item is deleted", func() error { return dropItem(ctx, s, org, "own") }, nil, true},
		{"a plugin is deleted", func() error { return s.DeletePlugin(ctx, "plug_1") }, nil, true},
		{"a secret", func() error { _, err := s.PutSecret(ctx, secretOf(org, "TOKEN", "x")); return err }, nil, false},
		{"a person is deleted", func() error { return s.DeletePerson(ctx, "bob") }, nil, true},
		{"a team is deleted", func() error { return s.DeleteTeam(ctx, "web") }, nil, true},
		{"a team that is not there", func() error { return s.DeleteTeam(ctx, "web") }, store.ErrNotFound, false},
	} {
		if err := step.change(); !errors.Is(err, step.err) {
			t.Errorf("%s: %v", step.what, err)
		}
		now := must[int64](t)(s.DeclaredAt(ctx))
		if raised := now > last; raised != step.raises || now < last {
			t.Errorf("%s: the counter went from %d to %d", step.what, last, now)
		}
		last = now
		same(t, "At", must[store.Declared](t)(s.Declared(ctx, nil)).At, now)
	}
}

func secretOf(scope enplace.Scope, name, sealed string) store.SecretRecord {
	return store.SecretRecord{
		Secret: enplace.Secret{Name: name, Scope: scope, CreatedBy: "ann", CreatedAt: at(1), UpdatedAt: at(1)},
		Sealed: []byte(sealed),
	}
}

func secrets(t *testing.T, s store.Store) {
	ctx := t.Context()
	putTeam(t, s, "web", "ann")
	none := must[[]store.SecretRecord](t)(s.Secrets(ctx, nil))
	if none == nil || len(none) > 0 {
		t.Errorf("no secrets are %#v", none)
	}
	token := secretOf("team:web", "TOKEN", "\x00\xffsealed")
	got := must[enplace.Secret](t)(s.PutSecret(ctx, token))
	token.CreatedAt, token.UpdatedAt = kept(at(1)), kept(at(1))
	same(t, "the answer", got, token.Secret)
	again := secretOf("team:web", "TOKEN", "other")
	again.CreatedBy, again.CreatedAt, again.UpdatedAt = "bob", at(2), at(2)
	got = must[enplace.Secret](t)(s.PutSecret(ctx, again))
	token.UpdatedAt, token.Sealed = kept(at(2)), []byte("other")
	same(t, "the answer to a second", got, token.Secret)
	same(t, "as stored", must[[]store.SecretRecord](t)(s.Secrets(ctx, []enplace.Scope{"team:web"})), []store.SecretRecord{token})

	for _, x := range []enplace.Scope{"person:ann", enplace.Organisation} {
		must[enplace.Secret](t)(s.PutSecret(ctx, secretOf(x, "TOKEN", "x")))
		must[enplace.Secret](t)(s.PutSecret(ctx, secretOf(x, "KEY", "x")))
	}
	names := func(scopes ...enplace.Scope) []string {
		t.Helper()
		all := []string{}
		for _, r := range must[[]store.SecretRecord](t)(s.Secrets(ctx, scopes)) {
			all = append(all, fmt.Sprint(r.Scope, "/", r.Name))
		}
		return all
	}
	same(t, "all", names(), []string{"organisation/KEY", "organisation/TOKEN", "team:web/TOKEN", "person:ann/KEY", "person:ann/TOKEN"})
	same(t, "of two", names("person:ann", "team:web"), []string{"team:web/TOKEN", "person:ann/KEY", "person:ann/TOKEN"})
	same(t, "of nobody", names("person:none"), []string{})
	check(t, s.DeleteSecret(ctx, "person:ann", "TOKEN"))
	want(t, s.DeleteSecret(ctx, "person:ann", "TOKEN"), store.ErrNotFound)
	same(t, "left", names("person:ann"), []string{"person:ann/KEY"})
}
