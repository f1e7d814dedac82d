package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/internal/transcript"
)

func TestPutsTakeTheBodiesOfScripts(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.toolchain.putTeam = func(name string, in enplace.PutTeam) (enplace.Team, error) {
		return enplace.Team{Name: name, People: in.People}, nil
	}
	b.toolchain.putPerson = func(login string) (enplace.Person, error) {
		return enplace.Person{Login: login, Teams: []string{}}, nil
	}
	b.toolchain.choose = func(enplace.PutChoice) error { return nil }
	b.toolchain.putEgress = func(*enplace.Egress) error { return nil }
	b.toolchain.update = func(in enplace.UpdateItem) (enplace.Item, error) {
		return enplace.Item{Mode: *in.Mode, Enabled: *in.Enabled, Locked: *in.Locked}, nil
	}
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/v1/teams/web", `{"people":[]}`, 200, `"people":[]`},
		{"/v1/teams/web", `{"people":["ann"]}`, 200, `"people":["ann"]`},
		{"/v1/teams/web", `{}`, 422, `"field":"people"`},
		{"/v1/teams/web", `{"people":null}`, 422, `"field":"people"`},
		{"/v1/teams/web", `{"people":[1]}`, 422, `people[0]`},
		{"/v1/people/ann", ``, 200, `"login":"ann"`},
		{"/v1/people/ann", `{}`, 200, `"login":"ann"`},
		{"/v1/people/ann", `{"teams":["web"]}`, 400, `not a field`},
		{"/v1/items/team:web/node", `{"mode":"available","enabled":true,"locked":false}`, 200, `"mode":"available"`},
		{"/v1/items/team:web/node", `{"mode":"gone"}`, 422, `"field":"mode"`},
		{"/v1/scopes/person:ann/items/node", `{"state":"off"}`, 200, `{"scope":"person:ann","key":"node","state":"off"}`},
		{"/v1/scopes/person:ann/items/node", `{"state":"on"}`, 422, `"field":"state"`},
		{"/v1/scopes/person:ann/items/node", `{}`, 422, `"field":"state"`},
		{"/v1/scopes/organisation/egress", `{"policy":"allowlist","hosts":["*.example.org"]}`, 200, `"hosts":["*.example.org"]`},
		{"/v1/scopes/organisation/egress", `"none"`, 200, `{"policy":"none"}`},
		{"/v1/scopes/organisation/egress", `{"policy":"some"}`, 422, `allowlist`},
		{"/v1/rooms/hall", `{"internal":"yes"}`, 422, `"field":"internal"`},
		{"/v1/conversations/c1", `{"kind":"crowd"}`, 422, `"field":"kind"`},
		{"/v1/conversations/c1", `{}`, 422, `"field":"kind"`},
		{"/v1/conversations/c1", ``, 400, `required`},
		{"/v1/scopes/organisation/keychain/TOKEN", `{}`, 422, `"field":"value"`},
	} {
		resp, body := b.request(t, "PUT", c.path, strings.NewReader(c.body))
		if resp.StatusCode != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s %s: %d %s", c.path, c.body, resp.StatusCode, body)
		}
	}
}

func TestListsAreNeverNull(t *testing.T) {
	t.Parallel()
	b := start(t)
	var page enplace.Page
	b.toolchain.listRooms = func(p enplace.Page) (enplace.List[enplace.Room], error) {
		page = p
		return enplace.List[enplace.Room]{}, nil
	}
	if _, body := b.request(t, "GET", "/v1/rooms?limit=7&cursor=x", nil); body != "{\"items\":[]}\n" || page != (enplace.Page{Limit: 7, Cursor: "x"}) {
		t.Errorf("%+v %s", page, body)
	}
}

