package attacktest

import (
	"archive/tar"
	"bytes"
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"enplace"
	"enplace/client"
)

// tree packs files as an archive.
func tree(files map[string]string) *bytes.Buffer {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}) // into memory
		_, _ = w.Write([]byte(files[name]))
	}
	_ = w.Close()
	return &b
}

// item gives the files of an item; a script or a mise.toml of "" is none.
func item(key, script, mise string) map[string]string {
	at := "environments/" + key + "/"
	files := map[string]string{at + "environment.json": `{"name": "` + key + `", "description": "Of an attacker."}`}
	if script != "" {
		files[at+"setup.sh"] = "#!/bin/bash\n" + script
	}
	if mise != "" {
		files[at+"mise.toml"] = mise
	}
	return files
}

// attach attaches a plugin that must be taken.
func attach(t *testing.T, api *client.Client, scope enplace.Scope, name string, files map[string]string) enplace.Plugin {
	t.Helper()
	p, err := api.CreatePluginArchive(t.Context(), scope, name, tree(files))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// resident is a person with a direct conversation, and what speaks for them.
type resident struct {
	t      *testing.T
	l      *lab
	login  string
	secret string
	api    *client.Client
	conv   string // the id of the conversation
}

// resident makes a person in teams, with a conversation that reads the first.
func (l *lab) resident(t *testing.T, login string, teams ...string) *resident {
	t.Helper()
	if _, err := l.Client.PutPerson(t.Context(), login); err != nil {
		t.Fatal(err)
	}
	r := &resident{t: t, l: l, login: login, secret: l.secretOf(t, enplace.KeyPerson, login), conv: "with-" + login}
	r.api = l.As(r.secret)
	for _, team := range teams {
		l.join(t, team, login)
	}
	in := enplace.PutConversation{Kind: enplace.ConversationDirect, Person: login}
	if len(teams) > 0 {
		in.Team = teams[0]
	}
	if _, err := r.api.PutConversation(t.Context(), r.conv, in); err != nil {
		t.Fatal(err)
	}
	return r
}

// join adds somebody to a team, which is made where there is none.
func (l *lab) join(t *testing.T, team, login string) {
	t.Helper()
	have, err := l.Client.Team(t.Context(), team)
	if err != nil && enplace.KindOf(err) != enplace.KindNotFound {
		t.Fatal(err)
	}
	if _, err := l.Client.PutTeam(t.Context(), team, enplace.PutTeam{People: append(have.People, login)}); err != nil {
		t.Fatal(err)
	}
}

func (r *resident) scope() enplace.Scope { return enplace.PersonScope(r.login) }

func (r *resident) computer() string { return string(r.scope()) }

// exec runs a command line on the person's computer, whatever it ends with.
func (r *resident) exec(script string) enplace.ConversationResult { return r.in(r.conv, script, 60) }

func (r *resident) in(conversation, script string, timeout int) enplace.ConversationResult {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	res, err := r.api.ExecConversation(ctx, conversation, enplace.ConversationExec{ExecRequest: enplace.ExecRequest{Command: []string{"bash", "-c", script}, Timeout: timeout}})
	if err != nil {
		r.t.Errorf("%.300s: %v", script, err)
	}
	return res
}

// want runs a command line, and fails unless that is what it prints.
func (r *resident) want(script, stdout string) {
	r.t.Helper()
	if got := r.exec(script); got.Stdout != stdout || got.ExitCode != 0 {
		r.t.Errorf("%.300s: %.2000q, status %d, stderr %.2000q", script, got.Stdout, got.ExitCode, got.Stderr)
	}
}
