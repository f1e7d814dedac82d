package toolchain_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/toolchain/toolchaintest"
)

var operator = toolchaintest.Operator

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// house is a house whose steps a part of a test takes.
type house struct {
	*toolchaintest.House
	t *testing.T
}

func TestToolchain(t *testing.T) {
	h := toolchaintest.New(t)
	for name, test := range map[string]func(house){
		"Access": testAccess, "Sync": testSync, "Keys": testKeys, "Choices": testChoices, "Conversations": testConversations,
		"Keychain": testKeychain, "Refresh": testRefresh, "Git": testGit, "Lists": testLists, "Names": testNames, "Answers": testAnswers, "BadFiles": testBadFiles, "RefusedFiles": testRefusedFiles, "Renames": testRenames, "RetryKeepsVersions": testRetryKeepsVersions,
	} {
		t.Run(name, func(t *testing.T) {
			defer h.In(t)()
			test(house{h, t})
		})
	}
}

// set gives the set of a conversation.
func (h house) set(id string) enplace.Set {
	h.t.Helper()
	conv, err := h.Toolchain.Conversation(h.t.Context(), operator, access.Read, id)
	check(h.t, err)
	rec, err := h.Toolchain.SetOf(h.t.Context(), conv)
	check(h.t, err)
	return rec.Set
}

// keys gives SCOPE/KEY of a set's items, in order.
func keys(s enplace.Set) string {
	var all []string
	for _, i := range s.Items {
		all = append(all, string(i.Scope)+"/"+i.Key)
	}
	return strings.Join(all, " ")
}

func item(key string) toolchaintest.Files { return toolchaintest.Item(key, "true\n", "") }