func TestPluginsComeAsRepositoriesAndArchives(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.toolchain.create = func(in enplace.CreatePlugin) (enplace.Plugin, error) {
		return enplace.Plugin{ID: "plug_git", Scope: in.Scope, Source: in.Source}, nil
	}
	b.toolchain.archive = func(scope enplace.Scope, name string, r io.Reader) (enplace.Plugin, error) {
		content, err := io.ReadAll(r)
		return enplace.Plugin{ID: "plug_archive", Scope: scope, Name: name + string(content)}, err
	}
	const git = `{"scope":"organisation","name":"base","source":{"git_url":"https://git.example/x.git","path":"plugin"}}`
	for _, c := range []struct {
		query, body, kind string
		status            int
		says              string
	}{
		{"", git, "application/json", 201, `"git_url":"https://git.example/x.git","path":"plugin"`},
		{"", git, "application/x-www-form-urlencoded", 201, `plug_git`}, // as curl -d sends it
		{"", git, "", 201, `plug_git`},
		{"?scope=team:web&name=n", "bytes", "application/octet-stream", 201, `"name":"nbytes"`},
		{"?scope=team:web&name=n", git, "application/x-www-form-urlencoded", 201, `plug_archive`}, // as curl --data-binary sends it
		{"?scope=team:web&name=n", git, "application/json", 400, `go together`},
		{"?scope=team:web", "bytes", "", 400, `go together`},
		{"?name=n", "bytes", "", 400, `go together`},
		{"", "bytes", "", 400, `?scope=organisation`},
		{"", "", "", 400, `git_url`},
		{"", `{"scope":"organisation","name":"x"}`, "", 422, `"field":"source"`},
		{"", `{"scope":"organisation","name":"x","source":{"url":"y"}}`, "", 400, `source.url`},
		{"", `{"pad":"` + strings.Repeat("x", enplace.MaxJSONBytes) + `"}`, "", 413, `1 MiB`},
		{"?scope=" + strings.Repeat("x", 201) + "&name=n", "bytes", "", 400, `200`},
	} {
		resp, body := b.request(t, "POST", "/v1/plugins"+c.query, strings.NewReader(c.body), "Content-Type", c.kind)
		if resp.StatusCode != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s %.80s as %q: %d %s", c.query, c.body, c.kind, resp.StatusCode, body)
		}
	}
	if p, err := b.client.CreatePluginArchive(t.Context(), "person:ann", "mine", strings.NewReader("-tar")); err != nil || p.Name != "mine-tar" || p.Scope != "person:ann" {
		t.Errorf("%+v %v", p, err)
	}
}

func TestSyncTakesAnArchiveOrNothing(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.toolchain.sync = func(_ string, r io.Reader) (enplace.Plugin, error) {
		if r == nil {
			return enplace.Plugin{Name: "repository"}, nil
		}
		content, err := io.ReadAll(r)
		return enplace.Plugin{Name: "archive " + string(content)}, err
	}
	for _, c := range []struct {
		body   io.Reader
		kind   string
		status int
		says   string
	}{
		{nil, "", 200, `"name":"repository"`},
		{strings.NewReader(""), "", 200, `"name":"repository"`},
		{io.NopCloser(strings.NewReader("")), "", 200, `"name":"repository"`}, // its length is not told
		{strings.NewReader("{}"), "application/json", 200, `"name":"repository"`},
		{strings.NewReader(`{"force":true}`), "application/json", 400, `not a field`},
		{strings.NewReader("tar"), "", 200, `"name":"archive tar"`},
		{io.NopCloser(strings.NewReader("tar")), "application/x-tar", 200, `"name":"archive tar"`},
	} {
		resp, body := b.request(t, "POST", "/v1/plugins/plug_1/sync", c.body, "Content-Type", c.kind)
		if resp.StatusCode != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%v as %q: %d %s", c.body, c.kind, resp.StatusCode, body)
		}
	}
}

