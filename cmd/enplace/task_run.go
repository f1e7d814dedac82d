package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

// runOptions are the flags of task run.
type runOptions struct {
	harness, env, egress, input, out string
	version                          int
	limits                           limitFlags
	detach                           bool
}

func newTaskRun(c *cli) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [-- COMMAND…]",
		Short: "Run a task, show what it prints, and exit with its status",
		Long: `Run a task: of a harness (--harness), or a COMMAND, which runs word by word in /task with the environment of --env
in place. Without either the task is an open sandbox, for enplace task exec and enplace task ssh.

What the task prints is shown as it comes, and Enplace's own remarks on standard error. The exit status is the
task's own; 1 when it has none. Interrupting this command (Ctrl-C) cancels the task; with --detach it goes on.
Standard input is read only when asked for: --input -.`,
		Example: `  enplace task run --env content-studio -- python3 -c 'import pandas; print(pandas.__version__)'
  enplace task run --env content-studio --out ./results -- bash -c 'tsc --version > tsc.txt'
  enplace task run --harness report --input ./request.json --timeout 10m
  enplace task run --env content-studio --detach`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.harness != "" && (len(args) > 0 || o.egress != "") {
				return usageError(cmd, "a harness has its own command and egress: give either --harness, or a command")
			}
			if o.detach && o.out != "" {
				return usageError(cmd, "--out waits for the task's end, and --detach does not; later: enplace task archive TASK --extract DIR")
			}
			api, err := c.client()
			if err != nil {
				return err
			}
			t, err := startTask(cmd.Context(), c, api, o, args)
			if err != nil {
				return err
			}
			if o.detach || t.Open {
				return c.print(t, func(w io.Writer) { printStarted(w, c.err, t) })
			}
			return watchTask(cmd.Context(), c, api, t, o.out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.harness, "harness", "", "harness to run, by id or name")
	f.StringVar(&o.env, "env", "", "environment to put in place, by id, slug or name")
	f.IntVar(&o.version, "version", 0, "version of the environment (default: the active one)")
	f.StringVar(&o.input, "input", "", "file that becomes the command's standard input; - for this command's")
	f.StringVar(&o.egress, "egress", "", "what it may reach: open, none, or hosts separated by commas (default none)")
	f.StringVar(&o.out, "out", "", "folder to download into what the task leaves in /task")
	f.BoolVarP(&o.detach, "detach", "d", false, "print the task's id and do not wait")
	o.limits.flags(f)
	complete(cmd, "env", completeEnvironments(c))
	complete(cmd, "harness", completeHarnesses(c))
	return cmd
}

// startTask starts the task that the flags ask for. A command without a harness gets one, which goes again at once: the task
// has taken from it all that it needs.
func startTask(ctx context.Context, c *cli, api *client.Client, o runOptions, argv []string) (enplace.Task, error) {
	var in enplace.CreateTask
	var err error
	if in.Limits, err = o.limits.get(); err != nil {
		return enplace.Task{}, err
	}
	if in.Input, err = readText(c, o.input, enplace.MaxInputBytes, "--input"); err != nil {
		return enplace.Task{}, err
	}
	if o.version != 0 {
		in.Metadata.EnvironmentVersion = &o.version
	}
	if o.env != "" {
		e, err := findEnvironment(ctx, api, o.env)
		if err != nil {
			return enplace.Task{}, err
		}
		in.Metadata.Environment = e.ID
	}
	if o.harness != "" {
		h, err := findHarness(ctx, api, o.harness)
		if err != nil {
			return enplace.Task{}, err
		}
		in.Metadata.Harness = h.ID
		return api.CreateTask(ctx, in)
	}
	h := enplace.CreateHarness{Name: runName(argv), Command: argv}
	if o.egress != "" {
		h.Egress = parseEgress(o.egress)
	}
	made, err := api.CreateHarness(ctx, h)
	if err != nil {
		return enplace.Task{}, err
	}
	defer func() {
		clean, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer done()
		if err := api.DeleteHarness(clean, made.ID); err != nil {
			fmt.Fprintf(c.err, "enplace: the harness %s stays: %v\n", made.ID, err)
		}
	}()
	in.Metadata.Harness = made.ID
	return api.CreateTask(ctx, in)
}