// Each method, asked by the operator, ann, bob, a harness and an agent of ann's conversation: y is yes, f forbidden, and a dot
// not found.
func testAccess(h house) {
	ctx, s := h.t.Context(), h.Toolchain
	ann := h.Direct("a-ann")
	h.Direct("a-bob")
	_, err := s.PutTeam(ctx, operator, "a-team", enplace.PutTeam{People: []string{"a-ann"}})
	check(h.t, err)
	ours, theirs := h.Room("a-ours", "", false), h.Room("a-theirs", "a-team", false)
	org := h.Attach("organisation", "a-org", item("a-org"))
	own := h.Attach("person:a-ann", "a-own", item("a-own"))
	hash := h.set(ann).Hash
	callers := []enplace.Caller{operator, toolchaintest.Person("a-ann"), toolchaintest.Person("a-bob"), {Kind: enplace.KeyHarness, Subject: "har_1"},
		{Kind: enplace.KeyAgent, Subject: access.ConversationSubject(ann)}}
	sees := func(_ any, err error) error { return err }
	on := true
	for _, x := range []struct {
		what, answers string
		do            func(c enplace.Caller) error
	}{
		{"make a team", "yffff", func(c enplace.Caller) error { return sees(s.PutTeam(ctx, c, "a-new", enplace.PutTeam{})) }},
		{"see a team", "yyy..", func(c enplace.Caller) error { return sees(s.Team(ctx, c, "a-team")) }},
		{"list teams", "yyy..", func(c enplace.Caller) error { return sees(s.ListTeams(ctx, c, enplace.Page{})) }},
		{"make a person", "yffff", func(c enplace.Caller) error { return sees(s.PutPerson(ctx, c, "a-ann")) }},
		{"see a person", "yyy..", func(c enplace.Caller) error { return sees(s.Person(ctx, c, "a-ann")) }},
		{"list people", "yyy..", func(c enplace.Caller) error { return sees(s.ListPeople(ctx, c, enplace.Page{})) }},
		{"make a room", "yffff", func(c enplace.Caller) error { return sees(s.PutRoom(ctx, c, "a-ours", enplace.PutRoom{})) }},
		{"see a room", "yyy..", func(c enplace.Caller) error { return sees(s.Room(ctx, c, "a-theirs")) }},
		{"list rooms", "yyy..", func(c enplace.Caller) error { return sees(s.ListRooms(ctx, c, enplace.Page{})) }},
		{"change ann's conversation", "yy..f", func(c enplace.Caller) error {
			return sees(s.PutConversation(ctx, c, ann, enplace.PutConversation{Kind: enplace.ConversationDirect, Person: "a-ann"}))
		}},
		{"change a room's conversation", "yff..", func(c enplace.Caller) error {
			return sees(s.PutConversation(ctx, c, ours, enplace.PutConversation{Kind: enplace.ConversationRoom, Room: "a-ours"}))
		}},
		{"run in ann's conversation", "yy..y", func(c enplace.Caller) error { return sees(s.Conversation(ctx, c, access.Run, ann)) }},
		{"run in a room of the organisation", "yyy..", func(c enplace.Caller) error { return sees(s.Conversation(ctx, c, access.Run, ours)) }},
		{"run in a room of ann's team", "yy...", func(c enplace.Caller) error { return sees(s.Conversation(ctx, c, access.Run, theirs)) }},
		{"see ann's computer", "yy...", func(c enplace.Caller) error { return s.MayComputer(ctx, c, access.Read, "person:a-ann") }},
		{"take away ann's computer", "yy...", func(c enplace.Caller) error { return s.MayComputer(ctx, c, access.Write, "person:a-ann") }},
		{"see a room's computer", "yyy..", func(c enplace.Caller) error { return s.MayComputer(ctx, c, access.Read, "room:a-ours") }},
		{"take away a room's computer", "yff..", func(c enplace.Caller) error { return s.MayComputer(ctx, c, access.Write, "room:a-ours") }},
		{"see a computer of ann's team's room", "yy...", func(c enplace.Caller) error { return s.MayComputer(ctx, c, access.Read, "room:a-theirs") }},
		{"sync the organisation's plugin", "yff..", func(c enplace.Caller) error { return sees(s.SyncPlugin(ctx, c, org.ID, item("a-org").Archive())) }},
		{"sync ann's plugin", "yy...", func(c enplace.Caller) error { return sees(s.SyncPlugin(ctx, c, own.ID, item("a-own").Archive())) }},
		{"see the organisation's plugin", "yyy..", func(c enplace.Caller) error { return sees(s.Plugin(ctx, c, org.ID)) }},
		{"see ann's plugin", "yy...", func(c enplace.Caller) error { return sees(s.Plugin(ctx, c, own.ID)) }},
		{"see it by its name", "yy...", func(c enplace.Caller) error { return sees(s.Plugin(ctx, c, "a-own")) }},
		{"sync it by its name", "yy...", func(c enplace.Caller) error {
			return sees(s.SyncPlugin(ctx, c, "person:a-ann/a-own", item("a-own").Archive()))
		}},
		{"sync the organisation's by its name", "yff..", func(c enplace.Caller) error { return sees(s.SyncPlugin(ctx, c, "a-org", item("a-org").Archive())) }},
		{"list the plugins that are theirs to see", "yyy..", func(c enplace.Caller) error { return sees(s.ListPlugins(ctx, c, "", enplace.Page{})) }},
		{"list ann's plugins", "yy...", func(c enplace.Caller) error { return sees(s.ListPlugins(ctx, c, "person:a-ann", enplace.Page{})) }},
		{"attach one to ann", "yy...", func(c enplace.Caller) error {
			p, err := s.CreatePluginArchive(ctx, c, "person:a-ann", "a-more", item("a-more").Archive())
			if err == nil {
				err = s.DeletePlugin(ctx, c, p.ID)
			}
			return err
		}},
		{"list ann's items", "yy...", func(c enplace.Caller) error { return sees(s.ListItems(ctx, c, "person:a-ann", enplace.Page{})) }},
		{"see an item of the organisation", "yyy..", func(c enplace.Caller) error { return sees(s.Item(ctx, c, "organisation", "a-org")) }},
		{"change an item of the organisation", "yff..", func(c enplace.Caller) error {
			return sees(s.UpdateItem(ctx, c, "organisation", "a-org", enplace.UpdateItem{Enabled: &on}))
		}},
		{"change ann's item", "yy...", func(c enplace.Caller) error {
			return sees(s.UpdateItem(ctx, c, "person:a-ann", "a-own", enplace.UpdateItem{Enabled: &on}))
		}},
		{"choose for ann", "yy...", func(c enplace.Caller) error {
			return s.PutChoice(ctx, c, "person:a-ann", "a-org", enplace.PutChoice{State: enplace.ChoiceInherit})
		}},
		{"choose for the team", "yff..", func(c enplace.Caller) error {
			return s.PutChoice(ctx, c, "team:a-team", "a-org", enplace.PutChoice{State: enplace.ChoiceInherit})
		}},
		{"set ann's policy", "yy...", func(c enplace.Caller) error { return s.PutEgress(ctx, c, "person:a-ann", nil) }},
		{"set the organisation's policy", "yff..", func(c enplace.Caller) error { return s.PutEgress(ctx, c, "organisation", nil) }},
		{"put a secret of ann's", "yy...", func(c enplace.Caller) error {
			return sees(s.PutSecret(ctx, c, "person:a-ann", "A_TOKEN", enplace.PutSecret{Value: "secret-of-ann"}))
		}},
		{"list the organisation's secrets", "yff..", func(c enplace.Caller) error { return sees(s.ListSecrets(ctx, c, "organisation", enplace.Page{})) }},
		{"refresh ann's set", "yy..f", func(c enplace.Caller) error { return sees(s.Refresh(ctx, c, ann)) }},
		{"see a set", "yyy..", func(c enplace.Caller) error { return sees(s.Set(ctx, c, hash)) }},
		{"retry a bundle", "yyy..", func(c enplace.Caller) error { return sees(s.RetryBundle(ctx, c, hash)) }},
	} {
		for i, c := range callers {
			want := map[byte]enplace.Kind{'y': "", 'f': enplace.KindForbidden, '.': enplace.KindNotFound}[x.answers[i]]
			if err := x.do(c); enplace.KindOf(err) != want {
				h.t.Errorf("%s as %s %s: %v, want %q", x.what, c.Kind, c.Subject, err, want)
			}
		}
	}
	for _, p := range []enplace.Plugin{org, own} {
		check(h.t, s.DeletePlugin(ctx, operator, p.ID))
	}
}

