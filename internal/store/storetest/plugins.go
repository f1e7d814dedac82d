package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/internal/store"
)

func itemOf(scope enplace.Scope, key string, updated time.Time) enplace.Item {
	return enplace.Item{
		Definition: enplace.Definition{
			Key: key, Name: "Name of " + key, Description: "é\u0000<>", Files: []enplace.ItemFile{{Path: "mise.toml", Content: "[tools]\njq = \"1.7\"\n"}},
			Tools: []enplace.DeclaredTool{{Name: "jq", Version: "1.7", Line: 2}},
		},
		Scope: scope, Mode: enplace.ItemAdded, Enabled: true, UpdatedAt: updated,
	}
}

func itemsOf(scope enplace.Scope, updated time.Time, keys ...string) []enplace.Item {
	var items []enplace.Item
	for _, key := range keys {
		items = append(items, itemOf(scope, key, updated))
	}
	return items
}

// putItem gives a scope an item, by a plugin of its own, which dropItem takes away.
func putItem(ctx context.Context, s store.Store, i enplace.Item) error {
	return s.CreatePlugin(ctx, pluginOf("plug_"+string(i.Scope)+"/"+i.Key, i.Scope, "of "+i.Key, at(1)), []enplace.Item{i})
}

func dropItem(ctx context.Context, s store.Store, scope enplace.Scope, key string) error {
	i, err := s.Item(ctx, scope, key)
	if err != nil {
		return err
	}
	return s.DeletePlugin(ctx, i.Plugin)
}

func pluginOf(id string, scope enplace.Scope, name string, created time.Time) enplace.Plugin {
	return enplace.Plugin{ID: id, Name: name, Scope: scope, Findings: []enplace.Finding{}, SyncedAt: created, TriedAt: created, CreatedAt: created}
}

// of gives an item as the store gives it back.
func of(p enplace.Plugin, i enplace.Item) enplace.Item {
	i.Scope, i.Plugin, i.UpdatedAt = p.Scope, p.ID, kept(i.UpdatedAt)
	return i
}

func plugins(t *testing.T, s store.Store) {
	ctx := t.Context()
	putTeam(t, s, "web")
	p := pluginOf("plug_1", enplace.Organisation, "tools", at(1))
	p.Source = enplace.PluginSource{GitURL: "https://git.example/tools", Ref: "main"}
	p.Findings = []enplace.Finding{{Severity: enplace.FindingNotice, Item: "jq", Line: 1, Message: "line ends"}}
	jq := itemOf("team:nobody", "jq", at(1)) // what is the plugin's is not taken from the item
	jq.Plugin, jq.Findings, jq.Locked = "plug_9", p.Findings, true
	check(t, s.CreatePlugin(ctx, p, []enplace.Item{itemOf(enplace.Organisation, "node", at(1)), jq}))
	p.Items, p.SyncedAt, p.TriedAt, p.CreatedAt = []string{"jq", "node"}, kept(at(1)), kept(at(1)), kept(at(1))
	same(t, "as stored", must[enplace.Plugin](t)(s.Plugin(ctx, "plug_1")), p)
	same(t, "its item", must[enplace.Item](t)(s.Item(ctx, enplace.Organisation, "jq")), of(p, jq))

	for what, err := range map[string]error{
		"id":          s.CreatePlugin(ctx, pluginOf("plug_1", enplace.Organisation, "other", at(2)), nil),
		"name":        s.CreatePlugin(ctx, pluginOf("plug_2", enplace.Organisation, "tools", at(2)), nil),
		"key":         s.CreatePlugin(ctx, pluginOf("plug_2", enplace.Organisation, "other", at(2)), itemsOf("", at(2), "a", "jq")),
		"key, itself": s.CreatePlugin(ctx, pluginOf("plug_2", enplace.Organisation, "other", at(2)), itemsOf("", at(2), "a", "a")),
	} {
		if !errors.Is(err, store.ErrExists) {
			t.Errorf("a plugin with the same %s gave %v", what, err)
		}
	}
	_, err := s.Plugin(ctx, "plug_2")
	want(t, err, store.ErrNotFound)
	_, err = s.Item(ctx, enplace.Organisation, "a")
	want(t, err, store.ErrNotFound)

	check(t, s.CreatePlugin(ctx, pluginOf("plug_3", enplace.TeamScope("web"), "tools", at(2)), itemsOf("", at(2), "jq"))) // another scope
	check(t, s.CreatePlugin(ctx, pluginOf("plug_4", enplace.Organisation, "more", at(-60)), nil))
	for scope, want := range map[enplace.Scope][]string{
		"": {"plug_4", "plug_3", "plug_1"}, enplace.Organisation: {"plug_4", "plug_1"}, "team:web": {"plug_3"}, "team:none": {},
	} {
		listed(t, "plugins of "+string(scope), want, func(p enplace.Plugin) string { return p.ID }, func(page enplace.Page) (enplace.List[enplace.Plugin], error) {
			return s.ListPlugins(ctx, scope, page)
		})
	}
	named := func(name string) map[enplace.Scope]string {
		t.Helper()
		return must[map[enplace.Scope]string](t)(s.PluginsNamed(ctx, name))
	}
	same(t, "those called tools", named("tools"), map[enplace.Scope]string{enplace.Organisation: "plug_1", "team:web": "plug_3"})
	same(t, "those of no such name", named("none"), map[enplace.Scope]string{})
	check(t, s.DeletePlugin(ctx, "plug_1"))
	want(t, s.DeletePlugin(ctx, "plug_1"), store.ErrNotFound)
	same(t, "without it", named("tools"), map[enplace.Scope]string{"team:web": "plug_3"})
	_, err = s.Item(ctx, enplace.Organisation, "jq")
	want(t, err, store.ErrNotFound)
	_ = must[enplace.Item](t)(s.Item(ctx, "team:web", "jq"))
}

