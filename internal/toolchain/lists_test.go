package toolchain_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"enplace"
	"enplace/internal/toolchain/toolchaintest"
)

// byPages reads a list in pages of every size, and gives the names of its entries; they must be the same each time.
func byPages[T any](h house, name func(T) string, list func(enplace.Page) (enplace.List[T], error)) []string {
	h.t.Helper()
	var whole []string
	for limit := range 4 {
		var got []string
		for p := (enplace.Page{Limit: limit}); ; {
			l, err := list(p)
			check(h.t, err)
			if l.Items == nil || limit > 0 && len(l.Items) > limit || l.Next != "" && len(l.Items) != limit {
				h.t.Fatalf("a page of %d has %d entries, next %q", limit, len(l.Items), l.Next)
			}
			for _, v := range l.Items {
				got = append(got, name(v))
			}
			if p.Cursor = l.Next; l.Next == "" {
				break
			}
		}
		if limit == 0 {
			whole = got
		} else if !slices.Equal(got, whole) {
			h.t.Errorf("by %d the list is %q, and whole %q", limit, got, whole)
		}
	}
	if _, err := list(enplace.Page{Limit: 1, Cursor: "elsewhere"}); enplace.KindOf(err) != enplace.KindMalformed {
		h.t.Errorf("a cursor that is none: %v", err)
	}
	return whole
}

// Lists that are made from what is declared come in pages like all others.
func testLists(h house) {
	ctx, s := h.t.Context(), h.Toolchain
	_, err := s.PutTeam(ctx, operator, "l-web", enplace.PutTeam{People: []string{"l-ann"}})
	check(h.t, err)
	org := h.Attach("organisation", "l-org", item("l-b").With(item("l-z"), item("l-a")))
	h.Attach("team:l-web", "web", item("l-c"))
	h.Attach("person:l-ann", "own", item("l-0").With(item("l-d")))
	items := byPages(h, func(i enplace.ListedItem) string { return string(i.Scope) + "/" + i.Key }, func(p enplace.Page) (enplace.List[enplace.ListedItem], error) {
		return s.ListItems(ctx, toolchaintest.Person("l-ann"), "person:l-ann", p)
	})
	if got, want := strings.Join(items, " "), "organisation/l-a organisation/l-b organisation/l-z team:l-web/l-c person:l-ann/l-0 person:l-ann/l-d"; got != want {
		h.t.Errorf("items %s, want %s", got, want)
	}
	for _, name := range []string{"B", "A", "_C", "a"} {
		_, err := s.PutSecret(ctx, operator, "team:l-web", name, enplace.PutSecret{Value: "some value"})
		check(h.t, err)
	}
	secrets := byPages(h, func(v enplace.Secret) string { return v.Name }, func(p enplace.Page) (enplace.List[enplace.Secret], error) {
		return s.ListSecrets(ctx, operator, "team:l-web", p)
	})
	if got := strings.Join(secrets, " "); got != "A B _C a" {
		h.t.Errorf("secrets %s", got)
	}
	// A scope that nobody has is told, and is no scope without anything in it.
	for what, err := range map[string]error{
		"items":   failure(s.ListItems(ctx, operator, "team:l-none", enplace.Page{})),
		"plugins": failure(s.ListPlugins(ctx, operator, "team:l-none", enplace.Page{})),
		"secrets": failure(s.ListSecrets(ctx, operator, "team:l-none", enplace.Page{})),
	} {
		if enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), "l-none") {
			h.t.Errorf("%s of a team that is not there: %v", what, err)
		}
	}
	check(h.t, s.DeletePlugin(ctx, operator, org.ID))
}

func failure(_ any, err error) error { return err }

// What an answer says of a change is what is kept, and what is wrong is told by the field that the request has.
func testAnswers(h house) {
	ctx, s := h.t.Context(), h.Toolchain
	h.Clock.Advance(123 * time.Nanosecond) // less than a store keeps
	made := h.Attach("organisation", "v-tools", item("v-a"))
	kept, err := s.Plugin(ctx, operator, made.ID)
	check(h.t, err)
	if !made.CreatedAt.Equal(kept.CreatedAt) || !made.SyncedAt.Equal(kept.SyncedAt) || !made.TriedAt.Equal(kept.TriedAt) {
		h.t.Errorf("made %+v, kept %+v", made, kept)
	}
	unreachable := enplace.PluginSource{GitURL: "https://127.0.0.1:1/x.git"}
	for what, err := range map[string]error{
		"an archive":   failure(s.CreatePluginArchive(ctx, operator, "organisation", "v-tools", item("v-b").Archive())),
		"a repository": failure(s.CreatePlugin(ctx, operator, enplace.CreatePlugin{Scope: "organisation", Name: "v-tools", Source: unreachable})),
	} {
		var e *enplace.Error
		if !errors.As(err, &e) || e.Kind != enplace.KindConflict || e.Field != "name" || !strings.Contains(strings.Join(e.Fixes, " "), "enplace plugin sync organisation/v-tools") {
			h.t.Errorf("%s of a name that is taken: %v", what, err)
		}
	}
	var e *enplace.Error
	if err := s.PutEgress(ctx, operator, "organisation", &enplace.Egress{Policy: enplace.EgressNone, Hosts: []string{"x.example.org"}}); !errors.As(err, &e) || e.Field != "hosts" {
		h.t.Errorf("a policy that is wrong: %v", err)
	}
	if err := failure(s.Egress(ctx, operator, "team:v-none")); enplace.KindOf(err) != enplace.KindInvalid {
		h.t.Errorf("the policy of a team that is not there: %v", err)
	}
	check(h.t, s.DeletePlugin(ctx, operator, made.ID))
}

