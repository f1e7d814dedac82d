package storetest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/internal/store"
)

func keys(t *testing.T, s store.Store) {
	ctx := t.Context()
	k := enplace.Key{ID: "key_1", Name: "laptop", Kind: enplace.KeyPerson, Subject: "ann", CreatedBy: "operator", CreatedAt: at(0), Secret: "never kept"}
	check(t, s.CreateKey(ctx, k, "hash-1"))
	k.Secret, k.CreatedAt = "", kept(k.CreatedAt)
	same(t, "the key", must[enplace.Key](t)(s.KeyByHash(ctx, "hash-1")), k)
	want(t, s.CreateKey(ctx, enplace.Key{ID: "key_2"}, "hash-1"), store.ErrExists)
	want(t, s.CreateKey(ctx, enplace.Key{ID: "key_1"}, "hash-2"), store.ErrExists)
	_, err := s.KeyByHash(ctx, "hash-2")
	want(t, err, store.ErrNotFound)

	check(t, s.TouchKey(ctx, "key_1", at(1)))
	k.LastUsed = ptr(kept(at(1)))
	same(t, "after a use", must[enplace.Key](t)(s.KeyByHash(ctx, "hash-1")), k)
	want(t, s.TouchKey(ctx, "key_9", at(1)), store.ErrNotFound)

	k.RevokedAt = ptr(kept(at(2)))
	for minute := 2; minute < 4; minute++ { // a second revocation does not move the first
		same(t, "revoked", must[enplace.Key](t)(s.RevokeKey(ctx, "key_1", at(minute))), k)
	}
	same(t, "by its hash", must[enplace.Key](t)(s.KeyByHash(ctx, "hash-1")), k)
	_, err = s.RevokeKey(ctx, "key_9", at(2))
	want(t, err, store.ErrNotFound)

	check(t, s.CreateKey(ctx, enplace.Key{ID: "key_2", CreatedAt: at(1)}, "hash-0"))
	check(t, s.CreateKey(ctx, enplace.Key{ID: "key_3", CreatedAt: at(-60)}, "hash-3"))
	listed(t, "keys", []string{"key_3", "key_2", "key_1"}, func(k enplace.Key) string { return k.ID }, func(p enplace.Page) (enplace.List[enplace.Key], error) {
		return s.ListKeys(ctx, p)
	})
}

func audit(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := enplace.AuditEntry{
		ID: "aud_1", At: at(0), Actor: "ann", KeyID: "key_1", Action: "environment.create", Target: "henv_1",
		Detail: map[string]any{"name": "Studio", "n": 1.5, "list": []any{"a"}},
	}
	check(t, s.AppendAudit(ctx, e))
	want(t, s.AppendAudit(ctx, e), store.ErrExists)
	e.At = kept(e.At)
	list := must[enplace.List[enplace.AuditEntry]](t)(s.ListAudit(ctx, "", enplace.Page{}))
	same(t, "the entry", list.Items, []enplace.AuditEntry{e})
	check(t, s.AppendAudit(ctx, enplace.AuditEntry{ID: "aud_2", At: at(0), Target: "henv_2"}))
	check(t, s.AppendAudit(ctx, enplace.AuditEntry{ID: "aud_3", At: at(-60), Target: "henv_1"}))
	for target, want := range map[string][]string{"": {"aud_3", "aud_2", "aud_1"}, "henv_1": {"aud_3", "aud_1"}, "henv_9": {}} {
		listed(t, "of "+target, want, func(e enplace.AuditEntry) string { return e.ID }, func(p enplace.Page) (enplace.List[enplace.AuditEntry], error) {
			return s.ListAudit(ctx, target, p)
		})
	}
}

func requests(t *testing.T, s store.Store) {
	ctx := t.Context()
	begin := func(caller, key, hash string) (*store.Response, error) {
		return s.BeginRequest(ctx, caller, key, hash, at(1))
	}
	fresh := func(caller, key, hash string) {
		t.Helper()
		if r, err := begin(caller, key, hash); r != nil || err != nil {
			t.Fatalf("a new key gave %v, %v", r, err)
		}
	}
	fresh("key_1", "k", "hash")
	_, err := begin("key_1", "k", "hash")
	want(t, err, store.ErrConflict)
	_, err = begin("key_1", "k", "other")
	want(t, err, store.ErrExists)
	fresh("key_2", "k", "other") // another caller's key is another key

	answer := &store.Response{Status: 201, Header: map[string]string{"Location": "/v1/x"}, Body: []byte("{\"a\": 1}\x00\xff")}
	check(t, s.FinishRequest(ctx, "key_1", "k", answer))
	same(t, "the stored answer", must[*store.Response](t)(begin("key_1", "k", "hash")), answer)
	_, err = begin("key_1", "k", "other")
	want(t, err, store.ErrExists)

	check(t, s.FinishRequest(ctx, "key_2", "k", nil))
	fresh("key_2", "k", "yet another")
	want(t, s.FinishRequest(ctx, "key_3", "k", answer), store.ErrNotFound)

	check(t, s.ForgetRequests(ctx, at(0), true)) // the start of a server: what never got an answer
	fresh("key_2", "k", "after the restart")
	same(t, "an answered one", must[*store.Response](t)(begin("key_1", "k", "hash")), answer)
	check(t, s.ForgetRequests(ctx, at(1), false)) // claimed at 1: not before
	same(t, "one that is not old", must[*store.Response](t)(begin("key_1", "k", "hash")), answer)
	check(t, s.ForgetRequests(ctx, at(2), false))
	fresh("key_1", "k", "hash")
}

