package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"enplace"
)

func readProblem(t *testing.T, resp *http.Response, body string) enplace.Problem {
	t.Helper()
	if got := resp.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q, body %s", got, body)
	}
	var p enplace.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("no problem document: %v: %s", err, body)
	}
	if p.Status != resp.StatusCode || p.Title == "" || p.Type != "about:blank" || p.Detail == "" || !strings.Contains(p.Instance, resp.Header.Get("X-Request-Id")) {
		t.Errorf("status %d, problem %s", resp.StatusCode, body)
	}
	return p
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	b := start(t)
	const env = "/v1/environments/henv_x"
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		kind                     enplace.Kind
		field, says              string
		headers                  []string
	}{
		{"no key", "GET", "/v1/tasks", "", 401, enplace.KindUnauthenticated, "Authorization", "API key", []string{"Authorization", ""}},
		{"another scheme", "GET", "/v1/tasks", "", 401, enplace.KindUnauthenticated, "Authorization", "API key", []string{"Authorization", "Basic YTpi"}},
		{"foreign key", "GET", "/v1/tasks", "", 401, enplace.KindUnauthenticated, "", "not known", []string{"Authorization", "Bearer enp_foreign"}},
		{"no body", "POST", "/v1/environments", "", 400, enplace.KindMalformed, "body", "required", nil},
		{"no JSON", "POST", "/v1/environments", `{"name":`, 400, enplace.KindMalformed, "body", "not JSON", nil},
		{"text", "POST", "/v1/environments", `name=x`, 400, enplace.KindMalformed, "body", "not JSON", nil},
		{"trailing garbage", "POST", "/v1/environments", `{"name":"x"} x`, 400, enplace.KindMalformed, "body", "after top-level value", nil},
		{"two bodies", "POST", "/v1/environments", `{"name":"x"}{"name":"y"}`, 400, enplace.KindMalformed, "body", "after top-level value", nil},
		{"null", "POST", "/v1/environments", `null`, 422, enplace.KindInvalid, "body", "object", nil},
		{"array", "POST", "/v1/environments", `[]`, 422, enplace.KindInvalid, "body", "object", nil},
		{"no name", "POST", "/v1/environments", `{}`, 422, enplace.KindInvalid, "name", "required", nil},
		{"unknown field", "POST", "/v1/environments", `{"name":"x","colour":"red"}`, 400, enplace.KindMalformed, "colour", "not a field", nil},
		{"field of another case", "POST", "/v1/environments", `{"Name":"x"}`, 400, enplace.KindMalformed, "Name", "not a field", nil},
		{"nested unknown field", "POST", "/v1/environments", `{"name":"x","packages":{"gem":[]}}`, 400, enplace.KindMalformed, "packages.gem", "not a field", nil},
		{"wrong type", "POST", "/v1/environments", `{"name":7}`, 422, enplace.KindInvalid, "name", "string", nil},
		{"nested wrong type", "PUT", env, `{"packages":{"pip":["a",7]}}`, 422, enplace.KindInvalid, "packages.pip[1]", "string", nil},
		{"list for a map", "PUT", env, `{"packages":["pandas"]}`, 422, enplace.KindInvalid, "packages", "object", nil},
		{"unknown egress", "POST", "/v1/harnesses", `{"name":"x","egress":"everywhere"}`, 422, enplace.KindInvalid, "egress", "allowlist", nil},
		{"egress of a wrong type", "POST", "/v1/harnesses", `{"name":"x","egress":7}`, 422, enplace.KindInvalid, "egress", "allowlist", nil},
		{"limit too low", "POST", "/v1/harnesses", `{"name":"x","limits":{"memory_mib":1}}`, 422, enplace.KindInvalid, "limits.memory_mib", "64", nil},
		{"number too large", "POST", "/v1/tasks/t/exec", `{"command":["x"],"timeout":1e300}`, 422, enplace.KindInvalid, "body", "timeout", nil},
		{"no command", "POST", "/v1/tasks/t/exec", `{"command":[]}`, 422, enplace.KindInvalid, "command", "1", nil},
		{"no harness", "POST", "/v1/tasks", `{"metadata":{}}`, 422, enplace.KindInvalid, "metadata.harness", "required", nil},
		{"input of a wrong type", "POST", "/v1/tasks", `{"metadata":{"harness":"h"},"input":{}}`, 422, enplace.KindInvalid, "input", "string", nil},
		{"unknown kind of key", "POST", "/v1/keys", `{"name":"x","kind":"root"}`, 422, enplace.KindInvalid, "kind", "operator", nil},
		{"bad wait", "GET", env + "/builds/1?wait=soon", "", 400, enplace.KindMalformed, "wait", "30s", nil},
		{"wait without a unit", "GET", env + "/builds/1?wait=30", "", 400, enplace.KindMalformed, "wait", "30s", nil},
		{"negative wait", "GET", "/v1/tasks/t?wait=-1s", "", 400, enplace.KindMalformed, "wait", "30s", nil},
		{"bad number", "GET", env + "/builds/first", "", 400, enplace.KindMalformed, "n", "integer", nil},
		{"number zero", "GET", env + "/builds/0", "", 400, enplace.KindMalformed, "n", ">= 1", nil},
		{"huge number", "GET", env + "/builds/99999999999999999999", "", 400, enplace.KindMalformed, "n", "integer", nil},
		{"bad limit", "GET", "/v1/tasks?limit=many", "", 400, enplace.KindMalformed, "limit", "integer", nil},
		{"limit over 500", "GET", "/v1/tasks?limit=501", "", 400, enplace.KindMalformed, "limit", "<= 500", nil},
		{"limit zero", "GET", "/v1/tasks?limit=0", "", 400, enplace.KindMalformed, "limit", ">= 1", nil},
		{"files over 20000", "GET", env + "/files?limit=20001", "", 400, enplace.KindMalformed, "limit", "20000", nil},
		{"unknown parameter", "GET", "/v1/tasks?colour=red", "", 400, enplace.KindMalformed, "colour", "unknown", nil},
		{"bad status", "GET", "/v1/tasks?status=done", "", 400, enplace.KindMalformed, "status", "queued", nil},
		{"bad manager", "GET", "/v1/environments/packages/check?manager=gem&name=x", "", 400, enplace.KindMalformed, "manager", "pip", nil},
		{"no package", "GET", "/v1/environments/packages/check?manager=pip", "", 400, enplace.KindMalformed, "name", "missing", nil},
		{"bad mode", "POST", env + "/import?mode=mix", "x", 400, enplace.KindMalformed, "mode", "replace", nil},
		{"git without a URL", "POST", env + "/import", `{}`, 422, enplace.KindInvalid, "git_url", "required", []string{"Content-Type", "application/json"}},
		{"git with an unknown field", "POST", env + "/import", `{"git_url":"x","depth":1}`, 400, enplace.KindMalformed, "depth", "not a field", []string{"Content-Type", "application/json"}},
		{"nothing to import", "POST", env + "/import", ``, 400, enplace.KindMalformed, "body", "archive", []string{"Content-Type", "application/json"}},
		{"parent path", "PUT", env + "/files/a/../b", "x", 400, enplace.KindMalformed, "path", "..", nil},
		{"dot path", "PUT", env + "/files/./b", "x", 400, enplace.KindMalformed, "path", ".", nil},
		{"double slash", "PUT", env + "/files/a//b", "x", 400, enplace.KindMalformed, "path", "empty", nil},
		{"encoded parent path", "PUT", env + "/files/a/%2e%2e/b", "x", 422, enplace.KindInvalid, "a/../b", "..", nil},
		{"encoded slashes", "PUT", env + "/files/..%2f..%2fetc%2fpasswd", "x", 422, enplace.KindInvalid, "../../etc/passwd", "..", nil},
		{"encoded absolute path", "PUT", env + "/files/%2fetc%2fpasswd", "x", 422, enplace.KindInvalid, "/etc/passwd", "absolute", nil},
		{"backslash", "PUT", env + "/files/a%5cb", "x", 422, enplace.KindInvalid, `a\b`, "backslash", nil},
		{"nul", "GET", "/v1/tasks/t/files/a%00b", "", 422, enplace.KindInvalid, "a\uFFFDb", "control", nil},
		{"no path", "PUT", env + "/files/", "x", 400, enplace.KindMalformed, "path", "missing", nil},
		{"no upgrade", "GET", "/v1/tasks/t/ssh", "", 400, enplace.KindMalformed, "Upgrade", "enplace-ssh", nil},
		{"unknown route", "GET", "/v1/nothing", "", 404, enplace.KindNotFound, "", "/v1/nothing", nil},
		{"root", "GET", "/", "", 404, enplace.KindNotFound, "", "no route", nil},
		{"trailing slash", "GET", "/v1/tasks/", "", 404, enplace.KindNotFound, "", "no route", nil},
		{"wrong method", "PATCH", env, "{}", 405, enplace.KindMalformed, "method", "DELETE", nil},
		{"bad idempotency key", "POST", "/v1/tasks", `{}`, 400, enplace.KindMalformed, "Idempotency-Key", "255", []string{"Idempotency-Key", strings.Repeat("k", 256)}},
		{"idempotency key of a secret", "POST", "/v1/keys", `{"name":"x","kind":"person","subject":"a"}`, 400, enplace.KindMalformed, "Idempotency-Key", "never stored", []string{"Idempotency-Key", "k"}},
		{"body over its limit", "POST", "/v1/environments", `{"name":"` + strings.Repeat("x", enplace.MaxJSONBytes) + `"}`, 413, enplace.KindTooLarge, "body", "1 MiB", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var body io.Reader
			if c.body != "" {
				body = strings.NewReader(c.body)
			}
			resp, got := b.request(t, c.method, c.path, body, c.headers...)
			p := readProblem(t, resp, got)
			if resp.StatusCode != c.status || p.Kind != c.kind || p.Field != c.field || !strings.Contains(p.Detail, c.says) {
				t.Errorf("got %d, want %d with kind %s, field %q, saying %q: %s", resp.StatusCode, c.status, c.kind, c.field, c.says, got)
			}
			if c.status == 401 && !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Error("401 without WWW-Authenticate: Bearer")
			}
			if c.status == 405 && resp.Header.Get("Allow") != "GET, HEAD, PUT, DELETE" {
				t.Errorf("405 with Allow %q", resp.Header.Get("Allow"))
			}
		})
	}
}

