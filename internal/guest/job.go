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
	procs   *table
	request execRequest
	program string
	io      *stdio
	kid     *kid        // the child of process 1 that it is, or is below
	sup     *supervisor // nil when the command is that child itself
	pid     int         // 0 until confirm

	mu       sync.Mutex
	over     bool // its end is known: nothing is left to be signalled
	killed   bool
	timedOut bool
	timer    *time.Timer
}

// begin finds a command's program and starts it. The job can be killed from here on, and has to be confirmed and waited for.
// The error is for the host.
func (s *server) begin(r execRequest) (*job, error) {
	program, err := resolve(r)
	if err != nil {
		return nil, err
	}
	return s.beginProgram(program, r)
}

// beginProgram is begin for a program that is known.
func (s *server) beginProgram(program string, r execRequest) (*job, error) {
	io, err := openStdio(r, s.null)
	if err != nil {
		return nil, err
	}
	j := &job{procs: s.procs, request: r, program: program, io: io}
	err = j.launch()
	io.closeShared()
	if err != nil {
		io.close()
		return nil, err
	}
	if r.Timeout > 0 {
		j.timer = time.AfterFunc(r.Timeout, func() { j.kill(true) })
	}
	return j, nil
}

// launch forks the command, or asks a supervisor to do so.
func (j *job) launch() error {
	l := launch{program: j.program, argv: j.request.Argv, env: j.request.Env, dir: j.request.Dir, tty: j.request.TTY != nil}
	if !j.request.Sole {
		var err error
		j.sup, err = j.procs.ask(l, j.io.child)
		if err == nil {
			j.kid = j.sup.kid
		}
		return err
	}
	files := []uintptr{uintptr(rawFD(j.io.child[0])), uintptr(rawFD(j.io.child[1])), uintptr(rawFD(j.io.child[2]))}
	k, err := j.procs.spawn(j.program, j.request.Argv, l.attr(files), true)
	if errno, ok := err.(syscall.Errno); ok {
		return startError(j.request, j.program, errno)
	}
	if err != nil {
		return err
	}
	j.kid, j.pid = k, k.pid
	return nil
}

// confirm waits until the program runs. When it cannot be run, the error says why and the job is done with. A supervisor
// that was killed meanwhile may have started it, so that is left for wait to find.
func (j *job) confirm() error {
	if j.sup == nil {
		return nil
	}
	pid, errno, err := j.sup.started()
	gaveUp := err != nil && j.sup.gaveUp()
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case gaveUp:
		errno = unix.EAGAIN
		if !j.killed { // it may have come as far as the fork
			j.procs.kill(j.kid)
		}
		_ = j.sup.conn.Close()
	case err != nil || errno == 0:
		j.pid = pid
		return nil
	case !j.killed:
		j.procs.release(j.sup)
	}
	j.over = true
	j.stopTimer()
	j.io.close()
	return startError(j.request, j.program, errno)
}

func (j *job) stopTimer() {
	if j.timer != nil {
		j.timer.Stop()
	}
}

// wait gives how the command ended. Its output has been passed on by then.
func (j *job) wait() Exit {
	var ws syscall.WaitStatus
	var left bool
	var err error
	if j.sup == nil {
		<-j.kid.ended
		ws = j.kid.status
	} else {
		ws, left, err = j.sup.ended()
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
	j.stopTimer()
	if err != nil {
		ws = syscall.WaitStatus(syscall.SIGKILL)
		if !j.killed { // by something inside: what the command started must not outlive its supervisor
			j.procs.kill(j.kid)
		}
	}
	if left && j.request.Whole && !j.killed {
		j.procs.kill(j.kid)
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
	if sig != 0 && j.pid != 0 && !j.over && !j.killed {
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
