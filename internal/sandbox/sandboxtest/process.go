package sandboxtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/internal/sandbox"
)

func testExec(t *testing.T, h Harness) {
	b := h.Start(t, h.Spec("exec"))
	want(t, b, "id -u; pwd; hostname", "0\n/task\nsandbox")
	want(t, b, "echo x > file; cat file", "x")
	if r := sh(t, b, "echo out; echo err >&2; exit 7"); r.Code != 7 || r.out != "out\n" || r.err != "err\n" {
		t.Errorf("got %+v", r)
	}
	var out bytes.Buffer
	exit, err := b.Exec(t.Context(), sandbox.Command{Argv: []string{"/bin/cat"}, Env: sandbox.BaseEnv(), Dir: "/", Stdin: strings.NewReader("in"), Stdout: &out})
	if err != nil || exit.Code != 0 || out.String() != "in" {
		t.Errorf("cat: %v %v %q", exit, err, out.String())
	}
	got, err := h.Runtime.Get("exec")
	if err != nil || got.ID() != b.ID() {
		t.Errorf("Get: %v, %v", got, err)
	}
	if list := h.Runtime.List(); len(list) != 1 || list[0] != "exec" {
		t.Errorf("List: %v", list)
	}
}

func testExecFails(t *testing.T, h Harness) {
	b := h.Start(t, h.Spec("execfails"))
	for _, c := range []sandbox.Command{
		{Argv: []string{"/no/such/program"}, Dir: "/"},
		{Argv: []string{"/bin/true"}, Dir: "/no/such/folder"},
	} {
		c.Env = sandbox.BaseEnv()
		_, err := b.Exec(t.Context(), c)
		wantKind(t, err, enplace.KindInvalid)
		if missing := c.Argv[0] != "/bin/true"; errors.Is(err, sandbox.ErrNoProgram) != missing {
			t.Errorf("%v in %s: %v", c.Argv, c.Dir, err)
		}
	}
	want(t, b, "echo still here", "still here")
}

// A command's deadline ends all that it started, also what left its session.
func testDeadline(t *testing.T, h Harness) {
	b := h.Start(t, h.Spec("deadline"))
	exit, err := b.Exec(t.Context(), sandbox.Command{Argv: []string{"/bin/sh", "-c", "setsid sleep 4321 & (sleep 4322 &) ; sleep 4323"},
		Env: sandbox.BaseEnv(), Dir: "/", Timeout: 300 * time.Millisecond})
	if err != nil || !exit.TimedOut {
		t.Errorf("got %+v, %v; want a time-out", exit, err)
	}
	want(t, b, "ps | grep 'sleep 432[0-9]' || true", "")
}

