package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newTaskExec(c *cli) *cobra.Command {
	var cwd, input string
	var vars []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "exec TASK -- COMMAND…",
		Short: "Run a command in a running task's sandbox, and exit with its status",
		Long: `Run a command beside what already runs in a task's sandbox. It runs word by word: no shell reads it unless you
name one. Output is shown as it comes; interrupting this command kills it with everything it started.
Under --json the result with its output is printed when the command has ended.`,
		Example: `  enplace task exec task_… -- ls -la /task
  enplace task exec task_… --env DEBUG=1 --timeout 30s -- python3 main.py
  enplace task exec task_… --input - -- bash -s < script.sh`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: completeTasks(c, enplace.TaskRunning),
	}
	f := cmd.Flags()
	f.StringVar(&cwd, "cwd", "", "where it starts (default "+enplace.WorkDir+")")
	f.StringArrayVar(&vars, "env", nil, "variable NAME=VALUE (repeat for more)")
	f.StringVar(&input, "input", "", "file that becomes its standard input; - for this command's")
	f.DurationVar(&timeout, "timeout", 0, fmt.Sprintf("time it may take; it is killed with everything it started at its end (default %s)", enplace.DefaultExecTimeout))
	cmd.RunE = withTask(c, func(ctx context.Context, api *client.Client, id string, args []string) error {
		in := enplace.ExecRequest{Command: args, Cwd: cwd, Timeout: int(math.Ceil(timeout.Seconds()))}
		var err error
		if in.Env, err = variables(vars); err != nil {
			return err
		}
		if in.Stdin, err = readText(c, input, enplace.MaxInputBytes, "--input"); err != nil {
			return err
		}
		r, err := execIn(ctx, c, api, id, in)
		if err != nil {
			return err
		}
		if r.Notice != "" && !c.json {
			fmt.Fprintln(c.err, notePrefix+r.Notice)
		}
		if r.ExitCode != 0 {
			return statusError(r.ExitCode)
		}
		return nil
	})
	return cmd
}

func execIn(ctx context.Context, c *cli, api *client.Client, id string, in enplace.ExecRequest) (enplace.ExecResult, error) {
	if c.json {
		r, err := api.Exec(ctx, id, in)
		if err != nil {
			return r, err
		}
		return r, c.print(r, nil)
	}
	return api.ExecStream(ctx, id, in, func(e enplace.ExecEvent) error {
		w := c.out
		if e.Stream == "stderr" {
			w = c.err
		}
		_, err := io.WriteString(w, e.Data)
		return err
	})
}

// variables reads NAME=VALUE.
func variables(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, v := range list {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, enplace.Errorf(enplace.KindMalformed, "%q is not NAME=VALUE", v).WithField("--env")
		}
		out[name] = value
	}
	return out, nil
}
