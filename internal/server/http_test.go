package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"enplace"
	"enplace/internal/server"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCreateAndList(t *testing.T) {
	t.Parallel()
	b := start(t)
	var got enplace.CreateEnvironment
	b.projects.create = func(in enplace.CreateEnvironment) (enplace.Environment, error) {
		got = in
		return enplace.Environment{ID: "henv_1", Name: in.Name}, nil
	}
	resp, body := b.request(t, "POST", "/v1/environments", strings.NewReader(`{"name":"A & B","packages":{"pip":["pandas"]}}`),
		"Content-Type", "application/x-www-form-urlencoded") // as curl -d sends it
	if resp.StatusCode != 201 || resp.Header.Get("Location") != "/v1/environments/henv_1" || !strings.Contains(body, `"A & B"`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if got.Name != "A & B" || got.Packages == nil || !slices.Equal(got.Packages.Pip, []string{"pandas"}) {
		t.Errorf("the capability got %+v", got)
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Content-Type": "application/json", "Access-Control-Allow-Origin": "",
	} {
		if resp.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, resp.Header.Get(name), want)
		}
	}
	var page enplace.Page
	b.projects.list = func(p enplace.Page) (enplace.List[enplace.Environment], error) {
		page = p
		return enplace.List[enplace.Environment]{Next: "more"}, nil
	}
	if _, body := b.request(t, "GET", "/v1/environments", nil); page != (enplace.Page{Limit: enplace.DefaultPageSize}) || body != "{\"items\":[],\"next\":\"more\"}\n" {
		t.Errorf("page %+v, body %s", page, body)
	}
	if l, err := b.client.ListEnvironments(t.Context(), enplace.Page{Limit: 500, Cursor: "more"}); err != nil || l.Next != "more" || page != (enplace.Page{Limit: 500, Cursor: "more"}) {
		t.Errorf("page %+v: %v", page, err)
	}
}

func TestEgressIsTakenBareAndWhole(t *testing.T) {
	t.Parallel()
	b := start(t)
	var got enplace.CreateHarness
	b.tasks.harness = func(in enplace.CreateHarness) (enplace.Harness, error) {
		got = in
		return enplace.Harness{ID: "har_1", Egress: in.Egress}, nil
	}
	for body, want := range map[string]enplace.EgressPolicy{
		`{"name":"x","egress":"none"}`:                                       enplace.EgressNone,
		`{"name":"x","egress":"open"}`:                                       enplace.EgressOpen,
		`{"name":"x","egress":{"policy":"open"}}`:                            enplace.EgressOpen,
		`{"name":"x","egress":{"policy":"allowlist","hosts":["a.example"]}}`: enplace.EgressAllowlist,
	} {
		if resp, answer := b.request(t, "POST", "/v1/harnesses", strings.NewReader(body)); resp.StatusCode != 201 || got.Egress == nil || got.Egress.Policy != want {
			t.Errorf("%s: %d %s", body, resp.StatusCode, answer)
		}
	}
	h, err := b.client.CreateHarness(t.Context(), enplace.CreateHarness{
		Name: "x", Command: []string{"bash", "-s"}, Egress: &enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: []string{"*.example.org"}},
		Limits: enplace.Limits{MemoryMiB: 512, CPUs: 0.5},
	})
	if err != nil || h.Egress.Hosts[0] != "*.example.org" || got.Limits.MemoryMiB != 512 {
		t.Errorf("by the client: %+v %v", got, err)
	}
}

func TestBuildTakesNoBodyOrAnEmptyOne(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.projects.build = func() (enplace.Build, error) { return enplace.Build{N: 3, Status: enplace.BuildQueued}, nil }
	for _, body := range []string{"", "{}"} {
		resp, answer := b.request(t, "POST", "/v1/environments/henv_1/build", strings.NewReader(body))
		if resp.StatusCode != 202 || resp.Header.Get("Location") != "/v1/environments/henv_1/builds/3" {
			t.Errorf("%q: %d %s", body, resp.StatusCode, answer)
		}
	}
	if resp, _ := b.request(t, "POST", "/v1/environments/henv_1/build", strings.NewReader(`{"x":1}`)); resp.StatusCode != 400 {
		t.Errorf("with an unknown field: %d", resp.StatusCode)
	}
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	b := start(t)
	runs := 0
	var fail error
	b.tasks.create = func(enplace.Caller, enplace.CreateTask) (enplace.Task, error) {
		runs++
		if fail != nil {
			return enplace.Task{}, fail
		}
		return enplace.Task{ID: fmt.Sprintf("task_%d", runs)}, nil
	}
	post := func(key, input, as string) (*http.Response, string) {
		body := fmt.Sprintf(`{"metadata":{"harness":"h"},"input":%q}`, input)
		return b.request(t, "POST", "/v1/tasks", strings.NewReader(body), "Idempotency-Key", key, "Authorization", "Bearer "+as)
	}
	first, body := post("a", "one", operatorKey)
	again, same := post("a", "one", operatorKey)
	if runs != 1 || first.StatusCode != 201 || again.StatusCode != 201 || same != body || first.Header.Get("Idempotency-Replayed") != "" ||
		again.Header.Get("Idempotency-Replayed") != "true" || again.Header.Get("Location") != "/v1/tasks/task_1" || again.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%d runs, %s, then %d %v %s", runs, body, again.StatusCode, again.Header, same)
	}
	resp, body := post("a", "two", operatorKey)
	if p := readProblem(t, resp, body); resp.StatusCode != 422 || p.Field != "Idempotency-Key" || runs != 1 {
		t.Errorf("another request: %d %s", resp.StatusCode, body)
	}
	if resp, _ := post("a", "one", personKey); resp.StatusCode != 201 || runs != 2 {
		t.Errorf("another caller: %d after %d runs", resp.StatusCode, runs)
	}
	// A refusal is an answer like any other; a failure of ours and a lack of room are none.
	for _, c := range []struct {
		err  error
		runs int
	}{{enplace.Conflictf("no"), 1}, {errors.New("broken"), 2}, {enplace.Errorf(enplace.KindBusy, "full"), 2}} {
		before, key := runs, c.err.Error()
		fail = c.err
		post(key, "one", operatorKey)
		post(key, "one", operatorKey)
		if runs-before != c.runs {
			t.Errorf("%v: ran %d times, want %d", c.err, runs-before, c.runs)
		}
	}
	fail = nil
	if resp, _ := post("broken", "one", operatorKey); resp.StatusCode != 201 {
		t.Errorf("after a failure: %d", resp.StatusCode)
	}
}

