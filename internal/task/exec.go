package task

import (
	"context"
	"errors"
	"net"
	"strings"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/command"
	"enplace/internal/sandbox"
)

// Exec runs a command in a running task. With each, output goes there as it comes and the result holds none; an error of
// each kills the command. What it prints is in the task's log too.
func (s *Service) Exec(ctx context.Context, c enplace.Caller, id string, in enplace.ExecRequest, each func(enplace.ExecEvent) error) (enplace.ExecResult, error) {
	l, err := s.enter(ctx, c, id)
	if err != nil {
		return enplace.ExecResult{}, err
	}
	cmd, err := command.New(in, l.env, enplace.WorkDir)
	if err != nil {
		return enplace.ExecResult{}, err
	}
	l.log.Note("$ %s", strings.Join(in.Command, " "))
	logOut, logErr := l.log.Stream(), l.log.Stream()
	defer logOut.Close()
	defer logErr.Close()
	o := command.Options{Stdout: logOut, Stderr: logErr, Left: "the command left processes running; they end with the task", Whole: ", and is in the task's log"}
	if each != nil {
		o.Each = func(stream, data string) error { return each(enplace.ExecEvent{Stream: stream, Data: data}) }
	}
	res, err := command.Run(ctx, l.box, cmd, o)
	if errors.Is(err, sandbox.ErrStopped) {
		return enplace.ExecResult{}, enplace.Conflictf("the task ended while the command ran")
	}
	return res, err
}

// Dial opens an SSH connection to the guest of a running task.
func (s *Service) Dial(ctx context.Context, c enplace.Caller, id string) (net.Conn, error) {
	l, err := s.enter(ctx, c, id)
	if err != nil {
		return nil, err
	}
	s.cfg.Audit.Record(ctx, c, "task.ssh", id, nil)
	return l.box.Dial(ctx, nil)
}

// enter gives a running task that the caller may run commands in.
func (s *Service) enter(ctx context.Context, c enplace.Caller, id string) (*live, error) {
	rec, err := s.load(ctx, c, access.Run, id)
	if err != nil {
		return nil, err
	}
	if !rec.Status.Ended() {
		l, err := s.await(ctx, id)
		if err != nil {
			return nil, err
		}
		if l != nil {
			return l, nil
		}
	}
	return nil, enplace.Conflictf("the task has ended, so no command can run in it").WithFix("start another task")
}