// What a path names reaches the capability as it is, which refuses it: none of it is cut, cleaned or taken for another part.
func TestNamesOfPathsArriveWhole(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.toolchain.item = func(scope enplace.Scope, key string) (enplace.Item, error) {
		return enplace.Item{}, enplace.NotFoundf("%q %q", scope, key)
	}
	long := strings.Repeat("k", 20_000)
	for path, want := range map[string]string{
		"/v1/items/team:web/node":                   `"team:web" "node"`,
		"/v1/items/team%3Aweb/node":                 `"team:web" "node"`,
		"/v1/items/team:a%2Fb/..%2F..%2Fetc":        `"team:a/b" "../../etc"`,
		"/v1/items/organisation/a%00b":              `"organisation" "a\x00b"`,
		"/v1/items/organisation/%2e%2e":             "",
		"/v1/items/organisation/" + long:            `"organisation" "` + long,
		"/v1/items/person:%E2%80%AEann/%ff":         `"person:\u202eann" "\xff"`,
		"/v1/items/organisation/a/b":                "no route",
		"/v1/items/organisation":                    "no route",
		"/v1/items//node":                           "empty",
		"/v1/scopes/organisation/items/node/choice": "no route",
	} {
		resp, body := b.request(t, "GET", path, nil)
		p := readProblem(t, resp, body)
		if resp.StatusCode != 404 && resp.StatusCode != 400 || !strings.Contains(p.Detail, want) {
			t.Errorf("%.80s: %d %.200s", path, resp.StatusCode, body)
		}
	}
}

func TestEgressOfAScopeWithoutOneIsNotFound(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.toolchain.egress = func() (*enplace.Egress, error) { return nil, nil }
	if _, err := b.client.Egress(t.Context(), "team:web"); enplace.KindOf(err) != enplace.KindNotFound {
		t.Error(err)
	}
	var removed bool
	b.toolchain.putEgress = func(e *enplace.Egress) error {
		removed = e == nil
		return nil
	}
	if err := b.client.DeleteEgress(t.Context(), "team:web"); err != nil || !removed {
		t.Errorf("%v, removed %t", err, removed)
	}
}

// A value of the keychain is in no answer and no log; and since an Idempotency-Key keeps a hash of its request, which a short
// value could be guessed from, none of the value is in that.
func TestKeychainValueLeavesNoTrace(t *testing.T) {
	t.Parallel()
	b := start(t)
	var got []string
	b.toolchain.putSecret = func(name string, in enplace.PutSecret) (enplace.Secret, error) {
		got = append(got, in.Value)
		return enplace.Secret{Name: name}, nil
	}
	put := func(key, value string) (*http.Response, string) {
		return b.request(t, "PUT", "/v1/scopes/organisation/keychain/TOKEN", strings.NewReader(`{"value":"`+value+`"}`), "Idempotency-Key", key)
	}
	for i, c := range []struct {
		key, value string
		status     int
		replayed   string
	}{{"a", "hunter1", 200, ""}, {"a", "hunter1", 200, "true"}, {"a", "hunter2", 200, "true"}, {"a", "longer than that", 422, ""}, {"b", "hunter2", 200, ""}} {
		resp, body := put(c.key, c.value)
		if resp.StatusCode != c.status || resp.Header.Get("Idempotency-Replayed") != c.replayed || strings.Contains(body, "hunter") {
			t.Errorf("%d: %d %v %s", i, resp.StatusCode, resp.Header, body)
		}
		b.logLine(t, resp.Header.Get("X-Request-Id"))
	}
	if len(got) != 2 || got[0] != "hunter1" || got[1] != "hunter2" || strings.Contains(b.log.String(), "hunter") {
		t.Errorf("%q", got)
	}
}

