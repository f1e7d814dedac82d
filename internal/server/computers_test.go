package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/internal/transcript"
)

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
