package attacktest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/client"
)

func TestOutside(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, attack := range map[string]func(*testing.T, *lab){
		"ForeignKeys": foreignKeys, "KeysOfOtherKinds": keysOfOtherKinds, "DoubtfulKeys": doubtfulKeys, "Paths": hostilePaths, "JSON": hostileJSON,
		"Requests": hostileRequests, "Idempotency": idempotency, "Ranges": ranges, "SlowClients": slowClients, "Upgrades": upgrades,
		"Repositories": repositories, "PackageNames": packageNames,
	} {
		t.Run(name, func(t *testing.T) { attack(t, l) })
	}
	if err := l.Client.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	l.checkLog(t)
}

// belongings are one person's things, of every kind that has an id.
type belongings struct {
	api     *client.Client
	secret  string
	env     enplace.Environment
	harness enplace.Harness
	task    enplace.Task
}

func (l *lab) secretOf(t *testing.T, kind enplace.KeyKind, subject string) string {
	t.Helper()
	k, err := l.Client.CreateKey(t.Context(), enplace.CreateKey{Name: subject, Kind: kind, Subject: subject})
	if err != nil {
		t.Fatal(err)
	}
	return k.Secret
}

// settle gives a person an environment with a version, a harness and a task.
func (l *lab) settle(t *testing.T, name string) belongings {
	t.Helper()
	b := belongings{secret: l.secretOf(t, enplace.KeyPerson, name)}
	b.api = l.As(b.secret)
	env, built, log := l.build(t, b.api, name+"s own", map[string]string{"f.txt": name + "-was-here"}, enplace.UpdateEnvironment{})
	if built.Status != enplace.BuildSucceeded {
		t.Fatal(log)
	}
	b.env = env
	var err error
	if b.harness, err = b.api.CreateHarness(t.Context(), enplace.CreateHarness{Name: name, Environment: env.ID}); err != nil {
		t.Fatal(err)
	}
	if b.task, err = b.api.CreateTask(t.Context(), enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: b.harness.ID}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.api.Exec(t.Context(), b.task.ID, enplace.ExecRequest{Command: []string{"sh", "-c", "echo " + name + "-was-here > f.txt"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = b.api.CancelTask(context.Background(), b.task.ID) })
	return b
}

type reply struct {
	status int
	header http.Header
	body   string
}

// ask sends one request as it is.
func (l *lab) ask(t *testing.T, secret, method, path string, body string, header ...string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, l.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
		return reply{}
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Errorf("%s %s: %v", method, path, err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

var requestID = regexp.MustCompile(`req_[0-9a-z]+`)

// Every route that names something by its id, as the server's own document has them, knows nothing of another person's: it
// answers as it does for what does not exist, to the letter.
func foreignKeys(t *testing.T, l *lab) {
	alice, bob := l.settle(t, "alice"), l.secretOf(t, enplace.KeyPerson, "bob")
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal([]byte(l.ask(t, "", "GET", "/openapi.json", "").body), &doc); err != nil {
		t.Fatal(err)
	}
	own := map[string]string{"environments": alice.env.ID, "harnesses": alice.harness.ID, "tasks": alice.task.ID}
	bodies := map[string]string{"exec": `{"command": ["true"]}`, "import": `{"git_url": "https://example.org/x.git"}`}
	routes := 0
	for path, methods := range doc.Paths {
		kind, rest, named := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/{id}")
		id, ok := own[kind]
		if !named || !ok {
			continue
		}
		for method, op := range methods {
			routes++
			at := func(id string) string {
				query := map[string]string{"diff-versions": "?from=1&to=1"}[op.OperationID]
				return strings.NewReplacer("{n}", "1", "{path}", "f.txt").Replace("/v1/"+kind+"/"+id+rest) + query
			}
			header := []string{"Upgrade", "enplace-ssh", "Connection", "Upgrade"}
			if op.OperationID != "ssh" {
				header = []string{"Content-Type", "application/json"}
			}
			body := bodies[op.OperationID]
			if body == "" && strings.EqualFold(method, "put") && rest == "" {
				body = "{}"
			}
			prefix, _, _ := strings.Cut(id, "_")
			absent := enplace.NewID(prefix, time.Now())
			foreign := l.ask(t, bob, strings.ToUpper(method), at(id), body, header...)
			nothing := l.ask(t, bob, strings.ToUpper(method), at(absent), body, header...)
			clean := func(r reply, id string) string {
				return requestID.ReplaceAllString(strings.ReplaceAll(r.body, id, "ID"), "REQ")
			}
			if foreign.status != http.StatusNotFound || nothing.status != foreign.status || clean(foreign, id) != clean(nothing, absent) {
				t.Errorf("%s %s: %d %s\nwhat is not there: %d %s", method, path, foreign.status, foreign.body, nothing.status, nothing.body)
			}
			if strings.Contains(foreign.body, "alice") {
				t.Errorf("%s %s tells: %s", method, path, foreign.body)
			}
		}
	}
	if routes < 25 {
		t.Errorf("only %d routes were tried", routes)
	}
	// Nor do lists, filters, cursors or what another thing names.
	for _, path := range []string{"/v1/environments", "/v1/harnesses", "/v1/tasks", "/v1/tasks?environment=" + alice.env.ID, "/v1/tasks?harness=" + alice.harness.ID, "/v1/environments?limit=1&cursor=" + alice.env.ID, "/v1/tasks?cursor=" + alice.task.ID + "z"} {
		if r := l.ask(t, bob, "GET", path, ""); strings.Contains(r.body, "alice") || strings.Contains(r.body, alice.env.ID+`"`) && !strings.Contains(r.body, "cursor") {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	mine, err := l.As(bob).CreateHarness(t.Context(), enplace.CreateHarness{Name: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range [][2]string{
		{"/v1/harnesses", `{"name": "x", "environment": "` + alice.env.ID + `"}`},
		{"/v1/tasks", `{"metadata": {"harness": "` + alice.harness.ID + `"}}`},
		{"/v1/tasks", `{"metadata": {"harness": "` + mine.ID + `", "environment": "` + alice.env.ID + `"}}`},
		{"/v1/tasks", `{"metadata": {"harness": "` + mine.ID + `", "environment": "` + alice.env.Slug + `"}}`},
	} {
		if r := l.ask(t, bob, "POST", row[0], row[1]); r.status != http.StatusNotFound {
			t.Errorf("%s %s: %d %s", row[0], row[1], r.status, r.body)
		}
	}
	if r := l.ask(t, bob, "GET", "/v1/environments/packages/check?manager=pip&name=six&environment="+alice.env.ID, ""); r.status != http.StatusNotFound {
		t.Errorf("a check of packages told of another's environment: %d %s", r.status, r.body)
	}
}

// A key of a harness, and one of an agent, reach no further than their kind says.
func keysOfOtherKinds(t *testing.T, l *lab) {
	carol, dave := l.settle(t, "carol"), l.settle(t, "dave")
	harness, agent := l.secretOf(t, enplace.KeyHarness, carol.harness.ID), l.secretOf(t, enplace.KeyAgent, carol.task.ID)
	type row struct{ method, path, body string }
	both := []row{
		{"POST", "/v1/environments", `{"name": "x"}`}, {"POST", "/v1/harnesses", `{"name": "x"}`}, {"POST", "/v1/keys", `{"name": "x", "kind": "operator"}`},
		{"GET", "/v1/keys", ""}, {"GET", "/v1/audit", ""}, {"GET", "/metrics", ""}, {"DELETE", "/v1/harnesses/" + carol.harness.ID, ""},
		{"PUT", "/v1/environments/" + carol.env.ID, "{}"}, {"DELETE", "/v1/environments/" + carol.env.ID, ""}, {"POST", "/v1/environments/" + carol.env.ID + "/build", ""},
		{"PUT", "/v1/environments/" + carol.env.ID + "/files/f.txt", "x"}, {"POST", "/v1/environments/" + carol.env.ID + "/import", `{"git_url": "https://example.org/x"}`},
		{"POST", "/v1/environments/" + carol.env.ID + "/versions/1/activate", ""}, {"DELETE", "/v1/environments/" + carol.env.ID + "/versions/1", ""},
		{"GET", "/v1/tasks/" + dave.task.ID, ""}, {"POST", "/v1/tasks/" + dave.task.ID + "/exec", `{"command": ["true"]}`}, {"GET", "/v1/tasks/" + dave.task.ID + "/files/f.txt", ""},
		{"GET", "/v1/environments/" + dave.env.ID, ""}, {"GET", "/v1/environments/" + dave.env.ID + "/files/f.txt", ""}, {"GET", "/v1/harnesses/" + dave.harness.ID, ""},
		{"POST", "/v1/tasks", `{"metadata": {"harness": "` + dave.harness.ID + `"}}`},
		{"POST", "/v1/tasks", `{"metadata": {"harness": "` + carol.harness.ID + `", "environment": "` + dave.env.ID + `"}}`},
	}
	forAgent := append([]row{
		{"POST", "/v1/tasks", `{"metadata": {"harness": "` + carol.harness.ID + `"}}`}, {"POST", "/v1/tasks/" + carol.task.ID + "/cancel", ""},
		{"GET", "/v1/environments/" + carol.env.ID, ""}, {"GET", "/v1/harnesses/" + carol.harness.ID, ""},
	}, both...)
	for key, rows := range map[string][]row{harness: both, agent: forAgent} {
		for _, r := range rows {
			if got := l.ask(t, key, r.method, r.path, r.body); got.status != http.StatusForbidden && got.status != http.StatusNotFound {
				t.Errorf("%s %s %s: %d %s", r.method, r.path, r.body, got.status, got.body)
			}
		}
	}
	for _, path := range []string{"/v1/environments", "/v1/harnesses", "/v1/tasks"} {
		for _, key := range []string{harness, agent} {
			if r := l.ask(t, key, "GET", path, ""); strings.Contains(r.body, "dave") {
				t.Errorf("%s: %s", path, r.body)
			}
		}
	}
	// Names that would be taken for others'.
	for _, subject := range []string{"operator", carol.harness.ID, carol.task.ID, "", " carol", "carol\n", "carol\x00", "CAROL ", strings.Repeat("x", 10_000)} {
		if k, err := l.Client.CreateKey(t.Context(), enplace.CreateKey{Name: "x", Kind: enplace.KeyPerson, Subject: subject}); err == nil {
			t.Errorf("a person is called %q: %+v", subject, k.Subject)
		}
	}
}

func doubtfulKeys(t *testing.T, l *lab) {
	k, err := l.Client.CreateKey(t.Context(), enplace.CreateKey{Name: "x", Kind: enplace.KeyPerson, Subject: "erin"})
	if err != nil {
		t.Fatal(err)
	}
	other := []byte(k.Secret)
	other[len(other)-1] ^= 1
	if _, err := l.Client.RevokeKey(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer enp_", "Bearer " + k.Secret, "Bearer " + string(other), "Basic " + l.Key, l.Key, "Bearer " + l.Key + "x", "Bearer " + l.Key[:len(l.Key)-1],
		"Bearer " + strings.ToUpper(l.Key), "Bearer " + k.ID, "Bearer ' OR 1=1 --", "Bearer " + strings.Repeat("a", 20_000), "Bearer " + l.Key + " " + l.Key} {
		r := l.ask(t, "", "GET", "/v1/whoami", "", "Authorization", header)
		if r.status != http.StatusUnauthorized {
			t.Errorf("%.60q: %d %s", header, r.status, r.body)
		}
	}
	for _, path := range []string{"/v1/whoami?key=" + l.Key, "/v1/whoami?access_token=" + l.Key} {
		if r := l.ask(t, "", "GET", path, "", "X-Api-Key", l.Key, "Cookie", "key="+l.Key); r.status != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	if strings.Contains(l.Log(), l.Key) || strings.Contains(l.Log(), k.Secret) {
		t.Error("a key is in the server's log")
	}
}

// Paths of files lead nowhere but into the tree, however they are written.
func hostilePaths(t *testing.T, l *lab) {
	f := l.settle(t, "frank")
	base := "/v1/environments/" + f.env.ID + "/files/"
	for _, p := range []string{"../../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "/etc/passwd", "a//b", "a/./b", "a/../b", ".", "..", "%00", "a%00b", "a%0ab",
		"a%5cb", "..%5c..%5cx", "C:%5cx", "C:/x", "%ff", "%c0%ae%c0%ae/x", "a%7f", strings.Repeat("a", 256), strings.Repeat("a/", 2000) + "x", "%252e%252e/x/..", "a/%2e%2e/b"} {
		for _, method := range []string{"PUT", "GET", "DELETE"} {
			r := l.raw(t, method+" "+base+p+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+f.secret+"\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx")
			if r.status < 400 || r.status >= 500 {
				t.Errorf("%s %s: %d %.200s", method, p, r.status, r.body)
			}
		}
	}
	task := "/v1/tasks/" + f.task.ID + "/files/"
	for _, p := range []string{"..%2f..%2fetc%2fpasswd", "%2e%2e/x", "%2fetc%2fpasswd", "a%00b", "f.txt/..%2f..%2fx", "f.txt%2f", "./f.txt"} {
		if r := l.raw(t, "GET "+task+p+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+f.secret+"\r\nConnection: close\r\n\r\n"); r.status < 400 || r.status >= 500 {
			t.Errorf("GET %s: %d %.200s", p, r.status, r.body)
		}
	}
	for _, id := range []string{"..", "%2e%2e", f.env.ID + "%00", f.env.ID + "'--", "*", "henv_%", f.env.ID + "%2f..%2f", strings.ToUpper(f.env.ID), strings.Repeat("x", 9000)} {
		if r := l.raw(t, "GET /v1/environments/"+id+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+f.secret+"\r\nConnection: close\r\n\r\n"); r.status != 404 && r.status != 400 {
			t.Errorf("id %.40q: %d %.200s", id, r.status, r.body)
		}
	}
	for _, q := range []string{"cursor=%00", "cursor=../../x", "cursor='%20OR%201=1", "cursor=" + strings.Repeat("A", 8192), "limit=-1", "limit=99999999999999999999", "limit=1e9", "limit=0x10", "prefix=%00", "prefix=%25", "cursor=%ff%fe"} {
		for _, at := range []string{"/v1/environments", "/v1/tasks", "/v1/environments/" + f.env.ID + "/files", "/v1/environments/" + f.env.ID + "/builds", "/v1/tasks/" + f.task.ID + "/files"} {
			if r := l.ask(t, f.secret, "GET", at+"?"+q, ""); r.status >= 500 || strings.Contains(r.body, "SQL") {
				t.Errorf("%s?%s: %d %.200s", at, q, r.status, r.body)
			}
		}
	}
}

// raw sends bytes as they are and reads one answer.
func (l *lab) raw(t *testing.T, request string) reply {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(l.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = io.WriteString(c, request) // it may be refused before it is all sent
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return reply{status: 400, body: err.Error()} // the connection was closed on it
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return reply{resp.StatusCode, resp.Header, string(b)}
}

func hostileJSON(t *testing.T, l *lab) {
	deep := strings.Repeat("[", 200_000)
	for _, body := range []string{deep, strings.Repeat(`{"a":`, 100_000), `{"name": ` + strings.Repeat("9", 100_000) + `}`, `{"name": 1e999999}`, `{"name": "\u0000"}`, `{"name": "` + "\x00" + `"}`,
		`{"name": "a", "name": {"x": 1}}`, `{"name": "\ud800"}`, `{"name": null}`, `null`, `[]`, `"x"`, `{"name": "x"} {"name": "y"}`, "\xff\xfe", "{\"name\": \"\xff\"}", `{"__proto__": {"admin": true}}`,
		`{"name": "x", "owner": "operator"}`, `{"name": "x", "id": "henv_1"}`, `{"name": "` + strings.Repeat("x", 1<<20) + `"}`, `{"NAME": "x"}`, "", " ", "\ufeff{}"} {
		for _, at := range []string{"/v1/environments", "/v1/harnesses", "/v1/tasks", "/v1/keys"} {
			r := l.ask(t, l.Key, "POST", at, body, "Content-Type", "application/json")
			if r.status < 400 || r.status >= 500 {
				if r.status == http.StatusCreated && (strings.HasPrefix(body, `{"name": "\u`) || strings.Contains(body, "\xff") || strings.HasPrefix(body, `{"NAME`)) && !strings.Contains(r.body, "\x00") && !strings.Contains(r.body, "\xff") {
					continue // taken as text, with what is no text replaced
				}
				t.Errorf("%s %.60q: %d %.300s", at, body, r.status, r.body)
			}
		}
	}
	for _, body := range []string{`{"command": []}`, `{"command": [""]}`, `{"command": ["a\u0000b"]}`, `{"command": ["true"], "cwd": "../.."}`, `{"command": ["true"], "cwd": "/\u0000"}`, `{"command": ["true"], "env": {"a=b": "c"}}`,
		`{"command": ["true"], "env": {"": "c"}}`, `{"command": ["true"], "timeout": -1}`, `{"command": ["true"], "timeout": 1e18}`, `{"command": ["true"], "env": {"A": "\u0000"}}`} {
		g := openForJSON(t, l)
		if r := l.ask(t, l.Key, "POST", "/v1/tasks/"+g+"/exec", body, "Content-Type", "application/json"); r.status < 400 || r.status >= 500 {
			t.Errorf("exec %s: %d %.300s", body, r.status, r.body)
		}
	}
}

var jsonTask sync.Map

// openForJSON gives one open sandbox for all of a lab.
func openForJSON(t *testing.T, l *lab) string {
	if id, ok := jsonTask.Load(l); ok {
		return id.(string)
	}
	h, err := l.Client.CreateHarness(t.Context(), enplace.CreateHarness{Name: "json"})
	if err != nil {
		t.Fatal(err)
	}
	task, err := l.Client.CreateTask(t.Context(), enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: h.ID}})
	if err != nil {
		t.Fatal(err)
	}
	jsonTask.Store(l, task.ID)
	return task.ID
}

// Requests that two readers would read in two ways are refused, and a second one is never smuggled in behind them.
func hostileRequests(t *testing.T, l *lab) {
	auth := "Host: x\r\nAuthorization: Bearer " + l.Key + "\r\n"
	smuggled := "POST /v1/environments HTTP/1.1\r\n" + auth + "Content-Length: 20\r\n\r\n{\"name\": \"smuggled\"}"
	for _, request := range []string{
		"POST /v1/environments HTTP/1.1\r\n" + auth + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}    " + smuggled,
		"POST /v1/environments HTTP/1.1\r\n" + auth + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"POST /v1/environments HTTP/1.1\r\n" + auth + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + smuggled,
		"POST /v1/environments HTTP/1.1\r\n" + auth + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"POST /v1/environments HTTP/1.1\r\n" + auth + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled,
		"POST /v1/environments HTTP/1.1\r\n" + auth + "Content-Length: -1\r\n\r\n" + smuggled,
		"POST /v1/environments HTTP/1.1\r\n" + auth + "Content-Length: 0x10\r\n\r\n" + smuggled,
		"POST /v1/environments HTTP/1.1\r\n" + auth + "Content-Length: 99999999999999999999\r\n\r\n{}",
		"GET /v1/environments HTTP/1.1\r\n" + auth + "X: " + strings.Repeat("y", 1<<20) + "\r\n\r\n",
		"GET /" + strings.Repeat("y", 1<<20) + " HTTP/1.1\r\n" + auth + "\r\n",
		"GET /v1/environments HTTP/1.1\r\n" + auth + strings.Repeat("A: b\r\n", 50_000) + "\r\n",
		"GET /v1/environments HTTP/9.9\r\n" + auth + "\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "GET  /v1/environments HTTP/1.1\r\n" + auth + "\r\n",
		"GET /v1/whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\nAuthorization: Bearer " + l.Key + "\r\n\r\n",
		"GET http://other/v1/whoami HTTP/1.1\r\nHost: x\r\n\r\n", "GET /v1/whoami HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "TRACE /v1/environments HTTP/1.1\r\n" + auth + "\r\n",
		"CONNECT 127.0.0.1:22 HTTP/1.1\r\n" + auth + "\r\n", "OPTIONS * HTTP/1.1\r\n" + auth + "\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"DELETE /v1/environments HTTP/1.1\r\n" + auth + "\r\n", "PATCH /v1/environments HTTP/1.1\r\n" + auth + "\r\n",
		"POST /v1/environments HTTP/1.1\r\n" + auth + "X-HTTP-Method-Override: DELETE\r\nContent-Length: 2\r\n\r\n{}",
		"POST /v1/environments HTTP/1.1\r\n" + auth + "Idempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 13\r\n\r\n{\"name\": \"x\"}",
		"POST /v1/environments HTTP/1.1\r\n" + auth + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b",
	} {
		if r := l.raw(t, request); r.status < 400 || r.status >= 500 && r.status != http.StatusNotImplemented && r.status != 505 {
			if strings.HasPrefix(request, "OPTIONS *") && r.status < 300 && r.body == "" {
				continue // answered by the HTTP library, with nothing
			}
			t.Errorf("%.90q: %d %.200s", request, r.status, r.body)
		}
	}
	list, err := l.Client.ListEnvironments(t.Context(), enplace.Page{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Name == "smuggled" {
			t.Error("a request was smuggled in")
		}
	}
	r := l.ask(t, l.Key, "GET", "/v1/whoami", "", "X-Forwarded-For", "1.1.1.1", "Origin", "https://evil.example")
	if r.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("another site may read answers")
	}
}

// An Idempotency-Key is its caller's: another caller's request under the same one is run, and shows nothing of the first.
func idempotency(t *testing.T, l *lab) {
	g, h := l.secretOf(t, enplace.KeyPerson, "grace"), l.secretOf(t, enplace.KeyPerson, "heidi")
	const body = `{"name": "Idempotent"}`
	one := l.ask(t, g, "POST", "/v1/environments", body, "Idempotency-Key", "k")
	again := l.ask(t, g, "POST", "/v1/environments", body, "Idempotency-Key", "k")
	other := l.ask(t, h, "POST", "/v1/environments", `{"name": "Other"}`, "Idempotency-Key", "k")
	if one.status != 201 || again.body != one.body || other.status != 201 || strings.Contains(other.body, "grace") || other.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("%+v\n%+v\n%+v", one, again, other)
	}
	if r := l.ask(t, l.Key, "POST", "/v1/keys", `{"name": "x", "kind": "person", "subject": "ivan"}`, "Idempotency-Key", "secret"); r.status != 400 {
		t.Errorf("a key's secret would be stored: %d %s", r.status, r.body)
	}
}

func ranges(t *testing.T, l *lab) {
	j := l.settle(t, "judy")
	content := strings.Repeat("0123456789", 10_000)
	if _, _, err := j.api.PutFile(t.Context(), j.env.ID, "big", strings.NewReader(content), false); err != nil {
		t.Fatal(err)
	}
	if _, err := j.api.Exec(t.Context(), j.task.ID, enplace.ExecRequest{Command: []string{"sh", "-c", "cat > big"}, Stdin: content}); err != nil {
		t.Fatal(err)
	}
	many := "bytes=" + strings.TrimSuffix(strings.Repeat("0-,", 5000), ",")
	for _, at := range []string{"/v1/environments/" + j.env.ID + "/files/big", "/v1/tasks/" + j.task.ID + "/files/big"} {
		for _, r := range []string{many, "bytes=-1", "bytes=99999999999999999999-", "bytes=5-1", "bytes=0-9223372036854775807", "bytes=-9223372036854775808", "lines=1-2", "bytes=a-b", "bytes=0-0,99999-", ""} {
			got := l.ask(t, j.secret, "GET", at, "", "Range", r)
			if got.status >= 500 || len(got.body) > len(content)+4096 {
				t.Errorf("%s of %.30q: %d, %d bytes", at, r, got.status, len(got.body))
			}
		}
	}
}

// Clients that send slowly, read nothing or only hold a connection hold up nobody else.
func slowClients(t *testing.T, l *lab) {
	k := l.settle(t, "kate")
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	address := strings.TrimPrefix(l.URL, "http://")
	hold := func(request string) net.Conn {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		_, _ = io.WriteString(c, request)
		return c
	}
	auth := "Host: x\r\nAuthorization: Bearer " + k.secret + "\r\n"
	for range 1500 {
		hold("")
	}
	slow := hold("GET /v1/whoami HTTP/1.1\r\nHost:")
	for range 200 {
		hold("GET /v1/tasks/" + k.task.ID + "/log?follow=true HTTP/1.1\r\n" + auth + "Accept: text/event-stream\r\n\r\n")
		hold("GET /v1/tasks/" + k.task.ID + "?wait=5m HTTP/1.1\r\n" + auth + "\r\n")
		hold("PUT /v1/environments/" + k.env.ID + "/files/slow HTTP/1.1\r\n" + auth + "Content-Length: 1000\r\n\r\nx")
	}
	if _, err := k.api.Exec(t.Context(), k.task.ID, enplace.ExecRequest{Command: []string{"sh", "-c", "yes | head -c 20000000"}}); err != nil {
		t.Error(err)
	}
	start := time.Now()
	if r := l.ask(t, l.Key, "GET", "/v1/whoami", ""); r.status != 200 || time.Since(start) > 5*time.Second {
		t.Errorf("%d after %s", r.status, time.Since(start))
	}
	if n := memory(t, l); n > 1<<30 {
		t.Errorf("the server holds %d MiB", n>>20)
	}
	_ = slow.SetReadDeadline(time.Now().Add(30 * time.Second))
	answer, err := io.ReadAll(slow)
	if err != nil {
		t.Errorf("a client that never ends its headers is held on to: %v %q", err, answer)
	}
}

// Nothing but a whole upgrade of one's own running task is upgraded, and what comes of it is the guest's.
func upgrades(t *testing.T, l *lab) {
	m := l.settle(t, "mike")
	path := "/v1/tasks/" + m.task.ID + "/ssh"
	auth := "Host: x\r\nAuthorization: Bearer " + m.secret + "\r\n"
	for _, request := range []string{
		"GET " + path + " HTTP/1.1\r\n" + auth + "\r\n",
		"GET " + path + " HTTP/1.1\r\n" + auth + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"POST " + path + " HTTP/1.1\r\n" + auth + "Connection: Upgrade\r\nUpgrade: enplace-ssh\r\nContent-Length: 0\r\n\r\n",
		"GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: enplace-ssh\r\n\r\n",
		"HEAD " + path + " HTTP/1.1\r\n" + auth + "Connection: close, Upgrade\r\nUpgrade: enplace-ssh\r\n\r\n",
		"GET " + path + " HTTP/1.0\r\n" + auth + "Upgrade: enplace-ssh, x\r\n\r\n",
	} {
		if r := l.raw(t, request); r.status < 400 || r.status >= 500 {
			t.Errorf("%.80q: %d %.100s", request, r.status, r.body)
		}
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(l.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	// A request behind the upgrade goes to the guest, which takes it for no SSH, and never to the API.
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\n%sConnection: Upgrade\r\nUpgrade: enplace-ssh\r\n\r\nPOST /v1/environments HTTP/1.1\r\n%sContent-Length: 20\r\n\r\n{\"name\": \"smuggled\"}", path, auth, auth)
	b, _ := io.ReadAll(io.LimitReader(c, 1<<20)) // closed or cut
	if !bytes.HasPrefix(b, []byte("HTTP/1.1 101 ")) || bytes.Count(b, []byte("HTTP/1.1")) != 1 {
		t.Errorf("%.400q", b)
	}
}

// URLs and refs of repositories reach nothing of this host and run nothing.
func repositories(t *testing.T, l *lab) {
	n := l.settle(t, "nina")
	for _, body := range []string{
		`{"git_url": "ext::sh -c 'touch /tmp/enplace-pwned'"}`, `{"git_url": "--upload-pack=touch /tmp/enplace-pwned"}`, `{"git_url": "file:///etc"}`, `{"git_url": "/etc"}`, `{"git_url": "../.."}`,
		`{"git_url": "git@example.org:x/y.git"}`, `{"git_url": "ssh://-oProxyCommand=touch/x"}`, `{"git_url": "git://127.0.0.1/x"}`, `{"git_url": "http://127.0.0.1:1/x.git"}`, `{"git_url": "https://127.0.0.1:1/x.git"}`,
		`{"git_url": "https://169.254.169.254/x.git"}`, `{"git_url": "https://[::1]/x.git"}`, `{"git_url": "https://localhost/x.git"}`, `{"git_url": "https://u:p@example.org/x.git"}`, `{"git_url": "https://example.org/x\n.git"}`,
		`{"git_url": "https://example.invalid/x.git", "ref": "--exec=touch /tmp/enplace-pwned"}`, `{"git_url": "https://example.invalid/x.git", "ref": "a..b"}`, `{"git_url": "https://example.invalid/x.git", "ref": "x\u0000"}`,
		`{"git_url": "https://example.invalid/x.git", "subdir": "../../etc"}`, `{"git_url": "https://example.invalid/x.git", "subdir": "/etc"}`, `{"git_url": ""}`, `{"git_url": "https://"}`, `{"git_url": "https://example.invalid:99999/x"}`,
	} {
		r := l.ask(t, n.secret, "POST", "/v1/environments/"+n.env.ID+"/import", body, "Content-Type", "application/json")
		if r.status < 400 || r.status == http.StatusInternalServerError {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
		if strings.Contains(r.body, "connection refused") || strings.Contains(r.body, "root:") {
			t.Errorf("%s tells what is there: %s", body, r.body)
		}
	}
	if r := l.ask(t, l.Key, "GET", "/healthz", ""); r.status != 200 {
		t.Error(r)
	}
	if out := hostHas("/tmp/enplace-pwned"); out {
		t.Error("code ran on the host")
	}
}

// Names of packages are names: no options, paths, URLs or shell, for no package manager.
func packageNames(t *testing.T, l *lab) {
	p := l.settle(t, "paul")
	for manager, names := range map[string][]string{
		"pip": {"--index-url=http://127.0.0.1", "-r /etc/passwd", "six; touch /tmp/x", "six --pre", "./x", "/etc", "git+https://example.org/x", "six @ file:///etc", "six\n--pre", "six==1.0 --hash=x", "$(id)", "..", "six[$(id)]", "", " ", "\x00", strings.Repeat("a", 5000), "six=="},
		"npm": {"--registry=http://127.0.0.1", "../x", "/etc", "file:/etc", "https://example.org/x.tgz", "git+ssh://x/y", "a/b/c", "@x", "ms;id", "ms@$(id)", "ms@file:/etc", "ms@http://127.0.0.1/x.tgz", "ms@npm:../x", "ms\nleft", "", strings.Repeat("a", 5000)},
		"apt": {"-o=APT::Update::Pre-Invoke::=id", "--allow-downgrades", "./x.deb", "/etc/x.deb", "jq/", "jq-", "jq+", "jq*", "^jq$", "jq;id", "jq=`id`", "jq\njq", "", "jq/sid", strings.Repeat("a", 5000)},
	} {
		for _, name := range names {
			body, err := json.Marshal(map[string]any{"packages": map[string][]string{manager: {name}}})
			if err != nil {
				t.Fatal(err)
			}
			if r := l.ask(t, p.secret, "PUT", "/v1/environments/"+p.env.ID, string(body), "Content-Type", "application/json"); r.status < 400 || r.status >= 500 {
				t.Errorf("%s %.60q: %d %.300s", manager, name, r.status, r.body)
			}
		}
	}
	for _, url := range []string{"http://127.0.0.1:1/simple", "https://127.0.0.1/simple", "file:///etc", "https://u:p@example.org/simple", "https://x/ --extra-index-url y", "http://169.254.169.254/simple"} {
		body, err := json.Marshal(map[string]any{"pip_index_url": url, "packages": map[string][]string{"pip": {"six"}}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r := l.ask(t, p.secret, "PUT", "/v1/environments/"+p.env.ID, string(body), "Content-Type", "application/json")
		if r.status >= 500 && r.status != http.StatusBadGateway || strings.Contains(r.body, "refused") && strings.Contains(r.body, "connect") {
			t.Errorf("%s: %d %s (%s)", url, r.status, r.body, time.Since(start))
		}
	}
}