// runName names the harness of a command for the short time that it is there, and in the audit for good.
func runName(argv []string) string {
	name := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8("run: "+commandLine(argv), ""))
	if r := []rune(name); len(r) > enplace.MaxNameLength {
		name = string(r[:enplace.MaxNameLength-1]) + "…"
	}
	return name
}

// printStarted gives the id alone to standard output, where scripts want it.
func printStarted(w, hint io.Writer, t enplace.Task) {
	fmt.Fprintln(w, t.ID)
	if t.Open {
		fmt.Fprintf(hint, "an open sandbox: enplace task exec %s -- COMMAND, or enplace task ssh %[1]s; end it with enplace task cancel %[1]s\n", t.ID)
	}
}

// watchTask shows what a task prints until it ends, and ends with its status.
func watchTask(ctx context.Context, c *cli, api *client.Client, t enplace.Task, out string) error {
	// Without this the end of a reader (a pipe into head) would end this program and leave the task running.
	signal.Ignore(syscall.SIGPIPE)
	show := &taskOutput{out: c.out, notes: c.err}
	if c.json {
		show.out = c.err // the answer alone goes to standard output
	}
	_, err := api.FollowTaskLog(ctx, t.ID, show)
	if err == nil || enplace.KindOf(err) == enplace.KindNotFound { // one that ended before it had a log
		t, err = api.WaitTask(ctx, t.ID)
	}
	if err != nil {
		return giveUp(ctx, c, api, t.ID, err)
	}
	if out != "" {
		if err := downloadTask(ctx, c, api, t, out); err != nil {
			return err
		}
	}
	if t.Error != nil && !c.json {
		if show.noted == 0 {
			fmt.Fprintln(c.err, "enplace: "+t.Error.Message)
		}
		for _, fix := range t.Error.Fixes {
			fmt.Fprintln(c.err, "  what to do: "+fix)
		}
	}
	if err := c.print(t, func(io.Writer) {}); err != nil {
		return err
	}
	return taskStatus(t)
}

// taskStatus is the error that makes this program end as the task did.
func taskStatus(t enplace.Task) error {
	switch {
	case t.ExitCode != nil && *t.ExitCode != 0:
		return statusError(*t.ExitCode)
	case t.Status != enplace.TaskSucceeded:
		return statusError(1)
	}
	return nil
}

// giveUp cancels a task that nobody watches any more: this program was interrupted, or its own output is gone. A server that
// cannot be reached keeps the task running.
func giveUp(ctx context.Context, c *cli, api *client.Client, id string, cause error) error {
	var e *enplace.Error
	if ctx.Err() == nil && errors.As(cause, &e) {
		fmt.Fprintf(c.err, "enplace: %s goes on; see enplace task show %[1]s\n", id)
		return cause
	}
	fmt.Fprintf(c.err, "enplace: cancelling %s\n", id)
	clean, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer done()
	_, err := api.CancelTask(clean, id)
	if err != nil && enplace.KindOf(err) != enplace.KindConflict { // it had ended just before
		return err
	}
	if errors.Is(cause, syscall.EPIPE) {
		return statusError(128 + int(syscall.SIGPIPE))
	}
	return cause
}

// taskOutput parts what a task printed from Enplace's remarks between, which no output can pass for.
type taskOutput struct {
	out, notes io.Writer
	noted      int
}

// notePrefix begins the lines of a log that Enplace wrote itself.
const notePrefix = "[enplace] "

// Write takes one line, as the client's followers give them.
func (t *taskOutput) Write(line []byte) (int, error) {
	if strings.HasPrefix(string(line), notePrefix) {
		t.noted++
		return t.notes.Write(line)
	}
	return t.out.Write(line)
}
