package testscript

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"enplace"
	"enplace/enplacetest"
)

// The callers of the table below, in the order of its columns.
var callers = []string{"operator", "ann", "bob", "cy", "agent", "harness"}

// TestWhoMayDoWhatWithToolchains asks every route as everyone. ann and bob are in the team web, which has the room den; the
// conversation ann-1 is ann's, den-1 is in the room, and the agent's key belongs to ann-1. In the table y is yes, f is
// forbidden, a dot is not found, and i is refused for another reason than who asks. Rows that change something come last, and
// leave what the next ones need.
func TestWhoMayDoWhatWithToolchains(t *testing.T) {
	t.Parallel()
	srv := enplacetest.Start(t)
	keys, plugin := household(t, srv)
	set, err := srv.Client.Set(t.Context(), "ann-1")
	if err != nil {
		t.Fatal(err)
	}
	// Of what bob may not see, neither an empty page nor a cursor tells: ann's stand before the room's.
	bob := srv.As(keys[2])
	if l, err := bob.ListConversations(t.Context(), enplace.Page{Limit: 1}); err != nil || len(l.Items) != 1 || l.Items[0].ID != "den-1" || l.Next != "" {
		t.Errorf("bob's conversations: %+v %v", l, err)
	}
	if l, err := bob.ListComputers(t.Context(), enplace.Page{Limit: 1}); err != nil || len(l.Items) != 1 || l.Items[0].ID != "room:den" || l.Next != "" {
		t.Errorf("bob's computers: %+v %v", l, err)
	}
	of := map[string]string{"PLUGIN": plugin, "HASH": set.Hash}
	const run, empty = `{"command":["true"]}`, `{}`
	for _, row := range []struct{ route, body, who string }{
		//                                                          operator, ann, bob, cy, agent, harness
		{"GET /v1/teams", "", "yyyy.."},
		{"GET /v1/teams/web", "", "yyyy.."},
		{"PUT /v1/teams/web", `{"people":["ann","bob"]}`, "yfffff"},
		{"GET /v1/people", "", "yyyy.."},
		{"GET /v1/people/ann", "", "yyyy.."},
		{"PUT /v1/people/dee", "", "yfffff"},
		{"GET /v1/rooms", "", "yyyy.."},
		{"GET /v1/rooms/den", "", "yyyy.."},
		{"PUT /v1/rooms/den", `{"team":"web","internal":true}`, "yfffff"},
		{"GET /v1/conversations", "", "yyyy.."},
		{"GET /v1/conversations/ann-1", "", "yy..y."},
		{"GET /v1/conversations/den-1", "", "yyy..."},
		{"GET /v1/conversations/none", "", "......"},
		{"PUT /v1/conversations/ann-1", `{"kind":"direct","person":"ann"}`, "yy..f."},
		{"PUT /v1/conversations/ann-1", `{"kind":"direct","person":"zed"}`, "i...f."},
		{"PUT /v1/conversations/den-1", `{"kind":"room","room":"den"}`, "yff..."},
		{"GET /v1/conversations/ann-1/set", "", "yy..y."},
		{"GET /v1/conversations/ann-1/set/explain", "", "yy..y."},
		{"GET /v1/conversations/den-1/set/explain", "", "yyy..."},
		{"POST /v1/conversations/ann-1/exec", run, "yy..y."},
		{"POST /v1/conversations/den-1/exec", run, "yyy..."},
		{"GET /v1/conversations/ann-1/ssh", "", "yy..y."},
		{"GET /v1/conversations/den-1/ssh", "", "yyy..."},
		{"POST /v1/conversations/ann-1/set/refresh", empty, "yy..f."},
		{"GET /v1/plugins", "", "yyyy.."},
		{"GET /v1/plugins?scope=team:web", "", "yyyy.."},
		{"GET /v1/plugins?scope=person:ann", "", "yy...."},
		{"GET /v1/plugins/PLUGIN", "", "yyyy.."},
		{"GET /v1/plugins/web", "", "yyyy.."},
		{"GET /v1/plugins/web?scope=team:web", "", "yyyy.."},
		{"GET /v1/plugins/web?scope=person:ann", "", "......"},
		{"GET /v1/plugins/mine", "", "yy...."},
		{"GET /v1/plugins/plug_none", "", "......"},
		{"POST /v1/plugins?scope=team:web&name=x", "x", "ifff.."},
		{"POST /v1/plugins?scope=person:ann&name=x", "x", "ii...."},
		{"POST /v1/plugins/PLUGIN/sync", "", "ifff.."},
		{"POST /v1/plugins/web/sync?scope=team:web", "", "ifff.."},
		{"POST /v1/plugins/mine/sync", "", "ii...."},
		{"GET /v1/items?scope=organisation", "", "yyyy.."},
		{"GET /v1/items?scope=person:ann", "", "yy...."},
		{"GET /v1/items/team:web/greet", "", "yyyy.."},
		{"GET /v1/items/person:ann/greet", "", "......"},
		{"PUT /v1/items/team:web/greet", `{"mode":"added"}`, "yfff.."},
		{"PUT /v1/items/team:web/greet", `{"locked":true}`, "ifff.."},
		{"PUT /v1/scopes/person:ann/items/greet", `{"state":"added"}`, "yy...."},
		{"PUT /v1/scopes/team:web/items/greet", `{"state":"added"}`, "yfff.."},
		{"PUT /v1/scopes/organisation/items/greet", `{"state":"off"}`, ".fff.."},
		{"PUT /v1/scopes/person:ann/egress", `{"policy":"open"}`, "yy...."},
		{"GET /v1/scopes/person:ann/egress", "", "yy...."},
		{"GET /v1/scopes/team:web/egress", "", "......"},
		{"PUT /v1/scopes/organisation/egress", `{"policy":"open"}`, "yfff.."},
		{"DELETE /v1/scopes/organisation/egress", "", "yfff.."},
		{"PUT /v1/scopes/person:ann/keychain/TOKEN", `{"value":"hunter2"}`, "yy...."},
		{"PUT /v1/scopes/team:web/keychain/TOKEN", `{"value":"hunter2"}`, "yfff.."},
		{"GET /v1/scopes/person:ann/keychain", "", "yy...."},
		{"GET /v1/scopes/team:web/keychain", "", "yfff.."},
		{"GET /v1/computers", "", "yyyy.."},
		{"GET /v1/computers/person:ann", "", "yy...."},
		{"GET /v1/computers/room:den", "", "yyy..."},
		{"GET /v1/computers/person:ann/errors", "", "yy...."},
		{"GET /v1/computers/person:ann/log?set=HASH", "", "yy...."},
		{"GET /v1/sets/HASH/bundle", "", "yyyy.."},
		{"GET /v1/sets/HASH/log", "", "yyyy.."},
		{"POST /v1/sets/HASH/retry", empty, "yyyy.."},
		{"GET /v1/sets/" + strings.Repeat("0", 64) + "/bundle", "", "......"},

		// The operator is asked last: what ann may remove is gone by then.
		{"DELETE /v1/scopes/person:ann/egress", "", "yy...."},
		{"DELETE /v1/scopes/person:ann/keychain/TOKEN", "", ".y...."},
		{"DELETE /v1/scopes/team:web/keychain/TOKEN", "", "yfff.."},
		{"POST /v1/computers/room:den/stop", "", "yyy..."},
		{"POST /v1/computers/person:ann/stop", "", "yy...."},
		{"DELETE /v1/computers/room:den", "", "yff..."},
		{"DELETE /v1/computers/person:ann", "", ".y...."},
		{"DELETE /v1/plugins/mine", "", ".y...."},
		{"DELETE /v1/plugins/PLUGIN", "", "yfff.."},
		{"DELETE /v1/conversations/den-1", "", "yff..."},
		{"DELETE /v1/conversations/ann-1", "", ".y..f."},
		{"DELETE /v1/rooms/den", "", "yfffff"},
		{"DELETE /v1/people/dee", "", "yfffff"},
		{"DELETE /v1/teams/web", "", "yfffff"},
	} {
		method, path, _ := strings.Cut(row.route, " ")
		for word, value := range of {
			path = strings.ReplaceAll(path, word, value)
		}
		got := make([]byte, len(callers))
		for i := len(callers) - 1; i >= 0; i-- { // the operator last
			got[i] = answer(t, srv.URL, method, path, row.body, keys[i])
		}
		if string(got) != row.who {
			t.Errorf("%-48s is %s, and must be %s (%s)", row.route+" "+row.body, got, row.who, strings.Join(callers, " "))
		}
	}
}

