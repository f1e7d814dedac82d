package server_test

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
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/internal/project"
	"enplace/internal/server"
	"enplace/internal/task"
	"enplace/internal/transcript"
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
	var got project.CreateEnvironment
	b.projects.create = func(in project.CreateEnvironment) (enplace.Environment, error) {
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
	var got task.CreateHarness
	b.tasks.harness = func(in task.CreateHarness) (enplace.Harness, error) {
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

func TestFiles(t *testing.T) {
	t.Parallel()
	b := start(t)
	const text = "<script>alert(1)</script>"
	digest := enplace.DigestOf([]byte(text))
	b.projects.openFile = func(path string) (project.File, error) {
		if path != "dir/a b.html" {
			return project.File{}, enplace.NotFoundf("no file %s", path)
		}
		return project.File{Entry: enplace.TreeEntry{Path: path, Digest: digest}, Content: file{strings.NewReader(text)}}, nil
	}
	const at = "/v1/environments/x/files/dir/a%20b.html"
	resp, body := b.request(t, "GET", at, nil)
	if body != text || resp.Header.Get("ETag") != `"`+digest.Hex()+`"` || resp.Header.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		t.Errorf("%s %v", body, resp.Header)
	}
	if resp, body := b.request(t, "GET", at, nil, "Range", "bytes=1-6"); resp.StatusCode != 206 || body != "script" {
		t.Errorf("range: %d %q", resp.StatusCode, body)
	}
	if resp, _ := b.request(t, "GET", at, nil, "If-None-Match", `"`+digest.Hex()+`"`); resp.StatusCode != 304 {
		t.Errorf("If-None-Match: %d", resp.StatusCode)
	}
	if resp, body := b.request(t, "HEAD", at, nil); resp.StatusCode != 200 || body != "" || resp.ContentLength != int64(len(text)) {
		t.Errorf("HEAD: %d %q %d", resp.StatusCode, body, resp.ContentLength)
	}
	r, err := b.client.OpenFile(t.Context(), "x", "dir/a b.html")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != text {
		t.Errorf("by the client: %q %v", got, err)
	}
	if _, err := b.client.OpenFile(t.Context(), "x", "../x"); enplace.KindOf(err) != enplace.KindMalformed {
		t.Errorf("the client's ../x: %v", err)
	}
}

func TestPutFile(t *testing.T) {
	t.Parallel()
	b := start(t)
	seen := map[string]bool{}
	b.projects.putFile = func(path string, r io.Reader, executable bool) (enplace.TreeEntry, bool, error) {
		n, err := io.Copy(io.Discard, r)
		if err != nil {
			return enplace.TreeEntry{}, false, fmt.Errorf("storing: %w", err)
		}
		isNew := !seen[path]
		seen[path] = true
		return enplace.TreeEntry{Path: path, Size: n, Executable: executable}, isNew, nil
	}
	for _, want := range []bool{true, false} {
		e, isNew, err := b.client.PutFile(t.Context(), "x", "bin/a?b#c", strings.NewReader("data"), true)
		if err != nil || isNew != want || e.Size != 4 || !e.Executable || e.Path != "bin/a?b#c" {
			t.Errorf("%+v %v %v", e, isNew, err)
		}
	}
	if e, _, err := b.client.PutFile(t.Context(), "x", "empty", strings.NewReader(""), false); err != nil || e.Size != 0 {
		t.Errorf("empty: %+v %v", e, err)
	}
	// Exactly the limit is taken; a byte more is not, whether its length is told or found out.
	zeros := func(n int64) io.Reader { return io.LimitReader(zero{}, n) }
	if e, _, err := b.client.PutFile(t.Context(), "x", "most", zeros(enplace.MaxFileBytes), false); err != nil || e.Size != enplace.MaxFileBytes {
		t.Errorf("at the limit: %+v %v", e, err)
	}
	_, _, err := b.client.PutFile(t.Context(), "x", "over", zeros(enplace.MaxFileBytes+1), false)
	if enplace.KindOf(err) != enplace.KindTooLarge || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("over the limit: %v", err)
	}
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestHugeBodyIsRefusedUnread(t *testing.T) {
	t.Parallel()
	b := start(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /v1/environments/x/files/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", operatorKey, int64(1)<<40)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 413 || !resp.Close || !bytes.Contains(body, []byte("64 MiB")) {
		t.Errorf("%d close=%v %s", resp.StatusCode, resp.Close, body)
	}
}

func TestUploadThatIsCutIsNoFailureOfOurs(t *testing.T) {
	t.Parallel()
	b := start(t)
	done := make(chan error, 1)
	b.projects.importTar = func(r io.Reader, _ project.ImportOptions) (enplace.ImportReport, error) {
		_, err := io.Copy(io.Discard, r)
		done <- err
		return enplace.ImportReport{}, enplace.Invalidf("not an archive").WithCause(err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /v1/environments/x/import HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\nabc", operatorKey)
	_ = conn.(*net.TCPConn).CloseWrite()
	defer conn.Close()
	if err := <-done; err == nil {
		t.Error("the capability took a cut upload for whole")
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 400 || !bytes.Contains(body, []byte("ended before")) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	b := start(t)
	var mode project.ImportOptions
	b.projects.importTar = func(r io.Reader, o project.ImportOptions) (enplace.ImportReport, error) {
		mode = o
		got, err := io.ReadAll(r)
		return enplace.ImportReport{Imported: len(got)}, err
	}
	b.projects.importGit = func(g enplace.GitSource, o project.ImportOptions) (enplace.ImportReport, error) {
		mode = o
		return enplace.ImportReport{Describe: g.URL + "@" + g.Ref}, nil
	}
	if r, err := b.client.Import(t.Context(), "x", strings.NewReader("PK.."), true); err != nil || r.Imported != 4 || !mode.Merge {
		t.Errorf("%+v %+v %v", r, mode, err)
	}
	if resp, body := b.request(t, "POST", "/v1/environments/x/import", strings.NewReader("PK.."), "Content-Type", ""); resp.StatusCode != 200 || mode.Merge {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if r, err := b.client.ImportGit(t.Context(), "x", enplace.GitSource{URL: "https://h/r", Ref: "main"}, false); err != nil || r.Describe != "https://h/r@main" {
		t.Errorf("%+v %v", r, err)
	}
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	b := start(t)
	runs := 0
	var fail error
	b.tasks.create = func(enplace.Caller, task.CreateTask) (enplace.Task, error) {
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

func newLog(t *testing.T) (*transcript.Writer, func() (*transcript.Reader, error)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	w, err := transcript.Create(path, enplace.MaxLogBytes, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w, func() (*transcript.Reader, error) { return transcript.Open(path) }
}

func TestFollowLog(t *testing.T) {
	t.Parallel()
	b := start(t)
	log, open := newLog(t)
	b.projects.buildLog = open
	b.projects.getBuild = func(context.Context, int, time.Duration) (enplace.Build, error) {
		return enplace.Build{Status: enplace.BuildFailed}, nil
	}
	fmt.Fprintln(log, "first")
	r, err := b.client.BuildLog(t.Context(), "x", 1)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != "first\n" {
		t.Errorf("while it grows: %q %v", text, err)
	}
	_ = r.Close()

	out, in := io.Pipe()
	status := make(chan enplace.BuildStatus, 1)
	go func() {
		defer in.Close()
		s, err := b.client.FollowBuildLog(t.Context(), "x", 1, in)
		if err != nil {
			t.Error(err)
		}
		status <- s
	}()
	lines := bufio.NewReader(out)
	for _, want := range []string{"first\n", "second: é\n", "\n", "data: x\n"} {
		if want != "first\n" { // each is seen before the next is written
			fmt.Fprint(log, want)
		}
		if got, err := lines.ReadString('\n'); got != want {
			t.Fatalf("followed %q, want %q: %v", got, want, err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if s := <-status; s != enplace.BuildFailed {
		t.Errorf("ended with %q", s)
	}

	const at = "/v1/environments/x/builds/1/log"
	resp, events := b.request(t, "GET", at, nil, "Accept", "text/event-stream")
	want := "id: 6\ndata: first\n\nid: 17\ndata: second: é\n\nid: 18\ndata: \n\nid: 26\ndata: data: x\n\nevent: end\ndata: {\"status\":\"failed\"}\n\n"
	if events != want || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("events %q", events)
	}
	if _, events := b.request(t, "GET", at, nil, "Accept", "text/event-stream", "Last-Event-ID", "17"); events != want[strings.Index(want, "id: 18"):] {
		t.Errorf("resumed %q", events)
	}
	if resp, body := b.request(t, "HEAD", at, nil, "Accept", "text/event-stream"); resp.StatusCode != 200 || body != "" {
		t.Errorf("HEAD: %d %q", resp.StatusCode, body)
	}
	if resp, _ := b.request(t, "GET", at, nil, "Accept", "text/event-stream", "Last-Event-ID", "x"); resp.StatusCode != 400 {
		t.Errorf("a bad id: %d", resp.StatusCode)
	}
	if resp, text := b.request(t, "GET", at+"?follow=true", nil); text != "first\nsecond: é\n\ndata: x\n" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("followed as text: %q", text)
	}
}

func TestSSH(t *testing.T) {
	t.Parallel()
	b := start(t)
	closed := make(chan error, 1)
	b.tasks.dial = func() (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			_, err := io.Copy(far, far)
			closed <- err
		}()
		return near, nil
	}
	conn, err := b.client.DialSSH(t.Context(), "task_1")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"SSH-2.0-x\r\n", strings.Repeat("y", 100_000)} {
		go fmt.Fprint(conn, text)
		got := make([]byte, len(text))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
			t.Fatalf("echoed %d bytes: %v", len(got), err)
		}
	}
	_ = conn.Close()
	if err := <-closed; err != nil {
		t.Errorf("the sandbox's end: %v", err)
	}
	b.tasks.dial = func() (net.Conn, error) { return nil, enplace.Conflictf("the task has ended") }
	if _, err := b.client.DialSSH(t.Context(), "task_1"); enplace.KindOf(err) != enplace.KindConflict {
		t.Errorf("of a task that ended: %v", err)
	}
}

func TestExec(t *testing.T) {
	t.Parallel()
	b := start(t)
	killed := make(chan struct{})
	b.tasks.exec = func(ctx context.Context, in enplace.ExecRequest, each func(enplace.ExecEvent) error) (enplace.ExecResult, error) {
		switch {
		case each == nil:
			return enplace.ExecResult{Stdout: in.Stdin, ExitCode: 3}, nil
		case in.Command[0] == "missing":
			return enplace.ExecResult{}, enplace.Invalidf("no program missing").WithField("command")
		}
		for _, text := range []string{"a\n", "b\n"} {
			if err := each(enplace.ExecEvent{Stream: "stdout", Data: text}); err != nil {
				return enplace.ExecResult{}, err
			}
		}
		switch in.Command[0] {
		case "break":
			return enplace.ExecResult{}, enplace.Conflictf("the sandbox stopped")
		case "hang":
			<-ctx.Done()
			close(killed)
			return enplace.ExecResult{}, ctx.Err()
		}
		return enplace.ExecResult{ExitCode: 4}, nil
	}
	if r, err := b.client.Exec(t.Context(), "t", enplace.ExecRequest{Command: []string{"cat"}, Stdin: "in"}); err != nil || r.Stdout != "in" || r.ExitCode != 3 {
		t.Errorf("%+v %v", r, err)
	}
	run := func(command string) (string, enplace.ExecResult, error) {
		var got strings.Builder
		r, err := b.client.ExecStream(t.Context(), "t", enplace.ExecRequest{Command: []string{command}}, func(e enplace.ExecEvent) error {
			got.WriteString(e.Data)
			if command == "hang" && e.Data == "b\n" {
				return errors.New("enough")
			}
			return nil
		})
		return got.String(), r, err
	}
	if got, r, err := run("ok"); got != "a\nb\n" || r.ExitCode != 4 || err != nil {
		t.Errorf("%q %+v %v", got, r, err)
	}
	if _, _, err := run("missing"); enplace.KindOf(err) != enplace.KindInvalid {
		t.Errorf("before the first line: %v", err)
	}
	if got, _, err := run("break"); got != "a\nb\n" || enplace.KindOf(err) != enplace.KindConflict {
		t.Errorf("behind the first line: %q %v", got, err)
	}
	if _, _, err := run("hang"); err == nil || err.Error() != "enough" {
		t.Errorf("of the caller: %v", err)
	}
	<-killed
	resp, _ := b.request(t, "POST", "/v1/tasks/t/exec", strings.NewReader(`{"command":["ok"]}`), "Accept", "application/x-ndjson", "Idempotency-Key", "k")
	if resp.StatusCode != 400 {
		t.Errorf("a stream with an idempotency key: %d", resp.StatusCode)
	}
}

func TestTaskFilesAndArchive(t *testing.T) {
	t.Parallel()
	b := start(t)
	broken := func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(strings.Repeat("tar", 10_000)), failing{})), nil
	}
	b.tasks.archive = broken
	r, err := b.client.TaskArchive(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err == nil {
		t.Errorf("a broken archive was taken for whole: %d bytes", len(got))
	}
	b.tasks.openFile = func(path string) (enplace.WorkFile, io.ReadCloser, error) {
		return enplace.WorkFile{Path: path, Size: 4}, io.NopCloser(strings.NewReader("data, grown since")), nil
	}
	f, err := b.client.OpenTaskFile(t.Context(), "t", "out/é.bin")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || string(got) != "data" {
		t.Errorf("%q %v", got, err)
	}
	var filter task.Filter
	b.tasks.list = func(f task.Filter) (enplace.List[enplace.Task], error) {
		filter = f
		return enplace.List[enplace.Task]{}, nil
	}
	want := enplace.TaskQuery{Harness: "h", Environment: "e", Status: enplace.TaskFailed}
	if _, err := b.client.ListTasks(t.Context(), want, enplace.Page{}); err != nil || filter != want {
		t.Errorf("%+v %v", filter, err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("disk gone") }

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
	s.tasks.create = func(enplace.Caller, task.CreateTask) (enplace.Task, error) { return enplace.Task{ID: "task_1"}, nil }
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
