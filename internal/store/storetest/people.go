package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"enplace"
	"enplace/internal/store"
)

func putTeam(t *testing.T, s store.Store, name string, people ...string) enplace.Team {
	t.Helper()
	return must[enplace.Team](t)(s.PutTeam(t.Context(), enplace.Team{Name: name, People: people, CreatedAt: at(0), UpdatedAt: at(0)}))
}

func putPerson(t *testing.T, s store.Store, login string) enplace.Person {
	t.Helper()
	return must[enplace.Person](t)(s.PutPerson(t.Context(), enplace.Person{Login: login, CreatedAt: at(0)}))
}

func putRoom(t *testing.T, s store.Store, name, team string) enplace.Room {
	t.Helper()
	return must[enplace.Room](t)(s.PutRoom(t.Context(), enplace.Room{Name: name, Team: team, Internal: true, CreatedAt: at(0), UpdatedAt: at(0)}))
}

func teams(t *testing.T, s store.Store) {
	ctx := t.Context()
	putPerson(t, s, "bob")
	got := must[enplace.Team](t)(s.PutTeam(ctx, enplace.Team{Name: "web", People: []string{"bob", "ann", "bob"}, CreatedAt: at(1), UpdatedAt: at(2)}))
	web := enplace.Team{Name: "web", People: []string{"ann", "bob"}, CreatedAt: kept(at(1)), UpdatedAt: kept(at(2))}
	same(t, "as made", got, web)
	same(t, "as stored", must[enplace.Team](t)(s.Team(ctx, "web")), web)
	same(t, "one who was not known", must[enplace.Person](t)(s.Person(ctx, "ann")),
		enplace.Person{Login: "ann", Teams: []string{"web"}, CreatedAt: kept(at(2))})
	same(t, "one who was", must[enplace.Person](t)(s.Person(ctx, "bob")),
		enplace.Person{Login: "bob", Teams: []string{"web"}, CreatedAt: kept(at(0))})

	got = must[enplace.Team](t)(s.PutTeam(ctx, enplace.Team{Name: "web", People: []string{"eve"}, CreatedAt: at(8), UpdatedAt: at(9)}))
	web.People, web.UpdatedAt = []string{"eve"}, kept(at(9))
	same(t, "with others in it", got, web)
	same(t, "one who left", must[enplace.Person](t)(s.Person(ctx, "ann")).Teams, []string{})

	same(t, "without people", putTeam(t, s, "api").People, []string{})
	putTeam(t, s, "ops", "eve", "ann")
	same(t, "in two", must[enplace.Person](t)(s.Person(ctx, "eve")).Teams, []string{"ops", "web"})
	name := func(t enplace.Team) string { return fmt.Sprint(t.Name, t.People) }
	listed(t, "teams", []string{"api[]", "ops[ann eve]", "web[eve]"}, name, func(p enplace.Page) (enplace.List[enplace.Team], error) {
		return s.ListTeams(ctx, p)
	})
	check(t, s.DeleteTeam(ctx, "ops"))
	want(t, s.DeleteTeam(ctx, "ops"), store.ErrNotFound)
	_, err := s.Team(ctx, "ops")
	want(t, err, store.ErrNotFound)
	same(t, "after one was deleted", must[enplace.Person](t)(s.Person(ctx, "eve")).Teams, []string{"web"})
}

func people(t *testing.T, s store.Store) {
	ctx := t.Context()
	ann := must[enplace.Person](t)(s.PutPerson(ctx, enplace.Person{Login: "ann", Teams: []string{"web"}, CreatedAt: at(1)}))
	same(t, "as made", ann, enplace.Person{Login: "ann", Teams: []string{}, CreatedAt: kept(at(1))})
	putTeam(t, s, "web", "ann", "cat")
	again := must[enplace.Person](t)(s.PutPerson(ctx, enplace.Person{Login: "ann", CreatedAt: at(9)}))
	ann.Teams = []string{"web"}
	same(t, "left as is", again, ann)
	same(t, "as stored", must[enplace.Person](t)(s.Person(ctx, "ann")), ann)
	_, err := s.Person(ctx, "bob")
	want(t, err, store.ErrNotFound)
	putPerson(t, s, "bob")
	name := func(p enplace.Person) string { return fmt.Sprint(p.Login, p.Teams) }
	listed(t, "people", []string{"ann[web]", "bob[]", "cat[web]"}, name, func(p enplace.Page) (enplace.List[enplace.Person], error) {
		return s.ListPeople(ctx, p)
	})
	check(t, s.DeletePerson(ctx, "ann"))
	want(t, s.DeletePerson(ctx, "ann"), store.ErrNotFound)
	same(t, "the team without them", must[enplace.Team](t)(s.Team(ctx, "web")).People, []string{"cat"})
}

