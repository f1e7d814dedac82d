package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"enplace"
	"enplace/client"
)

func newComputerExec(c *cli) *cobra.Command {
	var in enplace.ConversationExec
	var vars []string
	var timeout time.Duration
	var noInput bool
	cmd := &cobra.Command{
		Use:   "exec CONVERSATION -- COMMAND…",
		Short: "Run a command on a conversation's computer, and exit with its status",
		Long: `Run a command on the computer of a conversation, with the conversation's set in place: it is installed first where
it is not there yet. The command runs word by word: no shell reads it unless you name one. What it prints is shown as it
comes; how an installation goes, and what you should know beside the output, is told on standard error.
Interrupting this command kills it with everything it started. Standard input is passed on once it has come to its end,
unless it is a terminal. Under --json the result with its output is printed when the command has ended.`,
		Example: `  enplace computer exec ann-1 -- node --version
  enplace computer exec ann-1 --cwd /root/shop --env CI=1 --timeout 5m -- npm test
  enplace computer exec hall-1 -- bash -s < script.sh`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: completeEach(c, offerConversations),
	}
	f := cmd.Flags()
	f.StringVar(&in.Cwd, "cwd", "", "where it starts (default "+enplace.HomeDir+")")
	f.StringArrayVar(&vars, "env", nil, "variable NAME=VALUE (repeat for more)")
	f.BoolVarP(&noInput, "no-stdin", "n", false, "leave standard input alone; the command's is empty")
	f.DurationVar(&timeout, "timeout", 0, fmt.Sprintf("time it may take; it is killed with everything it started at its end (default %s)", enplace.DefaultExecTimeout))
	f.StringVar((*string)(&in.Trigger), "trigger", string(enplace.TriggerPerson), "on whose behalf it runs: person, agent or schedule; a person has what failed tried again at once")
	complete(cmd, "trigger", cobra.FixedCompletions([]string{
		string(enplace.TriggerPerson), string(enplace.TriggerAgent), string(enplace.TriggerSchedule),
	}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
		if err := checkConversation(args[0]); err != nil {
			return err
		}
		in.Command, in.Timeout = args[1:], int(math.Ceil(timeout.Seconds()))
		var err error
		if in.Env, err = variables(vars); err != nil {
			return err
		}
		if !noInput {
			if in.Stdin, err = passedOn(c); err != nil {
				return err
			}
		}
		r, err := execOn(ctx, c, api, args[0], in)
		if err != nil {
			return err
		}
		if !c.json {
			printNotices(c.err, r.Notices)
		}
		if r.ExitCode != 0 {
			return statusError(r.ExitCode)
		}
		return nil
	})
	return cmd
}

// waitedForInput is after which time it is told what a command waits for.
const waitedForInput = 2 * time.Second

// passedOn reads standard input to its end, unless a person types there.
func passedOn(c *cli) (string, error) {
	if in, ok := c.in.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		return "", nil
	}
	late := time.AfterFunc(waitedForInput, func() {
		fmt.Fprintln(c.err, notePrefix+"reading standard input to its end; --no-stdin leaves it alone")
	})
	defer late.Stop()
	return readText(c, "-", enplace.MaxInputBytes, "standard input")
}

func execOn(ctx context.Context, c *cli, api *client.Client, id string, in enplace.ConversationExec) (enplace.ConversationResult, error) {
	if c.json {
		r, err := api.ExecConversation(ctx, id, in)
		if err != nil {
			return r, err
		}
		return r, c.print(r, nil)
	}
	return api.ExecConversationStream(ctx, id, in, func(e enplace.ConversationEvent) error {
		w := c.out
		if e.Stream == "stderr" {
			w = c.err
		}
		if e.Progress != "" {
			fmt.Fprintln(c.err, notePrefix+printable(e.Progress))
		}
		_, err := io.WriteString(w, e.Data)
		return err
	})
}

func printNotices(w io.Writer, notices []enplace.Notice) {
	for _, n := range notices {
		fmt.Fprintln(w, notePrefix+printable(n.Message))
		for _, i := range n.Items {
			if i.ErrorTail != "" {
				fmt.Fprintf(w, "%s%s of %s:\n%s", notePrefix, i.Key, i.Scope, lines(i.ErrorTail, "  "))
			}
		}
	}
}