func pluginsSync(t *testing.T, s store.Store) {
	ctx := t.Context()
	p := pluginOf("plug_1", enplace.Organisation, "tools", at(1))
	check(t, s.CreatePlugin(ctx, p, itemsOf("", at(1), "a", "b", "c")))
	check(t, putItem(ctx, s, itemOf(enplace.Organisation, "own", at(1))))
	check(t, s.CreatePlugin(ctx, pluginOf("plug_2", enplace.Organisation, "other", at(1)), nil))
	before := must[store.Declared](t)(s.Declared(ctx, nil))
	resync := func(change func(*enplace.Plugin, []enplace.Item) ([]enplace.Item, error)) (enplace.Plugin, error) {
		return s.SyncPlugin(ctx, "plug_1", change)
	}

	refused := errors.New("refused by the rules")
	_, err := resync(func(p *enplace.Plugin, have []enplace.Item) ([]enplace.Item, error) {
		p.Name = "never"
		return nil, refused
	})
	want(t, err, refused)
	for _, key := range []string{"own", "a"} { // one that is another's, and one that comes twice
		_, err = resync(func(p *enplace.Plugin, have []enplace.Item) ([]enplace.Item, error) {
			p.Commit = "never"
			return append(have[:1], itemsOf("", at(2), "new", key)...), nil
		})
		want(t, err, store.ErrExists)
	}
	_, err = resync(func(p *enplace.Plugin, have []enplace.Item) ([]enplace.Item, error) {
		p.Name = "other"
		return have, nil
	})
	want(t, err, store.ErrExists)
	same(t, "after refusals", must[store.Declared](t)(s.Declared(ctx, nil)), before)
	same(t, "its commit", must[enplace.Plugin](t)(s.Plugin(ctx, "plug_1")).Commit, "")

	got, err := resync(func(p *enplace.Plugin, have []enplace.Item) ([]enplace.Item, error) {
		same(t, "its items", have, before.Items[:3])
		have[0].Description, have[0].Mode, have[0].UpdatedAt = "changed", enplace.ItemAvailable, at(2)
		p.ID, p.Scope, p.CreatedAt, p.Items = "plug_9", "team:none", at(9), []string{"x"}
		p.Name, p.Commit, p.SyncedAt, p.TriedAt, p.Error = "renamed", "c0ffee", at(2), at(3), &enplace.Failure{Message: "why"}
		return append(have[:2], itemsOf("team:none", at(2), "0")...), nil
	})
	check(t, err)
	p.Name, p.Commit, p.Error, p.Items = "renamed", "c0ffee", &enplace.Failure{Message: "why"}, []string{"0", "a", "b"}
	p.CreatedAt, p.SyncedAt, p.TriedAt = kept(at(1)), kept(at(2)), kept(at(3))
	same(t, "the answer", got, p)
	same(t, "as stored", must[enplace.Plugin](t)(s.Plugin(ctx, "plug_1")), p)
	same(t, "by its new name", must[map[enplace.Scope]string](t)(s.PluginsNamed(ctx, "renamed")), map[enplace.Scope]string{enplace.Organisation: "plug_1"})
	a := before.Items[0]
	a.Description, a.Mode, a.UpdatedAt = "changed", enplace.ItemAvailable, kept(at(2))
	same(t, "the items", must[store.Declared](t)(s.Declared(ctx, nil)).Items,
		[]enplace.Item{of(p, itemOf("", "0", at(2))), a, before.Items[1], before.Items[3]})
	_, err = s.SyncPlugin(ctx, "plug_9", func(*enplace.Plugin, []enplace.Item) ([]enplace.Item, error) { return nil, nil })
	want(t, err, store.ErrNotFound)

	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			_, err := resync(func(_ *enplace.Plugin, have []enplace.Item) ([]enplace.Item, error) {
				return append(have, itemOf("", fmt.Sprint("n", i), at(3))), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	same(t, "items after 16 syncs at once", len(must[enplace.Plugin](t)(s.Plugin(ctx, "plug_1")).Items), 3+16)
}

func items(t *testing.T, s store.Store) {
	ctx := t.Context()
	putPerson(t, s, "ann")
	p := pluginOf("plug_1", enplace.Organisation, "tools", at(1))
	check(t, s.CreatePlugin(ctx, p, itemsOf("", at(1), "jq")))
	want(t, putItem(ctx, s, itemOf(enplace.Organisation, "jq", at(2))), store.ErrExists)
	jq := of(p, itemOf("", "jq", at(1)))
	same(t, "the plugin's", must[enplace.Item](t)(s.Item(ctx, enplace.Organisation, "jq")), jq)

	own := itemOf("person:ann", "jq", at(3))
	own.Files = []enplace.ItemFile{{Path: "setup.sh", Content: strings.Repeat("x", enplace.MaxItemBytes)}}
	own.Mode, own.Enabled, own.Findings = enplace.ItemAvailable, false, []enplace.Finding{{Message: "m"}}
	check(t, putItem(ctx, s, own))
	own.Plugin, own.UpdatedAt = "plug_person:ann/jq", kept(at(3))
	same(t, "a large one", must[enplace.Item](t)(s.Item(ctx, "person:ann", "jq")), own)

	refused := errors.New("refused by the rules")
	_, err := s.UpdateItem(ctx, enplace.Organisation, "jq", func(i *enplace.Item) error { i.Locked = true; return refused })
	want(t, err, refused)
	same(t, "after a refusal", must[enplace.Item](t)(s.Item(ctx, enplace.Organisation, "jq")), jq)
	got, err := s.UpdateItem(ctx, enplace.Organisation, "jq", func(i *enplace.Item) error {
		same(t, "the item to edit", *i, jq)
		i.Mode, i.Enabled, i.Locked, i.UpdatedAt = enplace.ItemAvailable, false, true, at(4)
		i.Key, i.Scope, i.Plugin, i.Description, i.Findings = "x", "person:ann", "", "x", []enplace.Finding{{Message: "x"}}
		i.Files[0].Content = "x"
		return nil
	})
	check(t, err)
	jq.Mode, jq.Enabled, jq.Locked, jq.UpdatedAt = enplace.ItemAvailable, false, true, kept(at(4))
	same(t, "the answer, with what may not be edited as it was", got, jq)
	same(t, "as stored", must[enplace.Item](t)(s.Item(ctx, enplace.Organisation, "jq")), jq)
	_, err = s.UpdateItem(ctx, "person:ann", "x", func(*enplace.Item) error { return nil })
	want(t, err, store.ErrNotFound)

	check(t, dropItem(ctx, s, "person:ann", "jq"))
	want(t, dropItem(ctx, s, "person:ann", "jq"), store.ErrNotFound)
	_, err = s.Item(ctx, "person:ann", "jq")
	want(t, err, store.ErrNotFound)
}