func TestExecInAConversation(t *testing.T) {
	t.Parallel()
	b := start(t)
	killed := make(chan struct{})
	notices := []enplace.Notice{{Kind: enplace.NoticeFailed, Message: "m", Items: []enplace.NoticedItem{{Key: "k", Scope: "organisation", ErrorTail: "t"}}}}
	var got enplace.ConversationExec
	b.computers.exec = func(ctx context.Context, in enplace.ConversationExec, each func(enplace.ConversationEvent) error) (enplace.ConversationResult, error) {
		got = in
		if each == nil {
			return enplace.ConversationResult{ExecResult: enplace.ExecResult{Stdout: in.Stdin, ExitCode: 3}, Notices: notices}, nil
		}
		if in.Command[0] == "refused" {
			return enplace.ConversationResult{}, enplace.Errorf(enplace.KindBusy, "full")
		}
		for _, e := range []enplace.ConversationEvent{{Progress: "installing"}, {Stream: "stderr", Data: "out"}} {
			if err := each(e); err != nil {
				return enplace.ConversationResult{}, err
			}
		}
		switch in.Command[0] {
		case "break":
			return enplace.ConversationResult{}, enplace.Conflictf("stopped")
		case "hang":
			<-ctx.Done()
			close(killed)
			return enplace.ConversationResult{}, ctx.Err()
		}
		return enplace.ConversationResult{ExecResult: enplace.ExecResult{ExitCode: 4}, Notices: notices}, nil
	}
	resp, body := b.request(t, "POST", "/v1/conversations/c/exec", strings.NewReader(`{"command":["cat"],"stdin":"in","env":{"A":"1"},"cwd":"/tmp","timeout":5,"trigger":"person"}`))
	want := `{"exit_code":3,"stdout":"in","stderr":"","duration_ms":0,"notices":[{"kind":"failed_items","message":"m","items":[{"key":"k","scope":"organisation","error_tail":"t"}],"more":0}]}` + "\n"
	if resp.StatusCode != 200 || body != want || got.Trigger != enplace.TriggerPerson || got.Env["A"] != "1" || got.Timeout != 5 {
		t.Errorf("%d %s, of %+v", resp.StatusCode, body, got)
	}
	for _, wrong := range []string{`{"command":[]}`, `{"command":["x"],"trigger":"nobody"}`, `{"command":["x"],"timeout":-1}`, `{"command":"x"}`, `{}`} {
		if resp, body := b.request(t, "POST", "/v1/conversations/c/exec", strings.NewReader(wrong)); resp.StatusCode != 422 {
			t.Errorf("%s: %d %s", wrong, resp.StatusCode, body)
		}
	}
	run := func(command string) (string, enplace.ConversationResult, error) {
		var seen strings.Builder
		in := enplace.ConversationExec{ExecRequest: enplace.ExecRequest{Command: []string{command}}}
		r, err := b.client.ExecConversationStream(t.Context(), "c", in, func(e enplace.ConversationEvent) error {
			fmt.Fprintf(&seen, "[%s%s %s]", e.Progress, e.Stream, e.Data)
			if command == "hang" && e.Data != "" {
				return errors.New("enough")
			}
			return nil
		})
		return seen.String(), r, err
	}
	if seen, r, err := run("ok"); seen != "[installing ][stderr out]" || r.ExitCode != 4 || len(r.Notices) != 1 || err != nil {
		t.Errorf("%q %+v %v", seen, r, err)
	}
	if _, _, err := run("refused"); enplace.KindOf(err) != enplace.KindBusy {
		t.Errorf("before the first line: %v", err)
	}
	if seen, _, err := run("break"); seen == "" || enplace.KindOf(err) != enplace.KindConflict {
		t.Errorf("behind the first line: %q %v", seen, err)
	}
	if _, _, err := run("hang"); err == nil || err.Error() != "enough" {
		t.Errorf("of the caller: %v", err)
	}
	<-killed
}

