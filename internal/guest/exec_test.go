package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"enplace"
)

func TestExecBasics(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	for _, sole := range []bool{false, true} {
		var out, errs bytes.Buffer
		started := false
		e, err := b.Exec(deadline(t), Command{
			Argv: []string{"sh", "-c", `echo "$0|$1|$(pwd)"; cat; echo oops >&2; exit 7`, "a b", "ü\xff'\n"}, Env: env, Dir: "/tmp", Sole: sole,
			Stdin: strings.NewReader("input"), Stdout: &out, Stderr: &errs, Started: func() { started = true },
		})
		if err != nil || e != (Exit{Code: 7}) || !started {
			t.Fatalf("sole %v: %+v, %v, started %v", sole, e, err, started)
		}
		if got := out.String(); got != "a b|ü\xff'\n|/tmp\ninput" || errs.String() != "oops\n" {
			t.Errorf("sole %v: out %q, err %q", sole, got, errs.String())
		}
	}
}

func TestEnvironmentIsExactlyWhatWasGiven(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	for _, want := range [][]string{nil, {"B=2\n3", "A=\xff", "EMPTY="}} {
		var out bytes.Buffer
		if _, err := b.Exec(deadline(t), Command{Argv: []string{"/usr/bin/env", "-0"}, Env: want, Dir: "/", Stdout: &out}); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSuffix(out.String(), "\x00"); got != strings.Join(want, "\x00") {
			t.Errorf("the command has %q, and was given %q", got, want)
		}
	}
}

