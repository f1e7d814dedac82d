package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/internal/transcript"
)

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
	var filter enplace.TaskQuery
	b.tasks.list = func(f enplace.TaskQuery) (enplace.List[enplace.Task], error) {
		filter = f
		return enplace.List[enplace.Task]{}, nil
	}
	want := enplace.TaskQuery{Harness: "h", Environment: "e", Status: enplace.TaskFailed}
	if _, err := b.client.ListTasks(t.Context(), want, enplace.Page{}); err != nil || filter != want {
		t.Errorf("%+v %v", filter, err)
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

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("disk gone") }
