package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newSetExplain(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "explain CONVERSATION",
		Short: "Say of each tool which scope, item and line gave it, and what is left out",
		Long: `Say of each tool which scope, item and line gave it, and what is left out. Where several items give a tool or a command, those
that commands do not get say whose runs instead.`,
		Example: `  enplace set explain ann-1
  enplace set explain ann-1 --json | jq '.tools[] | select(.status != "installed")'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerConversations),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			if err := checkConversation(args[0]); err != nil {
				return err
			}
			s, err := api.ExplainSet(ctx, args[0])
			if err != nil {
				return err
			}
			return c.print(s, func(w io.Writer) { printExplained(w, s) })
		}),
	}
}

// standingOf says how a tool stands, and which items' commands run instead of its own.
func standingOf(t enplace.ExplainedTool) string {
	said := []string{string(t.Status)}
	for _, by := range t.Overridden {
		what := ""
		if len(by.Commands) > 0 && len(by.Commands) < len(t.Commands) {
			what = printable(strings.Join(by.Commands, ", ")) + " "
		}
		said = append(said, fmt.Sprintf("%soverridden by %s of %s", what, by.Item, by.Scope))
	}
	return strings.Join(said, "; ")
}

func printExplained(w io.Writer, s enplace.ExplainedSet) {
	fmt.Fprintf(w, "set %s of %s\n", s.Hash, chainLine(s.Chain))
	if len(s.Tools)+len(s.Scripts) == 0 {
		fmt.Fprintln(w, "\nno item is in it")
	}
	if len(s.Tools) > 0 {
		rows := [][]string{{"TOOL", "REQUESTED", "RESOLVED", "SCOPE", "ITEM", "FROM", "STATUS"}}
		for _, t := range s.Tools {
			rows = append(rows, []string{printable(t.Name), printable(t.Requested), orDash(printable(t.Resolved)), string(t.Scope), t.Item,
				printable(fmt.Sprintf("%s:%d", t.File, t.Line)), standingOf(t)})
		}
		fmt.Fprintln(w)
		table(w, rows...)
	}
	if len(s.Scripts) > 0 {
		rows := [][]string{{"SCRIPT", "SCOPE", "ITEM", "STATUS"}}
		for _, x := range s.Scripts {
			rows = append(rows, []string{enplace.ItemScriptName, string(x.Scope), x.Item, string(x.State)})
		}
		fmt.Fprintln(w)
		table(w, rows...)
	}
	printLeft(w, s.Left, s.Clashes)
	fmt.Fprintf(w, "\negress: %s\n", printable(egressLine(s.Egress)))
	for _, from := range s.From {
		fmt.Fprintf(w, "  %s says %s\n", from.Scope, printable(egressLine(from.Egress)))
	}
	if len(s.From) == 0 {
		fmt.Fprintln(w, "  no scope has a policy")
	}
}