// A plugin is named by its id, by its name where the caller sees one of it, and by SCOPE/NAME.
func testNames(h house) {
	ctx, s := h.t.Context(), h.Toolchain
	for _, login := range []string{"n-ann", "n-bob"} {
		h.Direct(login)
	}
	_, err := s.PutTeam(ctx, operator, "n-web", enplace.PutTeam{})
	check(h.t, err)
	ann, bob := toolchaintest.Person("n-ann"), toolchaintest.Person("n-bob")
	org := h.Attach("organisation", "n-tools", item("n-a"))
	anns := h.Attach("person:n-ann", "n-tools", item("n-b"))
	bobs := h.Attach("person:n-bob", "n-own", item("n-b"))
	for _, x := range []struct {
		caller enplace.Caller
		ref    string
		want   any // the plugin's id, or the kind of the error
	}{
		{operator, org.ID, org.ID}, {operator, "organisation/" + org.ID, org.ID}, {operator, "team:n-web/" + org.ID, enplace.KindNotFound},
		{operator, "organisation/n-tools", org.ID}, {operator, "person:n-ann/n-tools", anns.ID}, {operator, "team:n-web/n-tools", enplace.KindNotFound},
		{operator, "n-tools", enplace.KindInvalid}, {ann, "n-tools", enplace.KindInvalid}, {bob, "n-tools", org.ID}, // ann's is not bob's to know of
		{operator, "n-own", bobs.ID}, {bob, "n-own", bobs.ID}, {ann, "n-own", enplace.KindNotFound}, {ann, "person:n-bob/n-own", enplace.KindNotFound},
		{operator, "none", enplace.KindNotFound}, {operator, "", enplace.KindNotFound}, {operator, "/", enplace.KindInvalid}, {operator, "n-tools/", enplace.KindInvalid},
		{operator, "organisation/", enplace.KindNotFound}, {operator, "organisation/n-tools/x", enplace.KindNotFound}, {operator, "nowhere/n-tools", enplace.KindInvalid},
		{operator, "plug_none", enplace.KindNotFound}, {enplace.Caller{Kind: enplace.KeyHarness, Subject: "har_1"}, "n-tools", enplace.KindNotFound},
	} {
		p, err := s.Plugin(ctx, x.caller, x.ref)
		if kind, fails := x.want.(enplace.Kind); fails && enplace.KindOf(err) != kind || !fails && (err != nil || p.ID != x.want) {
			h.t.Errorf("%s asks for %q: %s %v, want %v", x.caller.Name(), x.ref, p.ID, err, x.want)
		}
	}
	_, err = s.Plugin(ctx, operator, "n-tools")
	if want := "2 plugins are called n-tools: organisation/n-tools, person:n-ann/n-tools"; err == nil || !strings.Contains(err.Error(), want) {
		h.t.Errorf("%v does not say %q", err, want)
	}
	hidden, absent := failure(s.Plugin(ctx, ann, "person:n-bob/n-own")), failure(s.Plugin(ctx, ann, "person:n-bob/n-not"))
	if strings.ReplaceAll(fmt.Sprint(hidden), "n-own", "n-not") != fmt.Sprint(absent) {
		h.t.Errorf("hidden: %v\nabsent: %v", hidden, absent)
	}
	seen := byPages(h, func(p enplace.Plugin) string { return p.ID }, func(p enplace.Page) (enplace.List[enplace.Plugin], error) { return s.ListPlugins(ctx, bob, "", p) })
	if !slices.Contains(seen, org.ID) || !slices.Contains(seen, bobs.ID) || slices.Contains(seen, anns.ID) {
		h.t.Errorf("bob sees %q", seen)
	}
	// What is done by name is done to that one alone.
	synced, err := s.SyncPlugin(ctx, ann, "person:n-ann/n-tools", item("n-c").Archive())
	check(h.t, err)
	if synced.ID != anns.ID || !slices.Equal(synced.Items, []string{"n-c"}) {
		h.t.Errorf("%+v", synced)
	}
	check(h.t, s.DeletePlugin(ctx, ann, "person:n-ann/n-tools"))
	check(h.t, s.DeletePlugin(ctx, operator, "n-tools")) // there is one left
	if err := s.DeletePlugin(ctx, operator, "n-tools"); enplace.KindOf(err) != enplace.KindNotFound {
		h.t.Errorf("a second time: %v", err)
	}
}