func testCancel(t *testing.T, h Harness) {
	b := h.Start(t, h.Spec("cancel"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := b.Exec(ctx, sandbox.Command{Argv: []string{"/bin/sh", "-c", "setsid sleep 5321 & sleep 5322"}, Env: sandbox.BaseEnv(), Dir: "/",
		Started: cancel})
	wantIs(t, err, context.Canceled)
	want(t, b, "ps | grep 'sleep 532[0-9]' || true", "")
}

// Stop ends a command under way, and everything after it says so.
func testStop(t *testing.T, h Harness) {
	b := h.Start(t, h.Spec("stop"))
	ended := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		_, err := b.Exec(context.Background(), sandbox.Command{Argv: []string{"/bin/sleep", "6321"}, Env: sandbox.BaseEnv(), Dir: "/",
			Started: func() { close(started) }})
		ended <- err
	}()
	<-started
	stop(t, b)
	select {
	case <-b.Done():
	default:
		t.Error("Done is open after Stop")
	}
	wantIs(t, <-ended, sandbox.ErrStopped)
	_, err := b.Exec(t.Context(), sandbox.Command{Argv: []string{"/bin/true"}, Dir: "/"})
	wantIs(t, err, sandbox.ErrStopped)
	_, err = b.Dial(t.Context(), nil)
	wantIs(t, err, sandbox.ErrStopped)
	_, err = b.Stats(t.Context())
	wantIs(t, err, sandbox.ErrStopped)
	_, err = b.Capture(t.Context(), "/", "", nil)
	wantIs(t, err, sandbox.ErrStopped)
	stop(t, b)
	_, err = h.Runtime.Get("stop")
	wantIs(t, err, sandbox.ErrNotFound)
	again := h.Start(t, h.Spec("stop"))
	want(t, again, "echo again", "again")
}

func testSetup(t *testing.T, h Harness) {
	s := h.Spec("setup")
	s.Setup = sandbox.Setup{
		Files: []sandbox.SetupFile{{Path: "/run/enplace/instructions.md", Content: []byte("read me"), Mode: 0o444}},
		Links: []sandbox.SetupLink{{Path: "/usr/bin/python3", Target: "/env/x/.venv/bin/python3"}},
	}
	b := h.Start(t, s)
	want(t, b, "cat /run/enplace/instructions.md; stat -c %a /run/enplace/instructions.md", "read me444")
	want(t, b, "readlink /usr/bin/python3", "/env/x/.venv/bin/python3")
	want(t, b, "head -c 3 "+sandbox.CAPath, "---")
}

func testIDs(t *testing.T, h Harness) {
	h.Start(t, h.Spec("twice"))
	_, err := h.Runtime.Start(t.Context(), h.Spec("twice"))
	wantKind(t, err, enplace.KindConflict)
	for _, id := range []string{"", "../x", "a/b", ".hidden"} {
		_, err := h.Runtime.Start(t.Context(), h.Spec(id))
		wantKind(t, err, enplace.KindInvalid)
	}
}

// A start that fails leaves nothing that holds its id.
func testUnknown(t *testing.T, h Harness) {
	s := h.Spec("unknown")
	s.Mounts = []sandbox.Mount{{Path: "/env/x", Images: []enplace.Digest{enplace.DigestOf([]byte("nobody packed this"))}}}
	if _, err := h.Runtime.Start(t.Context(), s); err == nil {
		t.Error("a sandbox started with an image that does not exist")
	}
	s.Mounts[0] = sandbox.Mount{Path: "/etc/passwd/x", Writable: true}
	if _, err := h.Runtime.Start(t.Context(), s); err == nil {
		t.Error("a sandbox started with a mount below a file")
	}
	s.Mounts[0].Path = "/link/x"
	if _, err := h.Runtime.Start(t.Context(), s); err == nil {
		t.Error("a sandbox started with a mount behind a link")
	}
	s.Mounts = nil
	want(t, h.Start(t, s), "echo fine; ls /etc/x 2>/dev/null || echo none", "fine\nnone")
}

func testDial(t *testing.T, h Harness) {
	b := h.Start(t, h.Spec("dial"))
	conn, err := b.Dial(t.Context(), nil)
	check(t, err)
	defer conn.Close()
	check(t, conn.SetDeadline(time.Now().Add(patience)))
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "SSH-2.0-") {
		t.Errorf("got %q, %v; want an SSH server", line, err)
	}
}

func testConcurrent(t *testing.T, h Harness) {
	lower := h.Pack(t, map[string]string{"file": "content"})
	var group sync.WaitGroup
	for n := range 20 {
		group.Go(func() {
			s := h.Spec(fmt.Sprintf("concurrent-%d", n))
			s.Mounts = []sandbox.Mount{{Path: "/env/x", Images: []enplace.Digest{lower}}}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			b, err := h.Runtime.Start(ctx, s)
			if err != nil {
				t.Errorf("starting %s: %v", s.ID, err)
				return
			}
			defer stop(t, b)
			var out bytes.Buffer
			script := fmt.Sprintf("echo %d > /task/n; cat /task/n /env/x/file", n)
			exit, err := b.Exec(ctx, sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Env: sandbox.BaseEnv(), Dir: "/task", Stdout: &out})
			if err != nil || exit.Code != 0 || out.String() != fmt.Sprintf("%d\ncontent", n) {
				t.Errorf("%s: %v, %v, %q", s.ID, exit, err, out.String())
			}
		})
	}
	group.Wait()
}
