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

func newHarnessList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List harnesses",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.client()
			if err != nil {
				return err
			}
			all, err := everything(cmd.Context(), api.ListHarnesses)
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				rows := [][]string{{"NAME", "COMMAND", "ENVIRONMENT", "OWNER", "CREATED", "ID"}}
				slug := slugs(cmd.Context(), api)
				for _, h := range all {
					rows = append(rows, []string{h.Name, commandLine(h.Command), slug(h.Environment), h.Owner, ago(h.CreatedAt), h.ID})
				}
				table(w, rows...)
			})
		},
	}
}

func newHarnessShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "show HARNESS",
		Short:             "Show a harness",
		Example:           `  enplace harness show report`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeHarnesses(c),
		RunE: withHarness(c, func(_ context.Context, _ *client.Client, h enplace.Harness) error {
			return c.print(h, func(w io.Writer) { printHarness(w, h) })
		}),
	}
}

func newHarnessDelete(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "delete HARNESS",
		Short:             "Delete a harness; its tasks stay, and those that run go on",
		Example:           `  enplace harness delete report`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeHarnesses(c),
		RunE: withHarness(c, func(ctx context.Context, api *client.Client, h enplace.Harness) error {
			if err := api.DeleteHarness(ctx, h.ID); err != nil {
				return err
			}
			return c.print(map[string]string{"deleted": h.ID}, func(w io.Writer) { fmt.Fprintf(w, "deleted %s\n", h.Name) })
		}),
	}
}

func printHarness(w io.Writer, h enplace.Harness) {
	l := h.Limits.Or(enplace.DefaultTaskLimits)
	egress := string(enplace.EgressNone)
	if h.Egress != nil {
		egress = egressLine(*h.Egress)
	}
	table(w, []string{"name", h.Name}, []string{"id", h.ID}, []string{"owner", h.Owner}, []string{"command", commandLine(h.Command)},
		[]string{"environment", orDash(h.Environment)}, []string{"egress", egress}, []string{"limits", limitLine(l)}, []string{"created", ago(h.CreatedAt)})
	if h.Instructions != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimRight(h.Instructions, "\n"))
	}
}

func egressLine(e enplace.Egress) string {
	if e.Policy == enplace.EgressAllowlist && len(e.Hosts) == 0 {
		return string(e.Policy) + " of no host: nothing is let through"
	}
	return strings.TrimSpace(string(e.Policy) + " " + strings.Join(e.Hosts, " "))
}

func limitLine(l enplace.Limits) string {
	return fmt.Sprintf("%s, %d MiB of memory, %d MiB of disk, %g processors, %d processes", l.Timeout(), l.MemoryMiB, l.DiskMiB, l.CPUs, l.Processes)
}

// commandLine shows a command as a person would type it.
func commandLine(argv []string) string {
	if len(argv) == 0 {
		return "(open sandbox)"
	}
	return quoteWords(argv)
}

// quoteWords writes words so that a shell reads back exactly these.
func quoteWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = word
		if word == "" || strings.ContainsFunc(word, needsQuotes) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func needsQuotes(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