func TestKindsOfErrors(t *testing.T) {
	t.Parallel()
	b := start(t)
	for kind, status := range map[enplace.Kind]int{
		enplace.KindMalformed: 400, enplace.KindInvalid: 422, enplace.KindUnauthenticated: 401, enplace.KindForbidden: 403,
		enplace.KindNotFound: 404, enplace.KindConflict: 409, enplace.KindTooLarge: 413, enplace.KindBusy: 429,
		enplace.KindUpstream: 502, enplace.KindUnavailable: 503,
	} {
		b.projects.get = func(string) (enplace.Environment, error) {
			e := enplace.Errorf(kind, "what is wrong").WithField("a.field").WithFix("first").WithFix("second").WithCause(errors.New("secret cause"))
			return enplace.Environment{}, e
		}
		resp, body := b.request(t, "GET", "/v1/environments/x", nil)
		if resp.StatusCode != status || strings.Contains(body, "secret cause") {
			t.Errorf("%s: got %d, want %d: %s", kind, resp.StatusCode, status, body)
		}
		if kind == enplace.KindBusy && resp.Header.Get("Retry-After") == "" {
			t.Error("429 without Retry-After")
		}
		_, err := b.client.Environment(t.Context(), "x")
		var e *enplace.Error
		if !errors.As(err, &e) || e.Kind != kind || e.Message != "what is wrong" || e.Field != "a.field" || len(e.Fixes) != 2 {
			t.Errorf("%s: the client rebuilt %#v", kind, err)
		}
	}
}