func rooms(t *testing.T, s store.Store) {
	ctx := t.Context()
	putTeam(t, s, "web")
	_, err := s.PutRoom(ctx, enplace.Room{Name: "lab", Team: "none", CreatedAt: at(1), UpdatedAt: at(1)})
	want(t, err, store.ErrNotFound)
	lab := must[enplace.Room](t)(s.PutRoom(ctx, enplace.Room{Name: "lab", Team: "web", Internal: true, CreatedAt: at(1), UpdatedAt: at(1)}))
	same(t, "as made", lab, enplace.Room{Name: "lab", Team: "web", Internal: true, CreatedAt: kept(at(1)), UpdatedAt: kept(at(1))})
	want(t, s.DeleteTeam(ctx, "web"), store.ErrConflict)
	_, err = s.PutRoom(ctx, enplace.Room{Name: "lab", Team: "none", CreatedAt: at(2), UpdatedAt: at(2)})
	want(t, err, store.ErrNotFound)
	same(t, "after a refusal", must[enplace.Room](t)(s.Room(ctx, "lab")), lab)

	lab.Team, lab.Internal, lab.UpdatedAt = "", false, kept(at(3))
	same(t, "changed", must[enplace.Room](t)(s.PutRoom(ctx, enplace.Room{Name: "lab", CreatedAt: at(3), UpdatedAt: at(3)})), lab)
	same(t, "as stored", must[enplace.Room](t)(s.Room(ctx, "lab")), lab)
	check(t, s.DeleteTeam(ctx, "web"))
	putRoom(t, s, "hall", "")
	putRoom(t, s, "attic", "")
	listed(t, "rooms", []string{"attic", "hall", "lab"}, func(r enplace.Room) string { return r.Name }, func(p enplace.Page) (enplace.List[enplace.Room], error) {
		return s.ListRooms(ctx, p)
	})
	check(t, s.DeleteRoom(ctx, "hall"))
	want(t, s.DeleteRoom(ctx, "hall"), store.ErrNotFound)
	_, err = s.Room(ctx, "hall")
	want(t, err, store.ErrNotFound)
}

func conversations(t *testing.T, s store.Store) {
	ctx := t.Context()
	putTeam(t, s, "web", "ann")
	putRoom(t, s, "lab", "")
	direct := enplace.Conversation{ID: "c1", Kind: enplace.ConversationDirect, Person: "ann", Team: "web", CreatedAt: at(1), UpdatedAt: at(1)}
	for _, change := range []func(*enplace.Conversation){
		func(c *enplace.Conversation) { c.Person = "none" },
		func(c *enplace.Conversation) { c.Team = "none" },
		func(c *enplace.Conversation) { c.Room = "none" },
	} {
		c := direct
		change(&c)
		_, err := s.PutConversation(ctx, c)
		want(t, err, store.ErrNotFound)
	}
	_, err := s.Conversation(ctx, "c1")
	want(t, err, store.ErrNotFound)

	direct.Computer = "not kept"
	got := must[enplace.Conversation](t)(s.PutConversation(ctx, direct))
	direct.Computer, direct.CreatedAt, direct.UpdatedAt = "", kept(at(1)), kept(at(1))
	same(t, "as made", got, direct)
	same(t, "as stored", must[enplace.Conversation](t)(s.Conversation(ctx, "c1")), direct)
	room := enplace.Conversation{ID: "c0", Kind: enplace.ConversationRoom, Room: "lab", CreatedAt: at(2), UpdatedAt: at(2)}
	room = must[enplace.Conversation](t)(s.PutConversation(ctx, room))
	moved := direct
	moved.ID, moved.CreatedAt = "c2", kept(at(5))
	must[enplace.Conversation](t)(s.PutConversation(ctx, moved))
	moved.Kind, moved.Person, moved.Team, moved.Room, moved.UpdatedAt = enplace.ConversationRoom, "", "", "lab", kept(at(6))
	changed := moved
	changed.CreatedAt = at(6)
	same(t, "changed", must[enplace.Conversation](t)(s.PutConversation(ctx, changed)), moved)
	list := func(p enplace.Page) (enplace.List[enplace.Conversation], error) { return s.ListConversations(ctx, p) }
	id := func(c enplace.Conversation) string { return c.ID }
	listed(t, "conversations", []string{"c0", "c1", "c2"}, id, list)
	for computer, want := range map[string][]enplace.Conversation{"person:ann": {direct}, "room:lab": {room, moved}, "room:ann": {}, "ann": {}} {
		same(t, "on "+computer, append([]enplace.Conversation{}, must[[]enplace.Conversation](t)(s.ConversationsOn(ctx, computer))...), want)
	}

	check(t, s.DeleteTeam(ctx, "web"))
	direct.Team = ""
	same(t, "of a team that was deleted", must[enplace.Conversation](t)(s.Conversation(ctx, "c1")), direct)
	check(t, s.DeleteConversation(ctx, "c2"))
	want(t, s.DeleteConversation(ctx, "c2"), store.ErrNotFound)
	check(t, s.DeletePerson(ctx, "ann"))
	listed(t, "after their person was deleted", []string{"c0"}, id, list)
	check(t, s.DeleteRoom(ctx, "lab"))
	listed(t, "after their room was deleted", []string{}, id, list)
}