// household makes who and what the table is about, and gives the callers' keys and the plugin's id.
func household(t *testing.T, srv *enplacetest.Server) (keys []string, plugin string) {
	t.Helper()
	for _, args := range [][]string{
		{"team", "put", "web", "--person", "ann", "--person", "bob"},
		{"person", "put", "cy"},
		{"room", "put", "den", "--team", "web", "--internal"},
		{"conversation", "put", "ann-1", "--person", "ann"},
		{"conversation", "put", "den-1", "--room", "den"},
		{"harness", "create", "any"},
		{"plugin", "add", "team:web", "web", "plugin"},
		{"plugin", "add", "person:ann", "mine", "own"},
		{"computer", "exec", "ann-1", "-n", "--", "greet"},
		{"computer", "exec", "den-1", "-n", "--", "greet"},
	} {
		out, err := srv.Command(t.Context(), args...).Output()
		if err != nil {
			t.Fatalf("enplace %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		switch id := strings.TrimSpace(string(out)); args[0] {
		case "plugin":
			plugin = cmp.Or(plugin, id) // the team's
		case "harness":
			keys = []string{id}
		}
	}
	harness := keys[0]
	keys = []string{srv.Key}
	for _, k := range []enplace.CreateKey{
		{Kind: enplace.KeyPerson, Subject: "ann"}, {Kind: enplace.KeyPerson, Subject: "bob"}, {Kind: enplace.KeyPerson, Subject: "cy"},
		{Kind: enplace.KeyAgent, Subject: "conversation:ann-1"}, {Kind: enplace.KeyHarness, Subject: harness},
	} {
		k.Name = "of " + k.Subject
		made, err := srv.Client.CreateKey(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, made.Secret)
	}
	return keys, plugin
}

// answer asks, and gives the letter of the table for what came.
func answer(t *testing.T, url, method, path, body, key string) byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if strings.HasSuffix(path, "/ssh") {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "enplace-ssh")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return 'y' // and what follows does not end by itself
	}
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case resp.StatusCode < 300:
		return 'y'
	case resp.StatusCode == http.StatusForbidden:
		return 'f'
	case resp.StatusCode == http.StatusNotFound:
		return '.'
	case resp.StatusCode < 500:
		return 'i'
	}
	t.Error(fmt.Sprint(method, " ", path, ": ", resp.StatusCode, " ", string(said)))
	return '5'
}