// Items that a sync breaks keep their last good definition, and say so; those that are gone go; what an operator set stays.
func testSync(h house) {
	ctx, s := h.t.Context(), h.Toolchain
	with := h.Direct("s-ann")
	p := h.Attach("person:s-ann", "own", item("one").With(item("two"), item("three")))
	mode := enplace.ItemAvailable
	_, err := s.UpdateItem(ctx, operator, "person:s-ann", "three", enplace.UpdateItem{Mode: &mode})
	check(h.t, err)
	before := h.set(with)
	broken := item("one").With(toolchaintest.Item("two", "", "[tools\n"), toolchaintest.Item("three", "echo new\n", ""))
	delete(broken, "one/environment.json")
	delete(broken, "one/setup.sh")
	p = h.Sync(p, broken)
	if !slices.Equal(p.Items, []string{"three", "two"}) {
		h.t.Errorf("items %v", p.Items)
	}
	if got := keys(h.set(with)); got != "person:s-ann/two" || h.set(with).Items[0].Hash() != before.Items[1].Hash() {
		h.t.Errorf("set %s, was %s", got, keys(before))
	}
	two, err := s.Item(ctx, operator, "person:s-ann", "two")
	check(h.t, err)
	if len(two.Findings) < 2 || two.Findings[0].File != "environments/two/mise.toml" || two.Findings[0].Line != 1 || !strings.Contains(two.Findings[len(two.Findings)-1].Message, "last good") {
		h.t.Errorf("findings %+v", two.Findings)
	}
	three, err := s.Item(ctx, operator, "person:s-ann", "three")
	check(h.t, err)
	if script, _ := three.File("setup.sh"); three.Mode != enplace.ItemAvailable || script != "#!/bin/bash\necho new\n" {
		h.t.Errorf("%+v", three)
	}
	// A plugin whose folder of items is no more keeps all of them.
	p = h.Sync(p, toolchaintest.Files{"/README": "nothing"})
	if !slices.Equal(p.Items, []string{"three", "two"}) || len(p.Findings) == 0 {
		h.t.Errorf("%+v", p)
	}
	// Mended, it is as it says.
	if p = h.Sync(p, item("two")); !slices.Equal(p.Items, []string{"two"}) || len(p.Findings) > 0 {
		h.t.Errorf("%+v", p)
	}
	if _, err := s.CreatePluginArchive(ctx, operator, "person:s-ann", "bad", toolchaintest.Item("x", "", "[tools\n").Archive()); enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), "environments/x/mise.toml:1") {
		h.t.Errorf("a plugin without a good item: %v", err)
	}
	if _, err := s.CreatePluginArchive(ctx, operator, "team:nobody", "x", item("x").Archive()); enplace.KindOf(err) != enplace.KindInvalid {
		h.t.Errorf("a plugin of no team: %v", err)
	}
}