// scopesHold: nothing that a scope has is lost or inherited with the name of a team or person, and nothing is put into the
// scope of one that is not there.
func scopesHold(t *testing.T, s store.Store) {
	ctx := t.Context()
	check(t, putItem(ctx, s, itemOf(enplace.Organisation, "inherited", at(1))))
	for scope, x := range map[enplace.Scope]struct{ make, remove func() error }{
		enplace.TeamScope("web"): {
			func() error { putTeam(t, s, "web"); return nil },
			func() error { return s.DeleteTeam(ctx, "web") },
		},
		enplace.PersonScope("ann"): {
			func() error { putPerson(t, s, "ann"); return nil },
			func() error { return s.DeletePerson(ctx, "ann") },
		},
	} {
		for what, has := range map[string]struct{ put, drop func() error }{
			"a plugin": {
				func() error { return s.CreatePlugin(ctx, pluginOf("plug_1", scope, "tools", at(1)), nil) },
				func() error { return s.DeletePlugin(ctx, "plug_1") },
			},
			"a choice": {
				func() error {
					return s.PutChoice(ctx, enplace.Choice{Scope: scope, Key: "inherited", State: enplace.ChoiceOff}, at(1))
				},
				func() error {
					return s.PutChoice(ctx, enplace.Choice{Scope: scope, Key: "inherited", State: enplace.ChoiceInherit}, at(2))
				},
			},
			"a policy": {
				func() error { return s.PutEgress(ctx, scope, &enplace.Egress{Policy: enplace.EgressNone}, at(1)) },
				func() error { return s.PutEgress(ctx, scope, nil, at(2)) },
			},
			"a secret": {
				func() error { _, err := s.PutSecret(ctx, secretOf(scope, "TOKEN", "sealed")); return err },
				func() error { return s.DeleteSecret(ctx, scope, "TOKEN") },
			},
		} {
			if err := has.put(); err == nil {
				t.Errorf("%s was put into %s, which is not there", what, scope)
			} else {
				want(t, err, store.ErrNotFound)
			}
			check(t, x.make())
			check(t, has.put())
			if err := x.remove(); err == nil {
				t.Errorf("%s was removed while %s was its own", scope, what)
			} else {
				want(t, err, store.ErrConflict)
			}
			check(t, has.drop())
			check(t, x.remove())
		}
	}
}

// peopleConcurrent: of the puts of one team at once, one is what it is in the end, whole.
func peopleConcurrent(t *testing.T, s store.Store) {
	ctx := t.Context()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			people := []string{fmt.Sprint("a", i), fmt.Sprint("b", i)}
			if _, err := s.PutTeam(ctx, enplace.Team{Name: "web", People: people, CreatedAt: at(i), UpdatedAt: at(i)}); err != nil {
				t.Error(err)
			}
			if team, err := s.Team(ctx, "web"); err != nil || len(team.People) != 2 || team.People[0][1:] != team.People[1][1:] {
				t.Errorf("%+v, %v", team, err)
			}
		})
	}
	wg.Wait()
	in := slices.DeleteFunc(must[enplace.List[enplace.Person]](t)(s.ListPeople(ctx, enplace.Page{})).Items, func(p enplace.Person) bool { return len(p.Teams) == 0 })
	same(t, "people in the team", len(in), 2)
}
