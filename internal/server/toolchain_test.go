package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"enplace"
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