func TestNothingButTheStreamsIsInherited(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	for _, sole := range []bool{false, true} {
		var out bytes.Buffer
		if _, err := b.Exec(deadline(t), Command{Argv: []string{"/usr/bin/ls", "/proc/self/fd"}, Dir: "/", Stdout: &out, Sole: sole}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Fields(out.String()); !slices.Equal(got, []string{"0", "1", "2", "3"}) { // 3 is ls's own
			t.Errorf("sole %v: descriptors %v", sole, got)
		}
	}
	if out, e := b.run("readlink /proc/self/fd/0; ps -o tty= -o sid= -p $$; echo $$"); !strings.HasPrefix(out, "/dev/null\n") || !strings.Contains(out, "?") {
		t.Errorf("%+v: %s", e, out)
	}
}

func TestWhatCannotBeStarted(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	b.must(`printf '#!/no/such\n' >/task/lost; printf 'x' >/task/plain; printf '\177ELF' >/task/broken; chmod +x /task/lost /task/broken; mkdir /task/sub; printf '#!/bin/sh\n' >/task/here; chmod +x /task/here`)
	for _, c := range []struct {
		name  string
		c     Command
		field string
		says  string
	}{
		{"missing program", Command{Argv: []string{"nonesuch"}, Env: env, Dir: "/"}, "command", "nonesuch"},
		{"missing path", Command{Argv: []string{"/usr/nonesuch"}, Env: env, Dir: "/"}, "command", "/usr/nonesuch"},
		{"no PATH", Command{Argv: []string{"ls"}, Dir: "/"}, "command", "PATH"},
		{"relative PATH", Command{Argv: []string{"here"}, Env: []string{"PATH=:.::task:"}, Dir: "/task"}, "command", "here"},
		{"missing folder", Command{Argv: []string{"ls"}, Env: env, Dir: "/nonesuch"}, "cwd", "/nonesuch"},
		{"folder is a file", Command{Argv: []string{"ls"}, Env: env, Dir: "/task/plain"}, "cwd", "not a folder"},
		{"relative folder", Command{Argv: []string{"ls"}, Env: env, Dir: "task"}, "cwd", "absolute"},
		{"not executable", Command{Argv: []string{"./plain"}, Env: env, Dir: "/task"}, "command", "./plain"},
		{"is a folder", Command{Argv: []string{"./sub"}, Env: env, Dir: "/task"}, "command", "directory"},
		{"lost interpreter", Command{Argv: []string{"./lost"}, Env: env, Dir: "/task"}, "command", "interpreter"},
		{"no program", Command{Argv: []string{"./broken"}, Env: env, Dir: "/task"}, "command", "#!"},
		{"nothing", Command{Dir: "/"}, "command", "no program"},
		{"bad variable", Command{Argv: []string{"ls"}, Env: []string{"=x"}, Dir: "/"}, "env", "KEY"},
		{"NUL", Command{Argv: []string{"ls", "a\x00b"}, Env: env, Dir: "/"}, "", "NUL"},
	} {
		for _, sole := range []bool{false, true} {
			c.c.Sole = sole
			c.c.Started = func() { t.Errorf("%s: was started", c.name) }
			_, err := b.Exec(deadline(t), c.c)
			var e *enplace.Error
			if !errors.As(err, &e) || e.Kind != enplace.KindInvalid || e.Field != c.field || !strings.Contains(e.Message, c.says) {
				t.Errorf("%s: %v", c.name, err)
			}
			if missing := slices.Contains([]string{"missing program", "missing path", "no PATH", "relative PATH"}, c.name); errors.Is(err, ErrNoProgram) != missing {
				t.Errorf("%s: its program is missing: %t", c.name, !missing)
			}
		}
	}
	if _, err := b.Exec(deadline(t), Command{Argv: []string{"./here"}, Dir: "/task"}); err != nil {
		t.Errorf("a path relative to the folder: %v", err)
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	for sig, code := range map[string]int{"KILL": 137, "TERM": 143, "SEGV": 139} {
		if _, e := b.run("kill -" + sig + " $$"); e != (Exit{Code: code, Signal: sig}) {
			t.Errorf("%s: %+v", sig, e)
		}
	}
	// What a command inherits is the default: a guest that ignores signals would pass that on. Signals 32 and 33 are the C
	// library's own, and a test program that is linked with it may pass them on.
	for _, mask := range strings.Fields(b.must("grep -E 'SigIgn|SigBlk' /proc/self/status | cut -f2")) {
		if n, err := strconv.ParseUint(mask, 16, 64); err != nil || n&^(3<<31) != 0 {
			t.Errorf("mask %s %v", mask, err)
		}
	}
	// Neither process 1 nor a supervisor is impressed.
	b.must("kill -TERM 1; kill -HUP 1; kill -QUIT 1; kill -KILL 1; kill -STOP 1; kill -SEGV 1; kill -TERM $PPID; kill -INT $PPID; true")
	b.must("true")
}

func TestLargeCommand(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	c := Command{Argv: []string{"sh", "-c", "cat; echo $#", "sh"}, Env: env, Dir: "/", Stdin: strings.NewReader("in\n")}
	for range 10 {
		c.Argv = append(c.Argv, strings.Repeat("x", 100<<10)) // in all far beyond the open message
	}
	var out bytes.Buffer
	c.Stdout = &out
	if e, err := b.Exec(deadline(t), c); err != nil || e.Code != 0 || out.String() != "in\n10\n" {
		t.Errorf("%+v, %v: %q", e, err, out.String())
	}
	for range 30 {
		c.Argv = append(c.Argv, strings.Repeat("x", 100<<10))
	}
	if _, err := b.Exec(deadline(t), c); enplace.KindOf(err) != enplace.KindTooLarge {
		t.Errorf("beyond the kernel's limit: %v", err)
	}
	c.Argv = append(c.Argv, strings.Repeat("x", maxExecBytes))
	if _, err := b.Exec(deadline(t), c); enplace.KindOf(err) != enplace.KindTooLarge {
		t.Errorf("beyond ours: %v", err)
	}
}

func TestStreamsOfAGigabyte(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	const size = 1 << 30
	n := &counter{}
	if e, err := b.Exec(deadline(t), Command{Argv: []string{"head", "-c", strconv.Itoa(size), "/dev/zero"}, Env: env, Dir: "/", Stdout: n}); err != nil || e.Code != 0 || n.n != size {
		t.Fatalf("%+v, %v, %d bytes", e, err, n.n)
	}
	peak := b.must("grep VmHWM /proc/1/status")
	if kib, _ := strconv.Atoi(strings.Fields(peak)[1]); kib == 0 || kib > 64<<10 {
		t.Errorf("process 1 grew: %s", peak)
	}
}

func TestInputComesThroughWhole(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	data := bytes.Repeat([]byte("0123456789abcdef"), 2<<20) // 32 MiB
	var out bytes.Buffer
	if _, err := b.Exec(deadline(t), Command{Argv: []string{"sha256sum"}, Env: env, Dir: "/", Stdin: bytes.NewReader(data), Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%x  -\n", sha256.Sum256(data)); out.String() != want {
		t.Errorf("%s, not %s", out.String(), want)
	}
}

func TestUnreadInputHoldsNothingUp(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	hang, w := io.Pipe()
	defer w.Close()
	many := make([]byte, 64<<20)
	for name, in := range map[string]func() io.Reader{
		"many bytes":     func() io.Reader { return bytes.NewReader(many) },
		"none, for ever": func() io.Reader { return hang },
	} {
		for _, argv := range [][]string{{"true"}, {"sh", "-c", "sleep 600 & exit 0"}} {
			if e, err := b.Exec(deadline(t), Command{Argv: argv, Env: env, Dir: "/", Stdin: in(), Stdout: io.Discard}); err != nil || e.Code != 0 {
				t.Errorf("%s: %+v, %v", name, e, err)
			}
		}
	}
}

func TestBackgroundNeverBlocksTheAnswer(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	for _, line := range []string{"sleep 600 & echo done", "setsid sleep 601 & echo done", "(setsid nohup sleep 602 >/dev/null 2>&1 &); echo done"} {
		if out, e := b.run(line); out != "done\n" || e != (Exit{Background: true}) {
			t.Errorf("%s: %q, %+v", line, out, e)
		}
	}
	if got := b.processes(); len(got) != 3 {
		t.Errorf("not all live on: %q", got)
	}
	// An endless writer neither blocks the answer nor costs the command what it wrote itself.
	out, e := b.run("head -c 65536 /dev/zero | tr '\\0' x; yes & true")
	if !e.Background || strings.Count(out, "x") != 65536 {
		t.Errorf("%+v, %d bytes of its own", e, strings.Count(out, "x"))
	}
	if err := b.KillAll(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if got := b.processes(); len(got) != 0 {
		t.Errorf("survived KillAll: %q", got)
	}
}

func TestOutputOfABurstIsWhole(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	slow := &slowWriter{}
	if _, err := b.Exec(deadline(t), Command{Argv: []string{"sh", "-c", "head -c 3000000 /dev/zero; sleep 600 &"}, Env: env, Dir: "/", Stdout: slow}); err != nil {
		t.Fatal(err)
	}
	if slow.n != 3000000 {
		t.Errorf("%d bytes", slow.n)
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	var out bytes.Buffer
	e, err := b.Exec(deadline(t), Command{
		Argv: []string{"sh", "-c", `stty size; echo $TERM; ps -o tty= -p $$; cat; echo end`}, Env: append([]string{"TERM=dumb"}, env...), Dir: "/",
		Stdout: &out, TTY: &TTY{Term: "xterm", Columns: 91, Rows: 17},
	})
	got := strings.ReplaceAll(out.String(), "\r", "")
	if err != nil || e.Code != 0 || !strings.HasPrefix(got, "17 91\nxterm\npts/") || !strings.HasSuffix(got, "end\n") {
		t.Errorf("%+v, %v: %q", e, err, got)
	}
	out.Reset()
	e, err = b.Exec(deadline(t), Command{Argv: []string{"sh", "-c", `read x; echo "got $x"`}, Env: env, Dir: "/",
		Stdin: strings.NewReader("line\n"), Stdout: &out, TTY: &TTY{}})
	if err != nil || e.Code != 0 || !strings.Contains(out.String(), "got line") {
		t.Errorf("%+v, %v: %q", e, err, out.String())
	}
}

func TestManyAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	var all, running sync.WaitGroup
	running.Add(maxSessions)
	for range maxSessions {
		all.Go(func() {
			_, _ = b.Exec(ctx, Command{Argv: []string{"sleep", "600"}, Env: env, Dir: "/", Sole: true, Started: running.Done})
		})
	}
	running.Wait()
	for range 1000 {
		if _, err := b.Exec(ctx, Command{Argv: []string{"true"}, Env: env, Dir: "/"}); enplace.KindOf(err) != enplace.KindBusy {
			t.Fatalf("one too many: %v", err)
		}
	}
	cancel()
	all.Wait()
	b.must("true")
}

func TestClosedConnection(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	c, err := Dial(deadline(t), b.dial())
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	_, err = c.Exec(deadline(t), Command{Argv: []string{"sleep", "600"}, Env: env, Dir: "/", Started: func() {
		go func() { failed <- c.Close() }()
	}})
	if !errors.Is(err, ErrClosed) || <-failed != nil {
		t.Errorf("%v", err)
	}
	if _, err := c.Exec(deadline(t), Command{Argv: []string{"true"}, Env: env, Dir: "/"}); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
	// What ran over it is killed.
	waitFor(t, "the command's end", func() bool { return len(b.processes()) == 0 })
}

func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	for name, payload := range map[string][]byte{"nothing": nil, "short": {0, 0}, "liar": {0, 0, 0, 1, 'a', 'b'}, "huge": {0xff, 0xff, 0xff, 0xff}, "noise": openData([]byte("{}"))} {
		for _, channel := range []string{execChannel, setupChannel} {
			ch, reqs, err := b.conn.OpenChannel(channel, payload)
			if err != nil {
				t.Fatal(err)
			}
			end, err := (&execution{ch: ch}).follow(deadline(t), reqs)
			if kind := enplace.KindOf(end.Error.err()); err != nil || kind != enplace.KindMalformed && kind != enplace.KindTooLarge &&
				!(channel == setupChannel && name == "noise") {
				t.Errorf("%s on %s: %v, %v", name, channel, end.Error, err)
			}
			_ = ch.Close()
		}
	}
	if _, _, err := b.conn.OpenChannel("direct-tcpip", nil); err == nil {
		t.Error("a channel nobody knows was opened")
	}
	b.must("true")
}

// waitFor polls for something that comes by itself.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for stop := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(stop) {
			t.Fatal("waited in vain for " + what)
		}
	}
}

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

