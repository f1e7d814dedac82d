package guest

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// family is what a command leaves behind in all the usual ways; it ends when its last line says so.
const family = "sleep 600 & setsid sleep 601 & (setsid nohup sleep 602 >/dev/null 2>&1 &); "

// neighbour starts another command and a daemon of it, so that a kill may not take everything; it gives a check that both
// still live.
func (b *box) neighbour() func() {
	b.t.Helper()
	b.must("setsid sleep 700 >/dev/null 2>&1 &")
	ctx, cancel := context.WithCancel(deadline(b.t))
	started, done := make(chan struct{}), make(chan Exit, 1)
	go func() {
		e, _ := b.Exec(ctx, Command{Argv: []string{"sh", "-c", "sleep 701; exit 3"}, Env: env, Dir: "/", Started: func() { close(started) }})
		done <- e
	}()
	<-started
	b.t.Cleanup(cancel)
	return func() {
		b.t.Helper()
		select {
		case e := <-done:
			b.t.Errorf("the neighbour ended: %+v", e)
		default:
		}
		got := strings.Join(b.processes(), "\n")
		if strings.Count(got, "sleep 700") != 1 || strings.Count(got, "sleep 701") < 1 {
			b.t.Errorf("the neighbour is gone: %s", got)
		}
	}
}

// strangers gives the processes that are not the neighbour's.
func (b *box) strangers() []string {
	b.t.Helper()
	var list []string
	for _, p := range b.processes() {
		if !strings.Contains(p, "sleep 70") {
			list = append(list, p)
		}
	}
	return list
}

// alone and beside run a test in an otherwise empty sandbox, and beside a neighbour that must survive it.
func aloneAndBeside(t *testing.T, f func(t *testing.T, b *box)) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		f(t, newBox(t, ""))
	})
	t.Run("beside", func(t *testing.T) {
		t.Parallel()
		b := newBox(t, "")
		check := b.neighbour()
		f(t, b)
		check()
	})
}

func TestDeadlineKillsEverythingStarted(t *testing.T) {
	aloneAndBeside(t, func(t *testing.T, b *box) {
		var out bytes.Buffer
		e, err := b.Exec(deadline(t), Command{Argv: []string{"bash", "-c", family + "echo before; wait"}, Env: env, Dir: "/", Stdout: &out, Timeout: 300 * time.Millisecond})
		if err != nil || e != (Exit{Code: 137, Signal: "KILL", TimedOut: true}) || out.String() != "before\n" {
			t.Errorf("%+v, %v, %q", e, err, out.String())
		}
		if got := b.strangers(); len(got) != 0 {
			t.Errorf("survivors: %q", got)
		}
	})
}

func TestDeadlineOfASoleCommand(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	e, err := b.Exec(deadline(t), Command{Argv: []string{"bash", "-c", family + "wait"}, Env: env, Dir: "/", Sole: true, Timeout: 300 * time.Millisecond})
	if err != nil || e != (Exit{Code: 137, Signal: "KILL", TimedOut: true}) {
		t.Errorf("%+v, %v", e, err)
	}
	if got := b.processes(); len(got) != 0 {
		t.Errorf("survivors: %q", got)
	}
}