func TestIdempotencyWhileRunningAndAfterAPanic(t *testing.T) {
	t.Parallel()
	b := start(t)
	started, release := make(chan struct{}), make(chan struct{})
	b.projects.build = func() (enplace.Build, error) {
		started <- struct{}{}
		<-release
		panic("gone")
	}
	first := make(chan int)
	go func() {
		resp, _ := b.request(t, "POST", "/v1/environments/x/build", nil, "Idempotency-Key", "k")
		first <- resp.StatusCode
	}()
	<-started
	if resp, body := b.request(t, "POST", "/v1/environments/x/build", nil, "Idempotency-Key", "k"); resp.StatusCode != 409 {
		t.Errorf("while it runs: %d %s", resp.StatusCode, body)
	}
	close(release)
	if status := <-first; status != 500 {
		t.Errorf("the panic: %d", status)
	}
	b.projects.build = func() (enplace.Build, error) { return enplace.Build{N: 1}, nil }
	if resp, body := b.request(t, "POST", "/v1/environments/x/build", nil, "Idempotency-Key", "k"); resp.StatusCode != 202 {
		t.Errorf("after the panic: %d %s", resp.StatusCode, body)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.request(t, "GET", "/healthz", nil, "Authorization", "")
	b.request(t, "GET", "/v1/no/such/route/at/all", nil)
	if resp, _ := b.request(t, "GET", "/metrics", nil, "Authorization", ""); resp.StatusCode != 401 {
		t.Errorf("without a key: %d", resp.StatusCode)
	}
	if resp, _ := b.request(t, "GET", "/metrics", nil, "Authorization", "Bearer "+personKey); resp.StatusCode != 403 && resp.StatusCode != 404 {
		t.Errorf("as a person: %d", resp.StatusCode)
	}
	_, page := b.request(t, "GET", "/metrics", nil)
	for _, want := range []string{
		`enplace_http_requests_total{method="GET",route="GET /healthz",status="200"} 1`,
		`enplace_http_requests_total{method="GET",route="unmatched",status="404"} 1`,
		`enplace_http_request_seconds_count{method="GET",route="GET /healthz"} 1`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	b = start(t, func(c *server.Config) { c.OpenMetrics = true })
	if resp, _ := b.request(t, "GET", "/metrics", nil, "Authorization", ""); resp.StatusCode != 200 {
		t.Errorf("open, without a key: %d", resp.StatusCode)
	}
}

func TestSystem(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *server.Config) { c.Status = func(context.Context) any { return map[string]string{"base": "b"} } })
	for key, want := range map[string]string{operatorKey: `{"version":"1.0.0","server":{"base":"b"}}`, personKey: `{"version":"1.0.0"}`} {
		if s, err := b.as(t, key).Status(t.Context()); err != nil || string(s) != want {
			t.Errorf("%s: %s %v", key, s, err)
		}
	}
	if i, err := b.as(t, personKey).Whoami(t.Context()); err != nil || i.Name != "alice" || i.Kind != enplace.KeyPerson {
		t.Errorf("%+v %v", i, err)
	}
	if l, err := b.client.ListAudit(t.Context(), "", enplace.Page{}); err != nil || l.Items == nil {
		t.Errorf("%+v %v", l, err)
	}
	if _, err := b.as(t, personKey).ListAudit(t.Context(), "", enplace.Page{}); enplace.KindOf(err) != enplace.KindForbidden {
		t.Errorf("the audit as a person: %v", err)
	}
	if k, err := b.client.CreateKey(t.Context(), enplace.CreateKey{Name: "x", Kind: enplace.KeyPerson, Subject: "bob"}); err != nil || k.Secret != "enp_new" {
		t.Errorf("%+v %v", k, err)
	}
}

func BenchmarkCreateTask(b *testing.B) {
	s := start(b)
	s.tasks.create = func(enplace.Caller, enplace.CreateTask) (enplace.Task, error) { return enplace.Task{ID: "task_1"}, nil }
	body, err := json.Marshal(enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: "har_1"}, Input: "echo hello"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		req, _ := http.NewRequestWithContext(b.Context(), "POST", "/v1/tasks", bytes.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+operatorKey)
		w := &sink{header: http.Header{}}
		s.srv.ServeHTTP(w, req)
		if w.status != 201 {
			b.Fatal(w.status)
		}
	}
}

type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