func TestSSHIntoAConversation(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.computers.dial = func() (net.Conn, error) {
		near, far := net.Pipe()
		go io.Copy(far, far)
		return near, nil
	}
	conn, err := b.client.DialConversation(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go fmt.Fprint(conn, "SSH-2.0-x\r\n")
	echo := make([]byte, 11)
	if _, err := io.ReadFull(conn, echo); err != nil || string(echo) != "SSH-2.0-x\r\n" {
		t.Errorf("%q %v", echo, err)
	}
	if resp, body := b.request(t, "GET", "/v1/conversations/c/ssh", nil); resp.StatusCode != 400 || !strings.Contains(body, "enplace computer ssh") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestRetryAnswersComputersAndBundle(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.toolchain.retry = func() (enplace.Bundle, error) { return enplace.Bundle{Status: enplace.BundleBuilding}, nil }
	b.computers.retry = func() (int, error) { return 2, nil }
	if _, body := b.request(t, "POST", "/v1/sets/h/retry", nil); body != `{"computers":2,"bundle":{"status":"building"}}`+"\n" {
		t.Error(body)
	}
	// Who may not know of the set must not learn of it by the computers.
	b.toolchain.retry = func() (enplace.Bundle, error) { return enplace.Bundle{}, enplace.NotFoundf("no") }
	b.computers.retry = func() (int, error) {
		t.Error("the computers were asked")
		return 0, nil
	}
	if _, err := b.client.RetrySet(t.Context(), "h"); enplace.KindOf(err) != enplace.KindNotFound {
		t.Error(err)
	}
}

func TestLogsOfSetsAreFollowed(t *testing.T) {
	t.Parallel()
	b := start(t)
	log, open := newLog(t)
	b.toolchain.log = open
	var asked string
	b.computers.log = func(hash string) (*transcript.Reader, error) {
		asked = hash
		return open()
	}
	var waited time.Duration
	b.toolchain.wait = func(_ context.Context, wait time.Duration) (enplace.Bundle, error) {
		waited = wait
		return enplace.Bundle{Status: enplace.BundleFailed}, nil
	}
	items := []enplace.ComputerItem{{InstalledItem: enplace.InstalledItem{Status: enplace.ItemInstalled}}, {InstalledItem: enplace.InstalledItem{Status: enplace.ItemFailed}}}
	b.computers.get = func() (enplace.Computer, error) {
		return enplace.Computer{Sets: []enplace.ComputerSet{{Hash: "h", Items: items}}}, nil
	}
	fmt.Fprintln(log, "line")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if status, err := b.client.FollowSetLog(t.Context(), "h", &out); err != nil || status != enplace.BundleFailed || out.String() != "line\n" {
		t.Errorf("%s %q %v", status, out.String(), err)
	}
	if status, err := b.client.FollowComputerLog(t.Context(), "room:hall", "h", io.Discard); err != nil || status != enplace.ItemFailed || asked != "h" {
		t.Errorf("%s of %q: %v", status, asked, err)
	}
	if status, err := b.client.FollowComputerLog(t.Context(), "room:hall", "another", io.Discard); err != nil || status != enplace.ItemPending {
		t.Errorf("of a set that the computer has not: %s %v", status, err)
	}
	r, err := b.client.ComputerLog(t.Context(), "person:ann", "h")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if text, err := io.ReadAll(r); err != nil || string(text) != "line\n" {
		t.Errorf("%q %v", text, err)
	}
	if _, err := b.client.Bundle(t.Context(), "h", time.Hour); err != nil || waited != enplace.MaxWait {
		t.Errorf("waited %s: %v", waited, err)
	}
	if resp, body := b.request(t, "GET", "/v1/computers/person:ann/log", nil); resp.StatusCode != 400 || !strings.Contains(body, `"field":"set"`) {
		t.Errorf("without a set: %d %s", resp.StatusCode, body)
	}
	if resp, body := b.request(t, "GET", "/v1/items", nil); resp.StatusCode != 400 || !strings.Contains(body, `"field":"scope"`) {
		t.Errorf("items of no scope: %d %s", resp.StatusCode, body)
	}
}

// The document says of every route with a body what it takes.
func TestDocumentNamesBodies(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody *struct{ Content map[string]json.RawMessage }
		}
	}
	if err := json.Unmarshal(start(t).srv.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	for path, methods := range doc.Paths {
		if put, ok := methods["put"]; ok && (put.RequestBody == nil || len(put.RequestBody.Content) == 0) {
			t.Errorf("PUT %s has no body", path)
		}
	}
	if n := len(doc.Paths["/v1/plugins"]["post"].RequestBody.Content); n != 2 {
		t.Errorf("POST /v1/plugins takes %d types", n)
	}
}