func TestWholeCommandLeavesNothing(t *testing.T) {
	aloneAndBeside(t, func(t *testing.T, b *box) {
		e, err := b.Exec(deadline(t), Command{Argv: []string{"sh", "-c", family + "exit 4"}, Env: env, Dir: "/", Whole: true})
		if err != nil || e.Code != 4 || !e.Background || e.TimedOut {
			t.Errorf("%+v, %v", e, err)
		}
		if left := b.strangers(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestCancellationKillsEverythingStarted(t *testing.T) {
	aloneAndBeside(t, func(t *testing.T, b *box) {
		ctx, cancel := context.WithCancel(deadline(t))
		_, err := b.Exec(ctx, Command{Argv: []string{"bash", "-c", family + "echo ready; wait"}, Env: env, Dir: "/", Stdout: onWrite(cancel)})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if got := b.strangers(); len(got) != 0 {
			t.Errorf("survivors: %q", got)
		}
	})
}

func TestCommandThatKillsItsSupervisor(t *testing.T) {
	aloneAndBeside(t, func(t *testing.T, b *box) {
		if _, e := b.run(family + "kill -KILL $PPID; wait"); e != (Exit{Code: 137, Signal: "KILL"}) {
			t.Errorf("%+v", e)
		}
		if got := b.strangers(); len(got) != 0 {
			t.Errorf("survivors: %q", got)
		}
		b.must("true")
	})
}

func TestCommandThatStopsItsSupervisor(t *testing.T) {
	aloneAndBeside(t, func(t *testing.T, b *box) {
		e, err := b.Exec(deadline(t), Command{Argv: []string{"bash", "-c", family + "kill -STOP $PPID; wait"}, Env: env, Dir: "/", Timeout: 300 * time.Millisecond})
		if err != nil || !e.TimedOut {
			t.Errorf("%+v, %v", e, err)
		}
		if got := b.strangers(); len(got) != 0 {
			t.Errorf("survivors: %q", got)
		}
	})
}

func TestCommandThatKillsEveryone(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	b.must("true") // leaves an idle supervisor to be killed
	if _, e := b.run("kill -KILL -1; sleep 600"); e.Signal != "KILL" {
		t.Errorf("%+v", e)
	}
	b.must("true")
}

// Processes that fork and exit all the time, so that no list of them is ever true, and one that hides behind a dead first
// thread.
func TestKillOfWhatRunsAway(t *testing.T) {
	for _, program := range []string{"perl", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			skip(t, err.Error())
		}
	}
	for name, line := range map[string]string{
		"hopping":           `setsid perl -e 'while (1) { fork and exit }' & echo ready; sleep 600`,
		"hopping in crowds": `for i in $(seq 40); do perl -e 'while (1) { fork and exit }' & done; echo ready; wait`,
		"fork bomb":         `ulimit -u 400; echo ready; exec perl -e 'while (1) { fork }'`,
		"first thread dead": `exec python3 -c 'import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start(); print("ready", flush=True); ctypes.CDLL(None).syscall(60, 0)'`,
	} {
		t.Run(name, func(t *testing.T) {
			aloneAndBeside(t, func(t *testing.T, b *box) {
				ctx, cancel := context.WithCancel(deadline(t))
				started := make(chan struct{})
				ended := make(chan error, 1)
				go func() {
					_, err := b.Exec(ctx, Command{Argv: []string{"bash", "-c", line}, Env: env, Dir: "/", Stdout: onWrite(func() { close(started) })})
					ended <- err
				}()
				<-started
				cancel()
				if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if got := b.strangers(); len(got) != 0 {
					t.Errorf("survivors: %q", got)
				}
			})
		})
	}
}

func TestKillAll(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	ended := make(chan Exit, 1)
	started := make(chan struct{})
	go func() {
		e, _ := b.Exec(deadline(t), Command{Argv: []string{"bash", "-c", "ulimit -u 400; " + family + "exec perl -e 'close STDOUT; while (1) { fork }'"}, Env: env, Dir: "/",
			Started: func() { close(started) }})
		ended <- e
	}()
	<-started
	if err := b.KillAll(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if e := <-ended; e.Signal != "KILL" || e.TimedOut {
		t.Errorf("%+v", e)
	}
	if got := b.processes(); len(got) != 0 {
		t.Errorf("survivors: %q", got)
	}
	if err := b.KillAll(deadline(t)); err != nil {
		t.Errorf("with nobody there: %v", err)
	}
}

func TestNoZombieIsLeft(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	b.must("for i in $(seq 20); do (setsid sh -c 'sleep 0.0$RANDOM & exit' &); done; true")
	waitFor(t, "the last of them", func() bool { return len(b.processes()) == 0 })
}

func TestProcessOneIsOutOfReach(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	for _, pid := range []string{"1", "$PPID"} {
		for _, line := range []string{"ls /proc/" + pid + "/fd", "cat /proc/" + pid + "/environ", "head -c1 /proc/" + pid + "/mem", "readlink /proc/" + pid + "/exe",
			": > /proc/" + pid + "/mem", "cat /opt/guest"} {
			if out, e := b.run(line); e.Code == 0 {
				t.Errorf("%s went through: %s", line, out)
			}
		}
	}
}

// onWrite is called at the first write.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}