type slowWriter struct{ counter }

func (s *slowWriter) Write(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return s.counter.Write(p)
}

func BenchmarkExec(b *testing.B) {
	for _, m := range []struct {
		name string
		sole bool
	}{{"supervised", false}, {"sole", true}} {
		b.Run(m.name, func(b *testing.B) {
			x := newBox(b, "")
			for b.Loop() {
				if _, err := x.Exec(context.Background(), Command{Argv: []string{"/bin/true"}, Env: env, Dir: "/", Sole: m.sole, Stdout: io.Discard, Stderr: io.Discard}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("round trip", func(b *testing.B) {
		x := newBox(b, "")
		for b.Loop() {
			if err := x.Setup(context.Background(), Setup{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{Env: env})
			if err != nil {
				b.Fatal(err)
			}
			_, _ = p.Wait()
		}
	})
}

// A supervisor that found no room for its threads was taken for a command that was killed: status 137, and not a word why.
func TestNoProcessesLeftIsNoKilledCommand(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	var warm sync.WaitGroup
	for range 16 { // the guest has its own threads then
		warm.Go(func() { b.must("sleep 0.2") })
	}
	warm.Wait()
	// Supervisors that wait for a command need no more threads.
	b.run("kill -KILL -1")
	now, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", b.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	room := unix.Rlimit{Cur: uint64(len(now) + 2), Max: uint64(len(now) + 2)}
	if err := unix.Prlimit(b.cmd.Process.Pid, unix.RLIMIT_NPROC, &room, nil); err != nil {
		t.Fatal(err)
	}
	e, err := b.Exec(deadline(t), Command{Argv: []string{"true"}, Env: env, Dir: "/"})
	if enplace.KindOf(err) != enplace.KindBusy {
		t.Errorf("%+v, %v", e, err)
	}
}