// A key is used once along a chain; where it is used twice all the same, the page says who wins.
func testKeys(h house) {
	ctx, s := h.t.Context(), h.Toolchain
	with := h.Direct("k-ann")
	org := h.Attach("organisation", "k-org", item("k-jq"))
	refused := func(scope enplace.Scope, name, key, why string) {
		h.t.Helper()
		if _, err := s.CreatePluginArchive(ctx, operator, scope, name, item(key).Archive()); enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), why) {
			h.t.Errorf("%s of %s again: %v", key, scope, err)
		}
	}
	refused("person:k-ann", "own", "k-jq", "used by an item of organisation")
	refused("organisation", "k-more", "k-jq", "used by the plugin k-org of this scope")
	own := h.Attach("person:k-ann", "own", item("k-own"))
	// It comes with a sync: the nearer one is used, until the organisation locks its own.
	own = h.Sync(own, item("k-own").With(item("k-jq")))
	if len(own.Findings) != 1 || own.Findings[0].Severity != enplace.FindingWarning {
		h.t.Errorf("findings %+v", own.Findings)
	}
	set := h.set(with)
	if keys(set) != "person:k-ann/k-jq person:k-ann/k-own" || len(set.Clashes) != 1 || set.Clashes[0].Used != "person:k-ann" {
		h.t.Errorf("%s, clashes %+v", keys(set), set.Clashes)
	}
	locked := true
	_, err := s.UpdateItem(ctx, operator, "organisation", "k-jq", enplace.UpdateItem{Locked: &locked})
	check(h.t, err)
	if got := keys(h.set(with)); got != "organisation/k-jq person:k-ann/k-own" {
		h.t.Errorf("with a lock: %s", got)
	}
	if err := s.PutChoice(ctx, toolchaintest.Person("k-ann"), "person:k-ann", "k-jq", enplace.PutChoice{State: enplace.ChoiceOff}); enplace.KindOf(err) != enplace.KindForbidden {
		h.t.Errorf("switching off what is locked: %v", err)
	}
	if _, err := s.UpdateItem(ctx, operator, "person:k-ann", "k-own", enplace.UpdateItem{Locked: &locked}); enplace.KindOf(err) != enplace.KindInvalid {
		h.t.Errorf("a person's lock: %v", err)
	}
	// Another plugin of the scope that takes a key with a sync loses that item alone.
	more := h.Attach("person:k-ann", "more", item("k-more"))
	more = h.Sync(more, item("k-more").With(item("k-own")))
	if !slices.Equal(more.Items, []string{"k-more"}) || len(more.Findings) != 1 || more.Findings[0].Severity != enplace.FindingError {
		h.t.Errorf("%+v", more)
	}
	check(h.t, s.DeletePlugin(ctx, operator, org.ID))
}

