// Package command runs what a request asks for in a sandbox: it makes the command, and gathers or passes on what that prints. Tasks
// and computers take the same requests and give the same answers.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"enplace"
	"enplace/internal/sandbox"
)

// New makes a command of a request: with env, in which the request's variables take the place of those of the same name, and in
// dir unless the request names a folder. Errors are of kind invalid and name the field.
func New(in enplace.ExecRequest, env []string, dir string) (sandbox.Command, error) {
	if len(in.Command) == 0 || in.Command[0] == "" {
		return sandbox.Command{}, enplace.Invalidf("must name a program").WithField("command")
	}
	if in.Timeout < 0 || time.Duration(in.Timeout)*time.Second > enplace.MaxTaskTimeout {
		return sandbox.Command{}, enplace.Invalidf("must lie between 1 and %d seconds", int(enplace.MaxTaskTimeout.Seconds())).WithField("timeout")
	}
	cmd := sandbox.Command{Argv: in.Command, Dir: dir, Timeout: enplace.DefaultExecTimeout}
	if in.Cwd != "" {
		if !path.IsAbs(in.Cwd) {
			return sandbox.Command{}, enplace.Invalidf("must be an absolute path").WithField("cwd")
		}
		cmd.Dir = path.Clean(in.Cwd)
	}
	if in.Timeout > 0 {
		cmd.Timeout = time.Duration(in.Timeout) * time.Second
	}
	cmd.Env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { // a copy: others share it
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

// Box is what Run needs of a sandbox.
type Box interface {
	Exec(ctx context.Context, c sandbox.Command) (sandbox.Exit, error)
}

// Options say where output goes, and how a notice is worded.
type Options struct {
	// Each gets output as it comes, and the result holds none; an error of it kills the command. Nil keeps output for the result.
	Each func(stream, data string) error
	// Stdout and Stderr get a copy of all output; nil for none.
	Stdout, Stderr io.Writer

	Left  string // the notice for a command that left processes running
	Whole string // how to come by all of an output that went over the limit, behind "lost its middle here"
}

// The statuses with which shells answer for a program that did not run.
const (
	cannotRun = 126
	noProgram = 127
)

// NotRun gives the status of a command whose program is not there or cannot be run, as a shell would, and why in one line; 0 for any
// other error.
func NotRun(err error) (status int, why string) {
	var e *enplace.Error
	if !errors.As(err, &e) || e.Field != "command" || e.Kind != enplace.KindInvalid && e.Kind != enplace.KindTooLarge {
		return 0, ""
	}
	if errors.Is(err, sandbox.ErrNoProgram) {
		return noProgram, enplace.Shown(e.Message, maxWhy)
	}
	return cannotRun, enplace.Shown(e.Message, maxWhy)
}

const maxWhy = 1000 // it names the PATH

// Run runs a command. One whose program is not there or cannot be run has ended as a shell would have it: with the status 127 or 126,
// and a line on its standard error. An error of the box is given as it is; where the context's end was the reason, the cause of that is.
func Run(ctx context.Context, box Box, cmd sandbox.Command, o Options) (enplace.ExecResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &output{each: o.Each, fail: cancel}
	cmd.Stdout = &stream{out: out, name: "stdout", copy: o.Stdout}
	cmd.Stderr = &stream{out: out, name: "stderr", copy: o.Stderr}
	start := time.Now()
	exit, err := box.Exec(ctx, cmd)
	if status, why := NotRun(err); status != 0 {
		fmt.Fprintf(cmd.Stderr, "enplace: %s\n", why) // an error of it ends the context
		exit, err = sandbox.Exit{Code: status}, nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, sandbox.ErrStopped) {
		return enplace.ExecResult{}, cause
	}
	if err != nil {
		return enplace.ExecResult{}, err
	}
	out.finish()
	res := enplace.ExecResult{
		ExitCode: exit.Code, TimedOut: exit.TimedOut, DurationMS: time.Since(start).Milliseconds(),
	}
	res.Stdout, res.StdoutBytes = out.text("stdout")
	res.Stderr, res.StderrBytes = out.text("stderr")
	res.Truncated = res.StdoutBytes > 0 || res.StderrBytes > 0
	switch {
	case exit.TimedOut:
		res.Notice = fmt.Sprintf("the command ran for %s, its limit, and was killed with everything it started", cmd.Timeout)
	case exit.Background:
		res.Notice = o.Left
	}
	if res.Truncated {
		res.Notice = strings.TrimPrefix(res.Notice+fmt.Sprintf("; output over %d MiB lost its middle here%s", enplace.MaxExecOutputBytes>>20, o.Whole), "; ")
	}
	return res, nil
}