func TestFailuresAreLoggedAndNotShown(t *testing.T) {
	t.Parallel()
	b := start(t)
	for name, get := range map[string]func(string) (enplace.Environment, error){
		"error": func(string) (enplace.Environment, error) { return enplace.Environment{}, errors.New("db on fire") },
		"panic": func(string) (enplace.Environment, error) { panic("db on fire") },
		"internal": func(string) (enplace.Environment, error) {
			return enplace.Environment{}, enplace.Errorf(enplace.KindInternal, "db on fire")
		},
	} {
		b.projects.get = get
		resp, body := b.request(t, "GET", "/v1/environments/x", nil)
		p := readProblem(t, resp, body)
		id := resp.Header.Get("X-Request-Id")
		if resp.StatusCode != 500 || p.Kind != enplace.KindInternal || strings.Contains(body, "fire") || !strings.Contains(p.Detail, id) {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
		if log := b.logLine(t, id); !strings.Contains(log, "db on fire") || !strings.Contains(log, `"ERROR"`) {
			t.Errorf("%s: the log has not the cause: %s", name, log)
		}
	}
}

// logLine gives the line of a request. It is written behind the answer, so it may be a moment away.
func (b *bench) logLine(t *testing.T, id string) string {
	t.Helper()
	for t.Context().Err() == nil {
		for line := range strings.SplitSeq(b.log.String(), "\n") {
			if strings.Contains(line, id) {
				return line
			}
		}
	}
	t.Fatalf("no line of the log has %s", id)
	return ""
}

func TestLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.tasks.create = func(_ enplace.Caller, in enplace.CreateTask) (enplace.Task, error) {
		return enplace.Task{ID: "task_1"}, nil
	}
	resp, _ := b.request(t, "POST", "/v1/tasks?token=hunter2", strings.NewReader(`{"metadata":{"harness":"h"},"input":"hunter3"}`))
	line := b.logLine(t, resp.Header.Get("X-Request-Id"))
	if strings.Contains(line, "hunter") || strings.Contains(line, operatorKey) || !strings.Contains(line, `"route":"POST /v1/tasks"`) || !strings.Contains(line, `"caller":"operator"`) {
		t.Error(line)
	}
}