func testChoices(h house) {
	ctx, s := h.t.Context(), h.Toolchain
	_, err := s.PutTeam(ctx, operator, "c-web", enplace.PutTeam{People: []string{"c-ann"}})
	check(h.t, err)
	with, in := h.Direct("c-ann"), h.Room("c-room", "c-web", false)
	org := h.Attach("organisation", "c-org", item("c-a").With(item("c-b")))
	h.Attach("team:c-web", "web", item("c-c"))
	mode := enplace.ItemAvailable
	_, err = s.UpdateItem(ctx, operator, "organisation", "c-b", enplace.UpdateItem{Mode: &mode})
	check(h.t, err)
	choose := func(scope enplace.Scope, key string, state enplace.ItemChoice) {
		h.t.Helper()
		check(h.t, s.PutChoice(ctx, operator, scope, key, enplace.PutChoice{State: state}))
	}
	want := func(id, keysWanted string) {
		h.t.Helper()
		if got := keys(h.set(id)); got != keysWanted {
			h.t.Errorf("%s reads %q, want %q", id, got, keysWanted)
		}
	}
	want(with, "organisation/c-a team:c-web/c-c")
	// An item that is inherited was said not to be there.
	off := false
	_, err = s.UpdateItem(ctx, operator, "team:c-web", "c-a", enplace.UpdateItem{Enabled: &off})
	var inherited *enplace.Error
	if !errors.As(err, &inherited) || inherited.Kind != enplace.KindNotFound || !strings.Contains(inherited.Message, "organisation does, and team:c-web inherits it") ||
		!strings.HasPrefix(inherited.Fixes[0], "enplace item off team:c-web c-a ") || !strings.Contains(inherited.Fixes[1], "enplace item set organisation c-a ") {
		h.t.Errorf("disabling what is inherited: %+v", inherited)
	}
	if _, err = s.UpdateItem(ctx, operator, "organisation", "c-c", enplace.UpdateItem{Enabled: &off}); !strings.Contains(fmt.Sprint(err), "there is no item") {
		h.t.Errorf("what a nearer scope declares: %v", err)
	}
	choose("person:c-ann", "c-b", enplace.ChoiceAdded)
	choose("team:c-web", "c-a", enplace.ChoiceOff)
	want(with, "organisation/c-b team:c-web/c-c")
	want(in, "team:c-web/c-c")
	choose("person:c-ann", "c-a", enplace.ChoiceAdded)
	want(with, "organisation/c-a organisation/c-b team:c-web/c-c")
	l, err := s.ListItems(ctx, toolchaintest.Person("c-ann"), "person:c-ann", enplace.Page{})
	check(h.t, err)
	if len(l.Items) != 3 || l.Items[1].Choice != enplace.ChoiceAdded || !l.Items[1].InSet {
		h.t.Errorf("%+v", l.Items)
	}
	for _, x := range []struct {
		scope enplace.Scope
		key   string
		state enplace.ItemChoice
		kind  enplace.Kind
	}{{"person:c-ann", "none", enplace.ChoiceOff, enplace.KindNotFound}, {"team:c-web", "c-c", enplace.ChoiceOff, enplace.KindInvalid}, {"person:c-ann", "c-a", "perhaps", enplace.KindInvalid}} {
		if err := s.PutChoice(ctx, operator, x.scope, x.key, enplace.PutChoice{State: x.state}); enplace.KindOf(err) != x.kind {
			h.t.Errorf("%+v: %v", x, err)
		}
	}
	// Whoever leaves the team reads it no more.
	_, err = s.PutTeam(ctx, operator, "c-web", enplace.PutTeam{})
	check(h.t, err)
	want(with, "organisation/c-a organisation/c-b")

	open := h.set(with).Hash
	check(h.t, s.PutEgress(ctx, operator, "person:c-ann", &enplace.Egress{Policy: enplace.EgressNone}))
	if set := h.set(with); set.Hash == open || set.Egress.Policy != enplace.EgressNone {
		h.t.Errorf("%+v", set.Egress)
	}
	b, err := s.Use(ctx, h.set(with).Hash)
	check(h.t, err)
	if b.Status != enplace.BundleNotPrepared || !strings.Contains(b.Reason, "restricted") {
		h.t.Errorf("%+v", b)
	}
	if err := s.PutEgress(ctx, operator, "person:c-ann", &enplace.Egress{Policy: "some"}); enplace.KindOf(err) != enplace.KindInvalid {
		h.t.Errorf("an unknown policy: %v", err)
	}
	check(h.t, s.DeletePlugin(ctx, operator, org.ID))
}

