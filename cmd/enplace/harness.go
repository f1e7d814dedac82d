package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"enplace"
	"enplace/client"
)

func newHarness(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "harness",
		Aliases: []string{"harnesses"},
		Short:   "Harnesses: what tasks run, on which environment, within which limits",
		Long: `A harness is an agent's configuration: a command, the environment it starts in, its instructions, limits and
what it may reach. Each run of it is a task.

HARNESS is an id (har_…) or a name.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newHarnessCreate(c), newHarnessList(c), newHarnessShow(c), newHarnessDelete(c))
	return cmd
}

// findHarness gives the harness of an id or name; of several with that name it wants the id.
func findHarness(ctx context.Context, api *client.Client, name string) (enplace.Harness, error) {
	if enplace.ValidID(enplace.PrefixHarness, name) {
		return api.Harness(ctx, name)
	}
	all, err := everything(ctx, api.ListHarnesses)
	if err != nil {
		return enplace.Harness{}, err
	}
	var found []enplace.Harness
	for _, h := range all {
		if h.Name == name {
			found = append(found, h)
		}
	}
	switch len(found) {
	case 0:
		return enplace.Harness{}, enplace.NotFoundf("there is no harness %q", name).WithFix("enplace harness list")
	case 1:
		return found[0], nil
	}
	return enplace.Harness{}, enplace.Invalidf("%d harnesses are called %q; name one by its id", len(found), name).WithFix("enplace harness list")
}

// withHarness wraps a command whose argument is a harness.
func withHarness(c *cli, run func(ctx context.Context, api *client.Client, h enplace.Harness) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		api, err := c.client()
		if err != nil {
			return err
		}
		h, err := findHarness(cmd.Context(), api, args[0])
		if err != nil {
			return err
		}
		return run(cmd.Context(), api, h)
	}
}

// completeHarnesses offers ids to the shell.
func completeHarnesses(c *cli) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		api, err := c.client()
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		l, err := api.ListHarnesses(cmd.Context(), enplace.Page{Limit: enplace.MaxPageSize})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for _, h := range l.Items {
			ids = append(ids, h.ID+"\t"+h.Name)
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

// flagValue completes a flag as its command's first argument would be.
func flagValue(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd, nil, word)
	}
}

// complete registers the completion of a flag that the command has.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, flagValue(f)); err != nil {
		panic(err) // the flag is not there: every run of the program would show it
	}
}

// limitFlags are the limits of a harness or a task.
type limitFlags struct {
	limits  enplace.Limits
	timeout time.Duration
}

func (l *limitFlags) flags(f *pflag.FlagSet) {
	d := enplace.DefaultTaskLimits
	f.DurationVar(&l.timeout, "timeout", 0, fmt.Sprintf("time it may take, such as 10m; everything started is killed at its end (default %s)", d.Timeout()))
	f.IntVar(&l.limits.MemoryMiB, "memory", 0, fmt.Sprintf("memory in MiB (default %d)", d.MemoryMiB))
	f.IntVar(&l.limits.DiskMiB, "disk", 0, fmt.Sprintf("what it may write, in MiB (default %d)", d.DiskMiB))
	f.Float64Var(&l.limits.CPUs, "cpus", 0, fmt.Sprintf("processors, in shares of one (default %g)", d.CPUs))
	f.IntVar(&l.limits.Processes, "processes", 0, fmt.Sprintf("processes and threads (default %d)", d.Processes))
}

// get gives the limits; seconds are rounded up, since less than was asked for would surprise more.
func (l *limitFlags) get() (enplace.Limits, error) {
	if l.timeout < 0 {
		return enplace.Limits{}, enplace.Invalidf("must be more than zero").WithField("--timeout")
	}
	out := l.limits
	out.TimeoutSeconds = int(math.Ceil(l.timeout.Seconds()))
	return out, out.Check()
}

func newHarnessCreate(c *cli) *cobra.Command {
	var env, egress, instructions string
	var limits limitFlags
	cmd := &cobra.Command{
		Use:   "create NAME [-- COMMAND…]",
		Short: "Make a harness; without a command its tasks are open sandboxes",
		Long: `Make a harness. COMMAND is what its tasks run in /task, word by word: no shell reads it unless you name one.
Without a command a task is an open sandbox, for enplace task exec and enplace task ssh.
A harness never changes; to change one, make another.`,
		Example: `  enplace harness create report --env content-studio -- python3 /env/content-studio/report.py
  enplace harness create shell --env content-studio --egress open -- bash -s
  enplace harness create agent --env content-studio --instructions ./AGENT.md --timeout 2h`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := enplace.CreateHarness{Name: args[0], Command: args[1:]}
			var err error
			if in.Limits, err = limits.get(); err != nil {
				return err
			}
			if in.Instructions, err = readText(c, instructions, enplace.MaxInstructionsBytes, "--instructions"); err != nil {
				return err
			}
			if egress != "" {
				in.Egress = parseEgress(egress)
			}
			api, err := c.client()
			if err != nil {
				return err
			}
			if env != "" {
				e, err := findEnvironment(cmd.Context(), api, env)
				if err != nil {
					return err
				}
				in.Environment = e.ID
			}
			h, err := api.CreateHarness(cmd.Context(), in)
			if err != nil {
				return err
			}
			return c.print(h, func(w io.Writer) { fmt.Fprintln(w, h.ID) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&env, "env", "", "environment of its tasks")
	f.StringVar(&egress, "egress", "", "what its tasks may reach: open, none, or hosts separated by commas (default none)")
	f.StringVar(&instructions, "instructions", "", "file with what the agent is told beside where things are; - for standard input")
	limits.flags(f)
	complete(cmd, "env", completeEnvironments(c))
	return cmd
}

// readText reads a file, or standard input for -, whole. An empty name gives an empty text.
func readText(c *cli, name string, limit int, flag string) (string, error) {
	if name == "" {
		return "", nil
	}
	in := c.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", enplace.Invalidf("cannot read %s", name).WithField(flag).WithCause(err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, int64(limit)+1))
	if err != nil {
		return "", enplace.Invalidf("cannot read %s", name).WithField(flag).WithCause(err)
	}
	if len(b) > limit {
		return "", enplace.TooLargef("%s has more than %d bytes, the limit", name, limit).WithField(flag)
	}
	text := string(b)
	if strings.ToValidUTF8(text, "") != text {
		return "", enplace.Invalidf("%s is not text in UTF-8; put binary data into the environment's tree (enplace env put)", name).WithField(flag)
	}
	return text, nil
}
