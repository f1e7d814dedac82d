package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newSet(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "set",
		Aliases: []string{"sets"},
		Short:   "Sets: the items of a conversation, installed together",
		Long: `A set is the items that a conversation reads, the organisation's first, then the team's, then the person's. It has one
hash. Its first use has its bundle built, which later computers start from.

CONVERSATION is a conversation's id; HASH is a set's, as enplace set show gives it.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newSetShow(c), newSetExplain(c), newSetLog(c), newSetRetry(c), newSetRefresh(c))
	return cmd
}

func newSetShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "show CONVERSATION",
		Short:             "Show a conversation's set as it stands on its computer",
		Example:           `  enplace set show ann-1`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerConversations),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			if err := checkConversation(args[0]); err != nil {
				return err
			}
			s, err := api.Set(ctx, args[0])
			if err != nil {
				return err
			}
			return c.print(s, func(w io.Writer) { printSet(w, args[0], s) })
		}),
	}
}

func printSet(w io.Writer, conversation string, s enplace.ConversationSet) {
	rows := [][]string{{"hash", s.Hash}, {"chain", chainLine(s.Chain)}, {"bundle", bundleLine(s.Bundle)}, {"egress", printable(egressLine(s.Egress))}}
	if s.RetryAt != nil {
		rows = append(rows, []string{"what failed", nextTry(*s.RetryAt, false, s.Items)})
	}
	table(w, rows...)
	if s.Bundle.Status == enplace.BundleFailed {
		fmt.Fprintf(w, "enplace set retry %s builds the bundle again; enplace set log %[1]s shows how it went\n", conversation)
	}
	if len(s.Items) > 0 {
		fmt.Fprintln(w)
		printItems(w, s.Items)
	}
	printLeft(w, s.Left, s.Clashes)
}

// nextTry says when what failed of a set is tried again. A time that is past is that of a try under way, unless the computer is not
// known to run.
func nextTry(at time.Time, running bool, items []enplace.InstalledItem) string {
	trying := slices.ContainsFunc(items, func(i enplace.InstalledItem) bool { return i.Status == enplace.ItemInstalling })
	switch {
	case running && !time.Now().Before(at) || trying:
		return "being tried again now"
	case time.Now().Before(at):
		return "to be tried again: " + ago(at)
	}
	return "to be tried again with the next command"
}

func chainLine(c enplace.Chain) string {
	parts := make([]string, len(c))
	for i, s := range c {
		parts[i] = string(s)
	}
	return strings.Join(parts, " › ")
}

func bundleLine(b enplace.Bundle) string {
	line := strings.ReplaceAll(string(b.Status), "_", " ")
	if b.Status == enplace.BundleFailed && b.BuiltAt != nil {
		line += " at " + ago(*b.BuiltAt)
	}
	if b.Bytes > 0 {
		line += ", " + size(b.Bytes)
	}
	if b.Reason != "" {
		line += ": " + printable(b.Reason)
	}
	return line
}

// printItems writes how items stand, a line for each of their tools, and below them why they do not. On a computer, obtained says
// of each how it came there.
func printItems(w io.Writer, items []enplace.InstalledItem, obtained ...enplace.Obtained) {
	head := []string{"ITEM", "SCOPE", "STATUS"}
	if len(obtained) > 0 {
		head = append(head, "BY")
	}
	rows := [][]string{append(head, "TOOL", "REQUESTED", "RESOLVED", "TOOL STATUS")}
	for n, i := range items {
		row := []string{i.Key, string(i.Scope), string(i.Status)}
		if n < len(obtained) {
			row = append(row, orDash(string(obtained[n])))
		}
		row = slices.Clip(row)
		if len(i.Tools) == 0 {
			rows = append(rows, append(row, "-", "-", "-", "-"))
		}
		for _, t := range i.Tools {
			rows = append(rows, append(row, printable(t.Name), printable(t.Requested), orDash(printable(t.Resolved)), string(cmp.Or(t.Status, i.Status))))
		}
	}
	table(w, rows...)
	for _, i := range items {
		if i.Error != "" {
			fmt.Fprintf(w, "%s of %s: %s\n%s", i.Key, i.Scope, printable(i.Error), lines(i.ErrorTail, "  "))
		}
		for _, note := range i.Notes {
			fmt.Fprintf(w, "%s of %s: %s\n", i.Key, i.Scope, printable(note))
		}
	}
}

// printLeft writes what of the chain is not in a set, and why.
func printLeft(w io.Writer, left []enplace.LeftOut, clashes []enplace.Clash) {
	if len(left) > 0 {
		rows := [][]string{{"LEFT OUT", "SCOPE", "WHY"}}
		for _, l := range left {
			rows = append(rows, []string{l.Key, string(l.Scope), printable(l.Reason)})
		}
		fmt.Fprintln(w)
		table(w, rows...)
	}
	if len(clashes) > 0 {
		rows := [][]string{{"CLASH", "USED", "UNUSED", "WHY"}}
		for _, k := range clashes {
			rows = append(rows, []string{k.Key, string(k.Used), string(k.Unused), printable(k.Reason)})
		}
		fmt.Fprintln(w)
		table(w, rows...)
	}
}

// setHash gives the hash of a set that is named by it, or by a conversation that has it. No conversation's id is as long.
func setHash(ctx context.Context, api *client.Client, word string) (string, error) {
	if len(word) > enplace.MaxHandleLength {
		return word, nil
	}
	if err := checkConversation(word); err != nil {
		return "", err
	}
	s, err := api.Set(ctx, word)
	return s.Hash, err
}

func newSetLog(c *cli) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "log SET",
		Short: "Print the log of a set's bundle",
		Long:  "Print the log of a set's bundle. SET is the set's hash, or a conversation that has the set now.",
		Example: `  enplace set log ann-1 --follow
  enplace set log ee9b8fb0f1c772d2ce3e83324107e5b50138340f374bedfdef9cf73915081279`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerSets),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			hash, err := setHash(ctx, api, args[0])
			if err != nil {
				return err
			}
			if follow {
				_, err := api.FollowSetLog(ctx, hash, c.out)
				return err
			}
			return copyOut(c.out)(api.SetLog(ctx, hash))
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as the log grows")
	return cmd
}

func newSetRetry(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "retry SET",
		Short:             "Try again what failed of a set: its bundle, and on computers",
		Long:              "Try again what failed of a set: its bundle, and on computers. SET is the set's hash, or a conversation that has the set now.",
		Example:           `  enplace set retry ann-1`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerSets),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			hash, err := setHash(ctx, api, args[0])
			if err != nil {
				return err
			}
			r, err := api.RetrySet(ctx, hash)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				fmt.Fprintf(w, "tried again on %s; bundle: %s\n", counted(r.Computers, "computer"), bundleLine(r.Bundle))
			})
		}),
	}
}

func newSetRefresh(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "refresh CONVERSATION",
		Short:   "Resolve latest and ranges of a conversation's set anew",
		Example: `  enplace set refresh ann-1`,
		Long: `Resolve what a conversation's set asks for as latest, or as a range, anew. Another set of the same items takes its
place for every conversation that has it, with a bundle of its own.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerConversations),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			s, err := api.RefreshSet(ctx, args[0])
			if err != nil {
				return err
			}
			return c.print(s, func(w io.Writer) { fmt.Fprintln(w, s.Hash) })
		}),
	}
}