func TestClientThatLeavesEndsTheWait(t *testing.T) {
	t.Parallel()
	b := start(t)
	waiting, ended := make(chan time.Duration, 1), make(chan error, 1)
	b.projects.getBuild = func(ctx context.Context, _ int, wait time.Duration) (enplace.Build, error) {
		waiting <- wait
		<-ctx.Done()
		ended <- ctx.Err()
		return enplace.Build{}, ctx.Err()
	}
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		if wait := <-waiting; wait != enplace.MaxWait {
			t.Errorf("waits %s, want the most there is", wait)
		}
		leave()
	}()
	if _, err := b.client.Build(ctx, "x", 1, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("the client says %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the capability saw %v", err)
	}
}

func TestShutdownEndsWaits(t *testing.T) {
	t.Parallel()
	b := start(t)
	waiting := make(chan struct{})
	b.tasks.get = func(ctx context.Context, _ time.Duration) (enplace.Task, error) {
		close(waiting)
		<-ctx.Done()
		return enplace.Task{}, ctx.Err()
	}
	h := b.srv.HTTP()
	listener := listen(t)
	go func() { _ = h.Serve(listener) }()
	b.url = "http://" + listener.Addr().String()
	go func() {
		<-waiting
		_ = h.Shutdown(context.WithoutCancel(t.Context()))
	}()
	resp, body := b.request(t, "GET", "/v1/tasks/t?wait=5m", nil)
	if p := readProblem(t, resp, body); resp.StatusCode != 503 || !strings.Contains(p.Detail, "stopping") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	b := start(t)
	if err := b.as(t, "").Ready(t.Context()); err != nil {
		t.Errorf("ready without a key: %v", err)
	}
	b.ready = enplace.Errorf(enplace.KindConflict, "the base is being made").WithFix("wait")
	err := b.client.Ready(t.Context())
	if enplace.KindOf(err) != enplace.KindUnavailable || !strings.Contains(err.Error(), "the base is being made") {
		t.Errorf("not ready: %v", err)
	}
	b.ready = errors.New("secret path")
	if err := b.client.Ready(t.Context()); enplace.KindOf(err) != enplace.KindUnavailable || strings.Contains(err.Error(), "secret") {
		t.Errorf("not ready: %v", err)
	}
	// A server that makes its base is asked for minutes: that fills no log. A failure does.
	if log := b.log.String(); strings.Contains(log, "the base is being made") || !strings.Contains(log, "secret path") {
		t.Errorf("the log: %s", log)
	}
}
