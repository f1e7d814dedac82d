package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newComputer(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "computer",
		Aliases: []string{"computers"},
		Short:   "Computers: durable sandboxes of people and rooms, with their tools",
		Long: `A computer is a person's or a room's: its files and tools last. It is made by the first command of one of its
conversations, stopped when nobody uses it, and started again by the next command.

COMPUTER is person:LOGIN or room:NAME; CONVERSATION is a conversation's id.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newComputerList(c), newComputerShow(c), newComputerExec(c), newComputerSSH(c), newComputerErrors(c), newComputerLog(c), newComputerStop(c), newComputerReset(c))
	return cmd
}

// checkComputer tells what is no computer's id, such as that of a conversation, before a server is asked.
func checkComputer(id string) error {
	if strings.HasPrefix(id, "person:") || strings.HasPrefix(id, "room:") {
		return nil
	}
	return enplace.Invalidf("%q is no computer; write person:LOGIN or room:NAME", printable(id)).
		WithFix("enplace computer list shows them, and enplace conversation list whose conversation is on which")
}

// checkConversation tells a computer's id where a conversation's is wanted.
func checkConversation(id string) error {
	if checkComputer(id) != nil {
		return nil
	}
	return enplace.Invalidf("%s is a computer; this command wants a conversation on it", printable(id)).
		WithFix("enplace conversation list shows which conversations are on it; enplace conversation put makes one")
}

func newComputerList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List computers",
		Args:    cobra.NoArgs,
		RunE: withClient(c, func(ctx context.Context, api *client.Client, _ []string) error {
			all, err := everything(ctx, api.ListComputers)
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				rows := [][]string{{"COMPUTER", "STATE", "SETS", "FAILED", "DISK", "USED", "CREATED"}}
				for _, v := range all {
					rows = append(rows, []string{v.ID, string(v.State), fmt.Sprint(len(v.Sets)), fmt.Sprint(failedItems(v)), size(v.DiskBytes), ago(v.UsedAt), ago(v.CreatedAt)})
				}
				table(w, rows...)
			})
		}),
	}
}

// failedItems counts what is going to be tried again: what failed of a set that no conversation has any more is not, and is no news.
func failedItems(v enplace.Computer) int {
	n := 0
	for _, s := range v.Sets {
		if s.RetryAt == nil {
			continue
		}
		for _, i := range s.Items {
			if i.Status == enplace.ItemFailed {
				n++
			}
		}
	}
	return n
}

func newComputerShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "show COMPUTER",
		Short:             "Show a computer: the sets that its conversations have, item by item, and its last commands",
		Example:           `  enplace computer show person:ann`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerComputers),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			if err := checkComputer(args[0]); err != nil {
				return err
			}
			v, err := api.Computer(ctx, args[0])
			if err != nil {
				return err
			}
			return c.print(v, func(w io.Writer) { printComputer(w, v) })
		}),
	}
}

func printComputer(w io.Writer, v enplace.Computer) {
	table(w, []string{"computer", v.ID}, []string{"state", string(v.State)}, []string{"base", string(v.Base)}, []string{"bundle", orDash(string(v.Bundle))},
		[]string{"disk", size(v.DiskBytes)}, []string{"limits", fmt.Sprintf("%d MiB of memory, %d MiB of disk, %g processors, %d processes",
			v.Limits.MemoryMiB, v.Limits.DiskMiB, v.Limits.CPUs, v.Limits.Processes)}, []string{"used", ago(v.UsedAt)}, []string{"created", ago(v.CreatedAt)})
	printSets(w, v)
	if len(v.Local) > 0 {
		rows := [][]string{{"INSTALLED INSIDE", "VERSION"}}
		for _, t := range v.Local {
			rows = append(rows, []string{printable(t.Name), orDash(printable(t.Resolved))})
		}
		fmt.Fprintln(w)
		table(w, rows...)
	}
	if len(v.Commands) > 0 {
		rows := [][]string{{"LAST COMMANDS", "CONVERSATION", "EXIT", "TOOK", "AT"}}
		for _, x := range v.Commands {
			rows = append(rows, []string{printable(x.Program), x.Conversation, fmt.Sprint(x.ExitCode), fmt.Sprintf("%.1fs", float64(x.DurationMS)/1000), ago(x.At)})
		}
		fmt.Fprintln(w)
		table(w, rows...)
	}
}

// maxOldSets bounds the sets of a computer that no conversation has any more, as far as they are shown.
const maxOldSets = 10

// printSets writes the sets that conversations have now in full, and of the others a line each.
func printSets(w io.Writer, v enplace.Computer) {
	rows := [][]string{{"OTHER SETS", "USED", "STATE"}}
	more := 0
	for _, s := range v.Sets {
		switch {
		case len(s.Conversations) > 0:
			printSelected(w, s, v.State == enplace.ComputerRunning)
		case len(rows) <= maxOldSets:
			rows = append(rows, []string{s.Hash, when(cmp.Or(s.UsedAt, s.TriedAt)), setState(s)})
		default:
			more++
		}
	}
	if len(rows) > 1 {
		fmt.Fprintln(w)
		table(w, rows...)
	}
	if more > 0 {
		fmt.Fprintf(w, "and %d used before these\n", more)
	}
}

// maxShownWith bounds the conversations that are named with a set.
const maxShownWith = 8

func printSelected(w io.Writer, s enplace.ComputerSet, running bool) {
	items, obtained := make([]enplace.InstalledItem, len(s.Items)), make([]enplace.Obtained, len(s.Items))
	for i, item := range s.Items {
		items[i], obtained[i] = item.InstalledItem, item.Obtained
	}
	shown := s.Conversations[:min(len(s.Conversations), maxShownWith)]
	with := strings.Join(shown, ", ")
	if more := len(s.Conversations) - len(shown) + s.More; more > 0 {
		with += fmt.Sprintf(" and %d more", more)
	}
	fmt.Fprintf(w, "\nset %s of %s\n", s.Hash, with)
	line := []string{"complete: " + when(s.AppliedAt), "attempts: " + fmt.Sprint(s.Attempts)}
	if s.RetryAt != nil {
		line = append(line, nextTry(*s.RetryAt, running, items))
	}
	fmt.Fprintln(w, strings.Join(line, ", "))
	printItems(w, items, obtained...)
}

// setState says in a word how a set stands on a computer.
func setState(s enplace.ComputerSet) string {
	if s.AppliedAt != nil {
		return "complete"
	}
	if slices.ContainsFunc(s.Items, func(i enplace.ComputerItem) bool { return i.Status == enplace.ItemFailed }) {
		return "failed"
	}
	return "incomplete"
}