func testConversations(h house) {
	ctx, s := h.t.Context(), h.Toolchain
	for _, team := range []string{"v-one", "v-two"} {
		_, err := s.PutTeam(ctx, operator, team, enplace.PutTeam{People: []string{"v-ann"}})
		check(h.t, err)
	}
	ann := toolchaintest.Person("v-ann")
	for _, x := range []struct {
		in   enplace.PutConversation
		kind enplace.Kind
	}{
		{enplace.PutConversation{Kind: enplace.ConversationDirect, Person: "v-ann"}, enplace.KindInvalid}, // which team?
		{enplace.PutConversation{Kind: enplace.ConversationDirect, Person: "v-ann", Team: "v-three"}, enplace.KindInvalid},
		{enplace.PutConversation{Kind: enplace.ConversationDirect, Person: "v-ann", Room: "v-room"}, enplace.KindInvalid},
		{enplace.PutConversation{Kind: enplace.ConversationRoom, Person: "v-ann", Room: "v-room"}, enplace.KindInvalid},
		{enplace.PutConversation{Kind: "other", Person: "v-ann"}, enplace.KindInvalid},
		{enplace.PutConversation{Kind: enplace.ConversationDirect, Person: "v-bob"}, enplace.KindNotFound},
		{enplace.PutConversation{Kind: enplace.ConversationDirect, Person: "v-ann", Team: "v-two"}, ""},
	} {
		if _, err := s.PutConversation(ctx, ann, "v-talk", x.in); enplace.KindOf(err) != x.kind {
			h.t.Errorf("%+v: %v", x.in, err)
		}
	}
	_, err := s.PutPerson(ctx, operator, "v-cat")
	check(h.t, err)
	for want, in := range map[string]enplace.PutConversation{
		"person: is required":         {Kind: enplace.ConversationDirect},
		"room: is required":           {Kind: enplace.ConversationRoom},
		`"v-one", but in: none`:       {Kind: enplace.ConversationDirect, Person: "v-cat", Team: "v-one"},
		`"v-six", but in: v-one, v-t`: {Kind: enplace.ConversationDirect, Person: "v-ann", Team: "v-six"},
	} {
		if _, err := s.PutConversation(ctx, operator, "v-wrong", in); enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), want) {
			h.t.Errorf("%+v: %v", in, err)
		}
	}
	if got := h.set("v-talk").Chain; !slices.Equal(got, enplace.NewChain("v-two", "v-ann")) {
		h.t.Errorf("chain %v", got)
	}
	l, err := s.ListConversations(ctx, toolchaintest.Person("v-bob"), enplace.Page{})
	check(h.t, err)
	if slices.ContainsFunc(l.Items, func(c enplace.Conversation) bool { return c.ID == "v-talk" }) {
		h.t.Error("bob sees ann's conversation")
	}
	check(h.t, s.DeleteConversation(ctx, ann, "v-talk"))
}
