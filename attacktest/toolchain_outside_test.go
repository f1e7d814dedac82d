package attacktest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace"
)

// Through the API and /mcp, with the keys of people and of agents.
func TestToolchainOutside(t *testing.T) {
	t.Parallel()
	l := newLab(t, "--git-http", "--allow-address="+gitAddress+"/32", "--sync-every=1s")
	for name, attack := range map[string]func(*testing.T, *lab){
		"Strangers": strangers, "TakenNames": takenNames, "LeftTeams": leftTeams, "HostilePlugins": hostilePlugins, "PluginSources": pluginSources,
		"Bounds": bounds, "AgentsDoor": agentsDoor, "CallersOwnRequests": callersOwnRequests, "SlowRepositories": slowRepositories,
	} {
		t.Run(name, func(t *testing.T) { attack(t, l) })
	}
	l.checkLog(t)
}

// Every route that names a person's scope, plugin, conversation or computer answers another person as for what is not there.
func strangers(t *testing.T, l *lab) {
	alice, bob := l.resident(t, "s-alice"), l.resident(t, "s-bob")
	plugin := attach(t, alice.api, alice.scope(), "own", item("alices-own", "true\n", ""))
	if _, err := alice.api.PutSecret(t.Context(), alice.scope(), "TOKEN", enplace.PutSecret{Value: "alice-was-here"}); err != nil {
		t.Fatal(err)
	}
	alice.want("echo alice-was-here", "alice-was-here\n")
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal([]byte(l.ask(t, "", "GET", "/openapi.json", "").body), &doc); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"/v1/plugins?scope=", "/v1/items?scope="} {
		doc.Paths[query+"{scope}"] = map[string]struct{ OperationID string }{"get": {}}
	}
	type pair struct{ own, absent string }
	ids := map[string]pair{
		"/v1/plugins/{id}": {plugin.ID, enplace.NewID(enplace.PrefixPlugin, time.Now())}, "/v1/conversations/{id}": {alice.conv, "with-nobody"},
		"/v1/computers/{id}": {alice.computer(), "person:nobody"}, "{scope}": {string(alice.scope()), "person:nobody"},
	}
	bodies := map[string]string{
		"put-conversation": `{"kind": "direct", "person": "s-alice"}`, "exec-conversation": `{"command": ["true"]}`, "put-choice": `{"state": "added"}`,
		"put-egress": `{"policy": "open"}`, "put-secret": `{"value": "value of another"}`, "update-item": `{"enabled": false}`, "refresh-set": "{}", "sync-plugin": "",
	}
	routes := 0
	for path, methods := range doc.Paths {
		for part, id := range ids {
			if !strings.Contains(path, part) || part == "{scope}" && strings.Contains(path, "/{id}") {
				continue
			}
			hash := strings.Repeat("0", 64)
			at := func(id string) string {
				p := strings.NewReplacer("{id}", id, "{scope}", id, "{key}", "alices-own", "{name}", "TOKEN").Replace(path)
				if strings.HasSuffix(path, "/log") {
					p += "?set=" + hash
				}
				return p
			}
			for method, op := range methods {
				routes++
				header := []string{"Content-Type", "application/json"}
				if strings.HasSuffix(path, "/ssh") {
					header = []string{"Upgrade", "enplace-ssh", "Connection", "Upgrade"}
				}
				foreign := l.ask(t, bob.secret, strings.ToUpper(method), at(id.own), bodies[op.OperationID], header...)
				nothing := l.ask(t, bob.secret, strings.ToUpper(method), at(id.absent), bodies[op.OperationID], header...)
				clean := func(r reply, id string) string {
					return requestID.ReplaceAllString(strings.ReplaceAll(r.body, id, "ID"), "REQ")
				}
				if foreign.status != http.StatusNotFound || nothing.status != foreign.status || clean(foreign, id.own) != clean(nothing, id.absent) {
					t.Errorf("%s %s: %d %s\nwhat is not there: %d %s", method, path, foreign.status, foreign.body, nothing.status, nothing.body)
				}
			}
		}
	}
	if routes < 25 {
		t.Errorf("only %d routes were tried", routes)
	}
	for _, path := range []string{"/v1/conversations", "/v1/conversations?limit=1", "/v1/computers", "/v1/computers?limit=1", "/v1/plugins?scope=organisation", "/v1/items?scope=person:s-bob", "/v1/conversations?cursor=" + alice.conv} {
		if r := l.ask(t, bob.secret, "GET", path, ""); strings.Contains(r.body, "s-alice") || strings.Contains(r.body, "alices-own") {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	for _, path := range []string{"/v1/plugins?scope=person:s-alice&name=x", "/v1/plugins?scope=organisation&name=x"} {
		if r := l.ask(t, bob.secret, "POST", path, tree(item("x", "true\n", "")).String()); r.status != http.StatusNotFound && r.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	// The hash of a set is all that its bundle is known by, and alice's is in nothing that bob can ask for.
	set, err := alice.api.Set(t.Context(), alice.conv)
	if err != nil {
		t.Fatal(err)
	}
	if own, err := bob.api.Set(t.Context(), bob.conv); err != nil || own.Hash == set.Hash {
		t.Errorf("%v %s", err, own.Hash)
	}
}

// Names come free and are given again. Whoever had one before has nothing of the next, and two who want one at once do not share it.
func takenNames(t *testing.T, l *lab) {
	alice, bob := l.resident(t, "n-alice"), l.resident(t, "n-bob")
	direct := func(r *resident) enplace.PutConversation {
		return enplace.PutConversation{Kind: enplace.ConversationDirect, Person: r.login}
	}
	if _, err := alice.api.PutConversation(t.Context(), "standup", direct(alice)); err != nil {
		t.Fatal(err)
	}
	agent := l.secretOf(t, enplace.KeyAgent, "conversation:standup")
	if r := l.ask(t, agent, "GET", "/v1/conversations/standup", ""); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if _, err := bob.api.PutConversation(t.Context(), "standup", direct(bob)); enplace.KindOf(err) != enplace.KindNotFound {
		t.Errorf("bob took a conversation over: %v", err)
	}
	for _, in := range []enplace.PutConversation{direct(bob), {Kind: enplace.ConversationDirect, Person: "n-alice", Team: "none"}, {Kind: enplace.ConversationRoom, Person: "n-alice", Room: "none"}, {Kind: "", Person: "n-alice"}} {
		if _, err := alice.api.PutConversation(t.Context(), "standup", in); err == nil {
			t.Errorf("alice made of it %+v", in)
		}
	}
	if err := alice.api.DeleteConversation(t.Context(), "standup"); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.api.PutConversation(t.Context(), "standup", direct(bob)); err != nil {
		t.Fatal(err)
	}
	for _, r := range []reply{
		l.ask(t, agent, "GET", "/v1/conversations/standup", ""), l.ask(t, agent, "POST", "/v1/conversations/standup/exec", `{"command": ["id"]}`), l.ask(t, agent, "GET", "/v1/whoami", ""),
	} {
		if r.status < 400 {
			t.Errorf("the agent of the conversation that was has the next of its name: %d %s", r.status, r.body)
		}
	}
	for i := range 20 {
		var group sync.WaitGroup
		errs := make([]error, 2)
		for n, r := range []*resident{alice, bob} {
			group.Go(func() {
				_, errs[n] = r.api.PutConversation(context.Background(), fmt.Sprintf("race-%d", i), direct(r))
			})
		}
		group.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Errorf("of two who made a conversation of one name at once: %v, %v", errs[0], errs[1])
		}
	}
}

// Who leaves a team has nothing of it any more: neither its rooms nor what its scope declares, nor its keychain.
func leftTeams(t *testing.T, l *lab) {
	eve := l.resident(t, "t-eve", "t-inner")
	inner := enplace.TeamScope("t-inner")
	attach(t, l.Client, inner, "inner", item("inner", "true\n", ""))
	for scope, name := range map[enplace.Scope]string{inner: "INNER", eve.scope(): "OWN"} {
		if _, err := l.Client.PutSecret(t.Context(), scope, name, enplace.PutSecret{Value: "value-of-the-keychain"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Client.PutRoom(t.Context(), "t-den", enplace.PutRoom{Team: "t-inner"}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Client.PutConversation(t.Context(), "t-den", enplace.PutConversation{Kind: enplace.ConversationRoom, Room: "t-den"}); err != nil {
		t.Fatal(err)
	}
	eve.want("echo ${INNER:+inner} ${OWN:+own}", "inner own\n")
	if r := eve.in("t-den", "echo ${INNER:+inner} ${OWN:+own}", 60); r.Stdout != "inner\n" {
		t.Errorf("in the room: %q", r.Stdout)
	}
	if _, err := l.Client.PutTeam(t.Context(), "t-inner", enplace.PutTeam{People: []string{}}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/conversations/t-den", "/v1/conversations/t-den/set", "/v1/computers/room:t-den", "/v1/computers/room:t-den/errors", "/v1/conversations/t-den/set/explain"} {
		if r := l.ask(t, eve.secret, "GET", path, ""); r.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if r := l.ask(t, eve.secret, "POST", "/v1/conversations/t-den/exec", `{"command": ["true"]}`); r.status != http.StatusNotFound {
		t.Errorf("%d %s", r.status, r.body)
	}
	eve.want("echo ${INNER:+inner} ${OWN:+own}", "own\n")
	if set, err := eve.api.Set(t.Context(), eve.conv); err != nil || len(set.Items) != 0 {
		t.Errorf("%+v %v", set.Items, err)
	}
}

// Plugins of all kinds of malice: each is refused with its findings, or taken as what it is. Nothing of them runs or is followed on
// the host, and no answer commands a terminal.
func hostilePlugins(t *testing.T, l *lab) {
	p := l.resident(t, "p-mallory")
	pwned := filepath.Join(t.TempDir(), "pwned")
	const esc = "\x1b]0;owned\x07\x1b[31m\u202e"
	with := func(files ...string) map[string]string {
		all := item("good", "true\n", "")
		for i := 0; i+1 < len(files); i += 2 {
			all["environments/"+files[i]] = files[i+1]
		}
		return all
	}
	many := map[string]string{}
	for i := range 250 {
		maps.Copy(many, item(fmt.Sprintf("i%03d", i), "true\n", ""))
	}
	shell := "{{ exec(command='touch " + pwned + "') }}"
	for name, files := range map[string]map[string]string{
		"escapes":  with("bad/environment.json", `{"name": "\u001b[31mx", "description": "\u001b]0;owned\u0007"}`, "bad/setup.sh", "true"),
		"folders":  with(esc+"/environment.json", `{"description": "x"}`, esc+"/setup.sh", "true", "good/"+esc+".txt", "x"),
		"contents": with("bad/environment.json", `{"description": "x"}`, "bad/mise.toml", "[tools]\n\""+esc+"\" = \""+esc+"\"\nnode = \""+esc+"\"\n"),
		"syntax":   with("bad/environment.json", esc, "bad/mise.toml", esc),
		"commands": with("bad/environment.json", `{"description": "x"}`, "bad/mise.toml", "[tools]\nnode = \""+shell+"\"\n\"npm:$(touch "+pwned+")\" = \"1\"\n[env]\nX = \""+shell+"\"\n_.source = \"setup.sh\"\n[hooks]\nenter = \"touch "+pwned+"\"\n"),
		"deep":     with("bad/environment.json", strings.Repeat("[", 300_000), "bad/mise.toml", "a = "+strings.Repeat("[", 300_000)),
		"objects":  with("bad/environment.json", strings.Repeat(`{"name":`, 100_000), "bad/mise.toml", strings.Repeat("[a.b.c.d.e.f.g]\n", 50_000)),
		"numbers":  with("bad/environment.json", `{"name": `+strings.Repeat("9", 500_000)+`}`, "bad/mise.toml", "[tools]\nnode = "+strings.Repeat("9", 500_000)),
		"dotted":   with("bad/environment.json", `{"description": "x"}`, "bad/mise.toml", strings.Repeat("a.", 200_000)+"a = 1"),
		"anchors":  with("bad/environment.yaml", "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", "bad/environment.json", `{"description": "x"}`, "bad/mise.toml", "a: &a [x]"),
		"tools":    with("bad/environment.json", `{"description": "x"}`, "bad/mise.toml", "[tools]\n"+strings.Repeat("x", 500_000)+" = \"1\"\n"),
		"large":    with("bad/environment.json", `{"description": "x"}`, "bad/setup.sh", strings.Repeat("#", 1<<20)),
		"binary":   with("bad/environment.json", `{"description": "x"}`, "bad/setup.sh", "\x7fELF\x00\x00"),
		"dotenv":   with("bad/environment.json", `{"description": "x"}`, "bad/setup.sh", "true", "bad/.env", "TOKEN=x"),
		"many":     many,
		"manifest": maps.Collect(maps.All(map[string]string{"plugin.json": `{"name": "\u001b[31m", "environments": "../../../etc", "path": "/etc"}`, "environments/good/environment.json": `{"description": "x"}`, "environments/good/setup.sh": "true"})),
		"names":    with("../out/environment.json", "{}", "/etc/x/environment.json", "{}", "organisation/environment.json", `{"name": "../../etc", "description": "x"}`, "organisation/setup.sh", "true"),
	} {
		start := time.Now()
		r := l.ask(t, p.secret, "POST", "/v1/plugins?scope=person:p-mallory&name=p-"+name, tree(files).String())
		if r.status >= 500 || r.status == 0 || time.Since(start) > 30*time.Second {
			t.Errorf("%s: %d %.400s after %s", name, r.status, r.body, time.Since(start))
		}
		shownOnly(t, name, r.body)
		var made enplace.Plugin
		if r.status == http.StatusCreated && json.Unmarshal([]byte(r.body), &made) == nil {
			for _, key := range made.Items {
				if enplace.CheckHandle("key", key) != nil {
					t.Errorf("%s has an item %q", name, key)
				}
				shownOnly(t, name, l.ask(t, p.secret, "GET", "/v1/items/person:p-mallory/"+key, "").body)
			}
			shownOnly(t, name, l.ask(t, p.secret, "GET", "/v1/conversations/"+p.conv+"/set/explain", "").body)
			shownOnly(t, name, l.ask(t, p.secret, "GET", "/v1/items?scope=person:p-mallory", "").body)
			for _, args := range [][]string{{"plugin", "show", made.ID}, {"item", "list", "--scope", "person:p-mallory"}, {"set", "explain", p.conv}} {
				shownOnly(t, name, printed(t, l, args...))
			}
			if err := p.api.DeletePlugin(t.Context(), made.ID); err != nil {
				t.Error(err)
			}
		}
		if name == "folders" || name == "escapes" || name == "contents" || name == "syntax" || name == "commands" {
			shownOnly(t, "check of "+name, printed(t, l, "plugin", "check", spread(t, files)))
		}
	}
	if hostHas(pwned) {
		t.Error("a plugin's mise.toml ran a command on the host")
	}
}

// spread writes files below a new folder, as far as a file system takes their names.
func spread(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.Clean("/"+name))
		if os.MkdirAll(filepath.Dir(path), 0o700) == nil {
			_ = os.WriteFile(path, []byte(text), 0o600) // likewise
		}
	}
	return dir
}

// printed gives what the command line prints, however it ends.
func printed(t *testing.T, l *lab, args ...string) string {
	t.Helper()
	out, _ := l.Command(t.Context(), args...).CombinedOutput() // some must fail
	return string(out)
}

// shownOnly fails for a text that commands a terminal, or turns the direction of reading, in JSON as well.
func shownOnly(t *testing.T, what, text string) {
	t.Helper()
	for _, bad := range []string{"\x1b", `\u001b`, `\u0007`, "\a", "\u202e", `\u202e`, "\u009b"} {
		if at := strings.Index(text, bad); at >= 0 {
			t.Errorf("%s: %.100q", what, text[max(0, at-60):])
			return
		}
	}
}

// Repositories that would run something, lie on the host, or at an address that nobody may reach.
func pluginSources(t *testing.T, l *lab) {
	p := l.resident(t, "g-mallory")
	pwned := filepath.Join(t.TempDir(), "pwned")
	for _, src := range []enplace.PluginSource{
		{GitURL: "ext::sh -c 'touch " + pwned + "'"}, {GitURL: "file:///etc"}, {GitURL: "/etc"}, {GitURL: "--upload-pack=touch " + pwned}, {GitURL: "https://169.254.169.254/latest"},
		{GitURL: "https://127.0.0.1/x.git"}, {GitURL: l.URL + "/x.git"}, {GitURL: "https://[::1]/x.git"}, {GitURL: "https://localhost/x.git"}, {GitURL: "ssh://git@example.org/x.git"},
		{GitURL: "https://user:password@example.org/x.git"}, {GitURL: "https://example.invalid/x.git", Ref: "--output=" + pwned}, {GitURL: "https://example.invalid/x.git", Path: "../../etc"},
		{GitURL: "https://example.invalid/x.git", Path: "/etc"}, {GitURL: "https://example.invalid/x.git\n[core]\nsshCommand=touch " + pwned}, {},
	} {
		_, err := p.api.CreatePlugin(t.Context(), enplace.CreatePlugin{Scope: p.scope(), Name: "git", Source: src})
		if kind := enplace.KindOf(err); err == nil || kind == enplace.KindInternal {
			t.Errorf("%+v: %v", src, err)
		}
	}
	if hostHas(pwned) {
		t.Error("a repository's address ran a command")
	}
}

// What one person can have kept is bounded, where it costs everybody: each set, each command and each log looks at all of it.
func bounds(t *testing.T, l *lab) {
	p := l.resident(t, "b-mallory")
	hosts := make([]string, 40_000)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("h%d.example.org", i)
	}
	if _, err := p.api.PutEgress(t.Context(), p.scope(), enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: hosts}); enplace.KindOf(err) != enplace.KindInvalid {
		t.Errorf("%d hosts: %v", len(hosts), err)
	}
	if _, err := p.api.CreateHarness(t.Context(), enplace.CreateHarness{Name: "x", Egress: &enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: hosts}}); enplace.KindOf(err) != enplace.KindInvalid {
		t.Errorf("%d hosts of a harness: %v", len(hosts), err)
	}
	put := func(name, value string) error {
		_, err := p.api.PutSecret(t.Context(), p.scope(), name, enplace.PutSecret{Value: value})
		return err
	}
	taken := 0
	for i := range 105 {
		if put(fmt.Sprintf("V%d", i), "the value") == nil {
			taken++
		}
	}
	if taken != 100 {
		t.Errorf("the keychain took %d values", taken)
	}
	for i := range 100 {
		if err := put(fmt.Sprintf("V%d", i), strings.Repeat("x", 60_000)); err != nil {
			if i < 3 || enplace.KindOf(err) != enplace.KindTooLarge {
				t.Errorf("value %d: %v", i, err)
			}
			break
		} else if i > 10 {
			t.Error("the keychain takes values without end")
			break
		}
	}
	large := strings.Repeat("#", 1_000_000)
	for i := range 20 {
		_, err := p.api.CreatePluginArchive(t.Context(), p.scope(), fmt.Sprintf("large-%d", i), tree(item(fmt.Sprintf("large-%d", i), large, "")))
		if (err == nil) != (i < 16) || err != nil && enplace.KindOf(err) != enplace.KindTooLarge {
			t.Errorf("item %d of 1 MB: %v", i, err)
		}
	}
	if n := memory(t, l); n > 1<<30 {
		t.Errorf("the server holds %d MiB", n>>20)
	}
}

// An Idempotency-Key of another's gives nothing of the other's answer.
func callersOwnRequests(t *testing.T, l *lab) {
	alice, bob := l.resident(t, "i-alice"), l.resident(t, "i-bob")
	for _, r := range []struct {
		of   *resident
		path string
	}{{alice, "/v1/plugins?scope=person:i-alice&name=x"}, {bob, "/v1/plugins?scope=person:i-bob&name=x"}} {
		got := l.ask(t, r.of.secret, "POST", r.path, tree(item("x-of-"+r.of.login, "true\n", "")).String(), "Idempotency-Key", "the-same")
		if got.status != http.StatusCreated || !strings.Contains(got.body, "x-of-"+r.of.login) {
			t.Errorf("%s: %d %s", r.path, got.status, got.body)
		}
	}
	const body = `{"value": "sealed-in-the-keychain"}`
	for range 2 {
		if r := l.ask(t, alice.secret, "PUT", "/v1/scopes/person:i-alice/keychain/X", body, "Idempotency-Key", "sealed"); r.status >= 500 || strings.Contains(r.body, "sealed-in") {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if bytesOnDisk(t, l, "sealed-in-the-keychain") {
		t.Error("a value lies open on the server's disk")
	}
}

// bytesOnDisk reports whether a text stands in any file of the data directory that is no image: the database and its log, records, logs.
func bytesOnDisk(t *testing.T, l *lab, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(l.Data, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return nil // it went meanwhile
		}
		if d.IsDir() && (d.Name() == "images" || d.Name() == "sandboxes" || d.Name() == "base") {
			return filepath.SkipDir
		}
		if b, err := os.ReadFile(path); d.Type().IsRegular() && err == nil && strings.Contains(string(b), text) {
			t.Logf("in %s", path)
			found = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// /mcp is the API with the key that it is given: it tells nothing without one, and leads nowhere else.
func agentsDoor(t *testing.T, l *lab) {
	alice, bob := l.resident(t, "m-alice"), l.resident(t, "m-bob")
	agent := l.secretOf(t, enplace.KeyAgent, "conversation:"+bob.conv)
	rpc := func(method, params string) string {
		return `{"jsonrpc": "2.0", "id": 1, "method": "` + method + `", "params": ` + params + `}`
	}
	hello := rpc("initialize", `{"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}`)
	run := rpc("tools/call", `{"name": "run_command", "arguments": {"command": "id"}}`)
	header := []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	at := func(query string) string { return "/mcp?conversation=" + query }
	for _, key := range []string{"", "junk", l.Key + "x", "enp_" + strings.Repeat("0", 40)} {
		for _, path := range []string{"/mcp", at(alice.conv), "/mcp?task=task_x"} {
			for _, body := range []string{hello, run, strings.Repeat("x", 1<<20)} {
				if r := l.ask(t, key, "POST", path, body, header...); r.status != http.StatusUnauthorized || strings.Contains(r.body, "run_command") {
					t.Errorf("%s with %.10q: %d %.300s", path, key, r.status, r.body)
				}
			}
		}
	}
	for _, key := range []string{bob.secret, agent} {
		for _, conv := range []string{alice.conv, "with-m-alice/../with-m-alice", "../conversations/" + alice.conv, "..%2f..%2fkeys", "%2e%2e", alice.conv + "%00", "%3Fx", "%23", strings.Repeat("x", 5000)} {
			for _, body := range []string{run, rpc("tools/call", `{"name": "toolchain", "arguments": {}}`), rpc("resources/read", `{"uri": "enplace://instructions"}`),
				rpc("tools/call", `{"name": "read_file", "arguments": {"path": "/etc/passwd"}}`)} {
				r := l.ask(t, key, "POST", at(conv), body, header...)
				if strings.Contains(r.body, "uid=0") || strings.Contains(r.body, "root:x:0") || strings.Contains(r.body, "# Your computer") || r.status >= 500 {
					t.Errorf("%s: %d %.300s", conv, r.status, r.body)
				}
			}
		}
	}
	for _, path := range []string{"/etc/../../../../" + l.Data + "/operator.key", l.Data + "/operator.key", "/proc/1/root" + l.Data + "/operator.key", "$(id)", "-n", "/-n", "/tmp/$(touch /tmp/pwned)", "/tmp/a\nb", "/dev/zero", "/proc/kmsg", strings.Repeat("/x", 3000)} {
		quoted, err := json.Marshal(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range []string{"read_file", "list_files", "write_file"} {
			r := l.ask(t, agent, "POST", "/mcp", rpc("tools/call", `{"name": "`+tool+`", "arguments": {"path": `+string(quoted)+map[string]string{"write_file": `, "content": "x"`}[tool]+`}}`), header...)
			if r.status != http.StatusOK || strings.Contains(r.body, "enp_") {
				t.Errorf("%s of %.60q: %d %.300s", tool, path, r.status, r.body)
			}
		}
	}
	bob.want("ls /tmp/pwned 2>/dev/null; true", "")
	for name, r := range map[string]reply{
		"a page of another site": l.ask(t, agent, "POST", "/mcp", run, append(header, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")...),
		"another host's name":    l.ask(t, "", "POST", "/mcp", run, append(header, "Origin", "http://evil.example")...),
		"a giant body":           l.ask(t, agent, "POST", "/mcp", rpc("tools/call", `{"name": "run_command", "arguments": {"command": "`+strings.Repeat("x", 9<<20)+`"}}`), header...),
		"nesting":                l.ask(t, agent, "POST", "/mcp", strings.Repeat(`[`, 1<<20), header...),
		"a stream":               l.ask(t, agent, "GET", "/mcp", "", header...),
		"below it":               l.ask(t, agent, "POST", "/mcp/../v1/keys", `{"name": "x", "kind": "operator"}`, header...),
		"beside it":              l.ask(t, agent, "POST", "//mcp", run, header...),
		"two requests in one": l.raw(t, "POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+agent+"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
			"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+l.Key+"\r\n\r\n"),
	} {
		if r.status < 300 || strings.Contains(r.body, "uid=0") || r.status >= 500 && r.status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %.300s", name, r.status, r.body)
		}
	}
	if n := memory(t, l); n > 1<<30 {
		t.Errorf("the server holds %d MiB", n>>20)
	}
}