// A server that runs for long keeps no answer beyond its time, and no key is taken for ever.
func requestsExpire(t *testing.T, s store.Store) {
	ctx := t.Context()
	answer := &store.Response{Status: 201, Header: map[string]string{}, Body: []byte("{}")}
	begin := func(key string, after time.Duration) (*store.Response, error) {
		return s.BeginRequest(ctx, "key_1", key, "hash", at(1).Add(after))
	}
	_ = must[*store.Response](t)(begin("k", 0))
	check(t, s.FinishRequest(ctx, "key_1", "k", answer))
	same(t, "an answer at the end of its time", must[*store.Response](t)(begin("k", enplace.IdempotencyRetention)), answer)
	_ = must[*store.Response](t)(begin("another", enplace.IdempotencyRetention+time.Second))
	want(t, s.FinishRequest(ctx, "key_1", "k", answer), store.ErrNotFound)
	if r, err := begin("k", enplace.IdempotencyRetention+time.Second); r != nil || err != nil {
		t.Errorf("an expired key gave %v, %v", r, err)
	}
}

func requestsConcurrent(t *testing.T, s store.Store) {
	var mu sync.Mutex
	claimed := 0
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			r, err := s.BeginRequest(t.Context(), "key_1", "k", "hash", at(1))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r == nil && err == nil:
				claimed++
			case !errors.Is(err, store.ErrConflict):
				t.Errorf("%v, %v", r, err)
			}
		})
	}
	wg.Wait()
	same(t, "claims", claimed, 1)
}

func settings(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Setting(ctx, "base")
	want(t, err, store.ErrNotFound)
	for _, v := range []string{"sha256:1", "sha256:2", ""} {
		check(t, s.PutSetting(ctx, "base", v))
		same(t, "the value", must[string](t)(s.Setting(ctx, "base")), v)
	}
	check(t, s.Ping(ctx))
}

// cursors: they come from outside, and none may do more than be refused.
func cursors(t *testing.T, s store.Store) {
	ctx := t.Context()
	e := env(t, s, "one")
	putPerson(t, s, "ann")
	check(t, s.CreateComputer(ctx, computerOf("person:ann")))
	lists := map[string]func(enplace.Page) error{
		"environments": func(p enplace.Page) error { _, err := s.ListEnvironments(ctx, "", p); return err },
		"tree":         func(p enplace.Page) error { _, err := s.ListTree(ctx, e.ID, "", p); return err },
		"builds":       func(p enplace.Page) error { _, err := s.ListBuilds(ctx, e.ID, p); return err },
		"versions":     func(p enplace.Page) error { _, err := s.ListVersions(ctx, e.ID, p); return err },
		"harnesses":    func(p enplace.Page) error { _, err := s.ListHarnesses(ctx, "", p); return err },
		"tasks":        func(p enplace.Page) error { _, err := s.ListTasks(ctx, store.TaskFilter{}, p); return err },
		"queued tasks": func(p enplace.Page) error {
			_, err := s.ListTasks(ctx, store.TaskFilter{Status: enplace.TaskQueued}, p)
			return err
		},
		"keys":          func(p enplace.Page) error { _, err := s.ListKeys(ctx, p); return err },
		"audit":         func(p enplace.Page) error { _, err := s.ListAudit(ctx, "", p); return err },
		"teams":         func(p enplace.Page) error { _, err := s.ListTeams(ctx, p); return err },
		"people":        func(p enplace.Page) error { _, err := s.ListPeople(ctx, p); return err },
		"rooms":         func(p enplace.Page) error { _, err := s.ListRooms(ctx, p); return err },
		"conversations": func(p enplace.Page) error { _, err := s.ListConversations(ctx, p); return err },
		"plugins":       func(p enplace.Page) error { _, err := s.ListPlugins(ctx, "", p); return err },
		"sets":          func(p enplace.Page) error { _, err := s.ListSets(ctx, p); return err },
		"computers":     func(p enplace.Page) error { _, err := s.ListComputers(ctx, p); return err },
		"errors":        func(p enplace.Page) error { _, err := s.ListComputerErrors(ctx, "person:ann", p); return err },
	}
	raw := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for name, list := range lists {
		for _, c := range []string{"%", "x", "AAAA", raw("null"), raw("{}"), raw("[]"), raw("[null]"), raw("[[]]"), raw(`[1.5,{}]`), raw(`[1,"a","b"]`), strings.Repeat("A", 4096)} {
			err := list(enplace.Page{Cursor: c, Limit: 1})
			var e *enplace.Error
			if !errors.As(err, &e) || e.Kind != enplace.KindMalformed || e.Field != "cursor" {
				t.Errorf("%s: the cursor %.20q gave %v", name, c, err)
			}
		}
	}
}

