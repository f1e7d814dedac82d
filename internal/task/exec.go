package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/sandbox"
)

// Exec runs a command in a running task. With each, output goes there as it comes and the result holds none; an error of
// each kills the command. What it prints is in the task's log too.
func (s *Service) Exec(ctx context.Context, c enplace.Caller, id string, in enplace.ExecRequest, each func(enplace.ExecEvent) error) (enplace.ExecResult, error) {
	l, err := s.enter(ctx, c, id)
	if err != nil {
		return enplace.ExecResult{}, err
	}
	cmd, err := command(in, l.env)
	if err != nil {
		return enplace.ExecResult{}, err
	}
	l.log.Note("$ %s", strings.Join(in.Command, " "))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &execOutput{each: each, fail: cancel}
	logOut, logErr := l.log.Stream(), l.log.Stream()
	defer logOut.Close()
	defer logErr.Close()
	cmd.Stdout = &execStream{out: out, name: "stdout", log: logOut}
	cmd.Stderr = &execStream{out: out, name: "stderr", log: logErr}

	start := time.Now()
	exit, err := l.box.Exec(ctx, cmd)
	if errors.Is(err, sandbox.ErrStopped) {
		return enplace.ExecResult{}, enplace.Conflictf("the task ended while the command ran")
	}
	if cause := context.Cause(ctx); cause != nil {
		return enplace.ExecResult{}, cause
	}
	if err != nil {
		return enplace.ExecResult{}, err
	}
	out.finish()
	res := enplace.ExecResult{
		ExitCode: exit.Code, Stdout: out.text("stdout"), Stderr: out.text("stderr"), Truncated: out.truncated, TimedOut: exit.TimedOut,
		DurationMS: time.Since(start).Milliseconds(),
	}
	switch {
	case exit.TimedOut:
		res.Notice = fmt.Sprintf("the command ran for %s, its limit, and was killed with everything it started", cmd.Timeout)
	case exit.Background:
		res.Notice = "the command left processes running; they end with the task"
	}
	if out.truncated {
		res.Notice = strings.TrimPrefix(res.Notice+fmt.Sprintf("; output over %d MiB was dropped here and is in the task's log", enplace.MaxExecOutputBytes>>20), "; ")
	}
	return res, nil
}

// Dial opens an SSH connection to the guest of a running task.
func (s *Service) Dial(ctx context.Context, c enplace.Caller, id string) (net.Conn, error) {
	l, err := s.enter(ctx, c, id)
	if err != nil {
		return nil, err
	}
	s.cfg.Audit.Record(ctx, c, "task.ssh", id, nil)
	return l.box.Dial(ctx)
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

func command(in enplace.ExecRequest, env []string) (sandbox.Command, error) {
	if len(in.Command) == 0 || in.Command[0] == "" {
		return sandbox.Command{}, enplace.Invalidf("must name a program").WithField("command")
	}
	if in.Timeout < 0 || time.Duration(in.Timeout)*time.Second > enplace.MaxTaskTimeout {
		return sandbox.Command{}, enplace.Invalidf("must lie between 1 and %d seconds", int(enplace.MaxTaskTimeout.Seconds())).WithField("timeout")
	}
	cmd := sandbox.Command{Argv: in.Command, Dir: enplace.WorkDir, Timeout: enplace.DefaultExecTimeout}
	if in.Cwd != "" {
		if !path.IsAbs(in.Cwd) {
			return sandbox.Command{}, enplace.Invalidf("must be an absolute path").WithField("cwd")
		}
		cmd.Dir = path.Clean(in.Cwd)
	}
	if in.Timeout > 0 {
		cmd.Timeout = time.Duration(in.Timeout) * time.Second
	}
	cmd.Env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { // a copy: the task's commands share theirs
		name, _, _ := strings.Cut(v, "=")
		_, instead := in.Env[name]
		return instead
	})
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(in.Env[name], "\x00") {
			return sandbox.Command{}, enplace.Invalidf("%q cannot be a variable", name).WithField("env")
		}
		cmd.Env = append(cmd.Env, name+"="+in.Env[name])
	}
	if in.Stdin != "" {
		cmd.Stdin = strings.NewReader(in.Stdin)
	}
	return cmd, nil
}

// execOutput gathers the two streams of a command.
type execOutput struct {
	each func(enplace.ExecEvent) error
	fail context.CancelCauseFunc

	mu        sync.Mutex
	kept      map[string]*strings.Builder
	rest      map[string][]byte // the start of a rune that a write cut
	truncated bool
}

// execStream is one of them.
type execStream struct {
	out  *execOutput
	name string
	log  interface{ Write([]byte) (int, error) }
}

func (e *execStream) Write(p []byte) (int, error) {
	if _, err := e.log.Write(p); err != nil {
		return 0, fmt.Errorf("writing the task's log: %w", err)
	}
	return len(p), e.out.add(e.name, p)
}

func (o *execOutput) add(stream string, p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kept == nil {
		o.kept = map[string]*strings.Builder{"stdout": {}, "stderr": {}}
		o.rest = map[string][]byte{}
	}
	p = append(o.rest[stream], p...)
	cut := len(p) - partialRune(p)
	o.rest[stream] = slices.Clone(p[cut:])
	return o.emit(stream, p[:cut])
}

func (o *execOutput) emit(stream string, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	text := strings.ToValidUTF8(string(p), "\uFFFD")
	if o.each != nil {
		err := o.each(enplace.ExecEvent{Stream: stream, Data: text})
		if err != nil {
			o.fail(err)
		}
		return err
	}
	kept := o.kept[stream]
	if room := enplace.MaxExecOutputBytes - kept.Len(); len(text) > room {
		text, o.truncated = strings.ToValidUTF8(text[:room], ""), true
	}
	kept.WriteString(text)
	return nil
}

func (o *execOutput) text(stream string) string {
	if o.kept == nil {
		return ""
	}
	return o.kept[stream].String()
}

// finish gives out what a cut rune left.
func (o *execOutput) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for stream, rest := range o.rest {
		_ = o.emit(stream, rest) // the command has ended: there is nothing left to stop
	}
}

// partialRune gives the length of an incomplete rune at the end of p.
func partialRune(p []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(p)); n++ {
		if b := p[len(p)-n]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(p[len(p)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