// TestHostileNamesAreRefused puts names that no thing has, or that would lead elsewhere, into every place of a path and a query:
// each is refused for what it is, and none is a failure of the server's.
func TestHostileNamesAreRefused(t *testing.T) {
	t.Parallel()
	srv := enplacetest.Start(t)
	household(t, srv)
	long := strings.Repeat("k", 8000)
	names := []string{"a%2Fb", "..%2F..%2Fetc%2Fpasswd", "%00", "a%00b", "%ff%fe", "%E2%80%AEgpj", "%1b%5B2J", "A", "-a", "a'%20OR%201=1--", "%25s%25n", "_", "*", "web%0A", long, "team:", "team:a%2Fb",
		"person:..%2Fx", "organisation%00", "team:team:web", "room:..%2F..%2F", "person:" + long}
	bodies := map[string]string{
		"/v1/teams/{}": `{"people":[]}`, "/v1/people/{}": ``, "/v1/rooms/{}": `{}`, "/v1/conversations/{}": `{"kind":"room","room":"den"}`,
		"/v1/conversations/{}/exec": `{"command":["true"]}`, "/v1/conversations/{}/set/refresh": ``, "/v1/plugins/{}/sync": ``, "/v1/plugins?name=x&scope={}": `x`, "/v1/plugins?scope=team:web&name={}": `x`,
		"/v1/items/team:web/{}": `{"mode":"added"}`, "/v1/items/{}/greet": `{"mode":"added"}`, "/v1/scopes/team:web/items/{}": `{"state":"off"}`, "/v1/scopes/{}/items/greet": `{"state":"off"}`,
		"/v1/scopes/{}/egress": `{"policy":"open"}`, "/v1/scopes/{}/keychain/X": `{"value":"x"}`, "/v1/scopes/team:web/keychain/{}": `{"value":"x"}`, "/v1/sets/{}/retry": ``,
	}
	keychain := "/v1/scopes/team:web/keychain/{}"
	for _, route := range []string{
		"PUT /v1/teams/{}", "GET /v1/teams/{}", "DELETE /v1/teams/{}", "PUT /v1/people/{}", "GET /v1/people/{}", "DELETE /v1/people/{}", "PUT /v1/rooms/{}", "GET /v1/rooms/{}", "DELETE /v1/rooms/{}",
		"PUT /v1/conversations/{}", "GET /v1/conversations/{}", "DELETE /v1/conversations/{}", "GET /v1/conversations/{}/set", "GET /v1/conversations/{}/set/explain", "POST /v1/conversations/{}/set/refresh",
		"POST /v1/conversations/{}/exec", "GET /v1/conversations/{}/ssh", "GET /v1/plugins?scope={}", "GET /v1/plugins/{}", "GET /v1/plugins/web?scope={}", "POST /v1/plugins/{}/sync", "DELETE /v1/plugins/{}",
		"POST /v1/plugins?name=x&scope={}", "POST /v1/plugins?scope=team:web&name={}", "GET /v1/items?scope={}", "GET /v1/items/team:web/{}", "PUT /v1/items/team:web/{}", "GET /v1/items/{}/greet",
		"PUT /v1/items/{}/greet", "PUT /v1/scopes/team:web/items/{}", "PUT /v1/scopes/{}/items/greet", "PUT /v1/scopes/{}/egress", "GET /v1/scopes/{}/egress", "DELETE /v1/scopes/{}/egress",
		"PUT /v1/scopes/{}/keychain/X", "PUT " + keychain, "GET /v1/scopes/{}/keychain", "DELETE " + keychain, "GET /v1/computers/{}", "GET /v1/computers/{}/errors",
		"GET /v1/computers/{}/log?set=" + strings.Repeat("0", 64), "GET /v1/computers/person:ann/log?set={}", "POST /v1/computers/{}/stop", "DELETE /v1/computers/{}", "POST /v1/sets/{}/retry", "GET /v1/sets/{}/log", "GET /v1/sets/{}/bundle",
	} {
		method, path, _ := strings.Cut(route, " ")
		for _, name := range names {
			if path == keychain && (name == "A" || name == "_") { // these are names of variables
				continue
			}
			body := ""
			if method != http.MethodGet && method != http.MethodDelete {
				body = bodies[path]
			}
			if got := answer(t, srv.URL, method, strings.ReplaceAll(path, "{}", name), body, srv.Key); got != 'i' && got != '.' {
				t.Errorf("%s with %.60s: %c", route, name, got)
			}
		}
	}
	if log := srv.Log(); strings.Contains(log, `"ERROR"`) {
		t.Errorf("the server failed:\n%s", log)
	}
}