// reopen: what was acknowledged is there after the store was closed, or was not and is opened a second time.
func reopen(t *testing.T, p Place) {
	ctx := t.Context()
	s := p.Open(t)
	e := env(t, s, "one")
	paths := []string{"a", "b/c"}
	edit(t, s, e.ID, paths...)
	v := succeed(t, s, e.ID, "sha256:one", at(1))
	queued := queue(t, s, e.ID, at(2))
	task := addTask(t, s, store.TaskRecord{Task: enplace.Task{ID: "task_1", Status: enplace.TaskQueued, CreatedAt: at(3)}, Input: "in"})
	check(t, s.PutSetting(ctx, "base", "sha256:base"))
	e = must[enplace.Environment](t)(s.Environment(ctx, e.ID))
	check(t, s.Close())

	for i := range 2 {
		s := p.Open(t)
		same(t, fmt.Sprint("environment, time ", i), must[enplace.Environment](t)(s.Environment(ctx, e.ID)), e)
		same(t, "version", must[enplace.Version](t)(s.Version(ctx, e.ID, 1)), v)
		same(t, "build", must[store.BuildRecord](t)(s.Build(ctx, e.ID, 2)).Build, queued)
		same(t, "task", must[store.TaskRecord](t)(s.Task(ctx, "task_1")), task)
		same(t, "setting", must[string](t)(s.Setting(ctx, "base")), "sha256:base")
		listed(t, "tree", paths, func(e enplace.TreeEntry) string { return e.Path }, func(p enplace.Page) (enplace.List[enplace.TreeEntry], error) {
			return s.ListTree(ctx, e.ID, "", p)
		})
	}
}

// reopenToolchains is reopen for what scopes declare and computers have.
func reopenToolchains(t *testing.T, p Place) {
	ctx := t.Context()
	s := p.Open(t)
	team := putTeam(t, s, "web", "ann")
	room := putRoom(t, s, "lab", "web")
	conv := must[enplace.Conversation](t)(s.PutConversation(ctx, enplace.Conversation{ID: "c1", Kind: enplace.ConversationRoom, Room: "lab", CreatedAt: at(1), UpdatedAt: at(1)}))
	check(t, s.CreatePlugin(ctx, pluginOf("plug_1", "team:web", "tools", at(1)), itemsOf("", at(1), "jq")))
	choose(t, s, "person:ann", "jq", enplace.ChoiceOff)
	check(t, s.PutEgress(ctx, enplace.Organisation, &enplace.Egress{Policy: enplace.EgressNone}, at(1)))
	must[enplace.Secret](t)(s.PutSecret(ctx, secretOf("team:web", "TOKEN", "sealed")))
	set := must[store.SetRecord](t)(s.PutSet(ctx, setOf("one", at(1))))
	check(t, s.CreateComputer(ctx, computerOf("room:lab")))
	check(t, s.AppendComputerError(ctx, "room:lab", enplace.ComputerError{Key: "jq"}, 5))
	plugin := must[enplace.Plugin](t)(s.Plugin(ctx, "plug_1"))
	declared := must[store.Declared](t)(s.Declared(ctx, nil))
	secrets := must[[]store.SecretRecord](t)(s.Secrets(ctx, nil))
	computer := must[store.ComputerRecord](t)(s.Computer(ctx, "room:lab"))
	check(t, s.Close())

	for range 2 {
		s := p.Open(t)
		same(t, "team", must[enplace.Team](t)(s.Team(ctx, "web")), team)
		same(t, "room", must[enplace.Room](t)(s.Room(ctx, "lab")), room)
		same(t, "conversation", must[enplace.Conversation](t)(s.Conversation(ctx, "c1")), conv)
		same(t, "plugin", must[enplace.Plugin](t)(s.Plugin(ctx, "plug_1")), plugin)
		same(t, "declared", must[store.Declared](t)(s.Declared(ctx, nil)), declared)
		same(t, "secrets", must[[]store.SecretRecord](t)(s.Secrets(ctx, nil)), secrets)
		same(t, "set", must[store.SetRecord](t)(s.Set(ctx, "one")), set)
		same(t, "computer", must[store.ComputerRecord](t)(s.Computer(ctx, "room:lab")), computer)
		same(t, "error log", len(must[enplace.List[enplace.ComputerError]](t)(s.ListComputerErrors(ctx, "room:lab", enplace.Page{})).Items), 1)
	}
}
