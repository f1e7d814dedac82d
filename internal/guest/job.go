package guest

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// job is a command that runs inside.
type job struct {
	procs *table
	kid   *kid        // the child of process 1 that it is, or is below
	sup   *supervisor // nil when the command is that child itself
	pid   int
	io    *stdio

	mu       sync.Mutex
	over     bool // its end is known: nothing is left to be signalled
	killed   bool
	timedOut bool
}

// start finds a command's program and runs it. The error is for the host.
func (s *server) start(r execRequest) (*job, error) {
	program, err := resolve(r)
	if err != nil {
		return nil, err
	}
	return s.startProgram(program, r)
}

// startProgram runs a command whose program is known.
func (s *server) startProgram(program string, r execRequest) (*job, error) {
	io, err := openStdio(r, s.null)
	if err != nil {
		return nil, err
	}
	l := launch{program: program, argv: r.Argv, env: r.Env, dir: r.Dir, tty: r.TTY != nil}
	j, errno, err := s.procs.launch(l, io, r.Sole)
	io.closeShared()
	if errno != 0 {
		err = startError(r, program, errno)
	}
	if err != nil {
		io.close()
		return nil, err
	}
	return j, nil
}

// launch forks a command, below a supervisor unless it is the sandbox's only one.
func (t *table) launch(l launch, io *stdio, sole bool) (*job, syscall.Errno, error) {
	j := &job{procs: t, io: io}
	if sole {
		files := []uintptr{uintptr(rawFD(io.child[0])), uintptr(rawFD(io.child[1])), uintptr(rawFD(io.child[2]))}
		k, err := t.spawn(l.program, l.argv, l.attr(files), true)
		if errno, ok := err.(syscall.Errno); ok {
			return nil, errno, nil
		}
		if err != nil {
			return nil, 0, err
		}
		j.kid, j.pid = k, k.pid
		return j, 0, nil
	}
	sup, err := t.supervisor()
	if err != nil {
		return nil, 0, err
	}
	pid, errno, err := sup.start(l, io.child)
	switch {
	case err != nil:
		// Something inside killed the supervisor. It may have started the command already.
		_ = sup.conn.Close()
		t.kill(sup.kid)
		return nil, 0, fmt.Errorf("a process of the sandbox killed the supervisor of this command: %w", err)
	case errno != 0:
		t.release(sup)
		return nil, errno, nil
	}
	j.kid, j.sup, j.pid = sup.kid, sup, pid
	return j, 0, nil
}

// wait gives how the command ended. Its output has been passed on by then.
func (j *job) wait(timeout time.Duration) Exit {
	if timeout > 0 {
		timer := time.AfterFunc(timeout, func() { j.kill(true) })
		defer timer.Stop()
	}
	var ws syscall.WaitStatus
	var left bool
	var err error
	if j.sup == nil {
		<-j.kid.ended
		ws = j.kid.status
	} else {
		ws, left, err = j.sup.wait()
	}
	e := j.settle(ws, left, err)
	j.io.finish()
	return e
}

// settle makes out how it ended, and lets go of the supervisor.
func (j *job) settle(ws syscall.WaitStatus, left bool, err error) Exit {
	j.mu.Lock() // waits for a kill that is under way, so the answer comes after it
	defer j.mu.Unlock()
	j.over = true
	if err != nil {
		ws = syscall.WaitStatus(syscall.SIGKILL)
		if !j.killed { // by something inside: what the command started must not outlive its supervisor
			j.procs.kill(j.kid)
		}
	}
	e := exitOf(ws)
	e.TimedOut = j.timedOut && e.Signal == "KILL"
	e.Background = left && !j.killed
	switch {
	case j.sup == nil:
	case err == nil && !left && !j.killed:
		j.procs.release(j.sup)
	default: // dead, or it ends with the last of what it watches over
		_ = j.sup.conn.Close()
	}
	return e
}

// kill ends the command and everything it started, and returns when that is so. After the command's own end it does nothing.
func (j *job) kill(deadline bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over || j.killed {
		return
	}
	j.killed, j.timedOut = true, deadline
	j.procs.kill(j.kid)
}

// signal sends a signal to the command and its process group. KILL reaches everything it started.
func (j *job) signal(name string) {
	if name == "KILL" {
		j.kill(false)
		return
	}
	sig := unix.SignalNum("SIG" + name)
	j.mu.Lock()
	defer j.mu.Unlock()
	if sig != 0 && !j.over && !j.killed {
		_ = syscall.Kill(-j.pid, sig)
	}
}

// exitOf gives the exit of a wait status.
func exitOf(ws syscall.WaitStatus) Exit {
	if ws.Signaled() {
		sig := ws.Signal()
		e := Exit{Code: 128 + int(sig), Signal: fmt.Sprint(int(sig))} // real-time signals have no name
		if name := unix.SignalName(sig); name != "" {
			e.Signal = name[len("SIG"):]
		}
		return e
	}
	return Exit{Code: ws.ExitStatus()}
}
