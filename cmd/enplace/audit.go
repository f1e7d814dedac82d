package main

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/spf13/cobra"

	"enplace"
)

func newAudit(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "The record of every change: who, when, what",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newAuditList(c))
	return cmd
}

func newAuditList(c *cli) *cobra.Command {
	var target string
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List changes, newest first",
		Example: `  enplace audit list
  enplace audit list --target henv_… --limit 500`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usageError(cmd, "--limit must be at least 1")
			}
			api, err := c.client()
			if err != nil {
				return err
			}
			all, err := first(cmd.Context(), limit, func(ctx context.Context, p enplace.Page) (enplace.List[enplace.AuditEntry], error) {
				return api.ListAudit(ctx, target, p)
			})
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				rows := [][]string{{"TIME", "WHO", "ACTION", "TARGET", "DETAIL"}}
				for _, e := range all {
					detail := ""
					if len(e.Detail) > 0 {
						b, _ := json.Marshal(e.Detail) // it came as JSON
						detail = string(b)
					}
					rows = append(rows, []string{ago(e.At), e.Actor, e.Action, e.Target, detail})
				}
				table(w, rows...)
			})
		},
	}
	cmd.Flags().StringVar(&target, "target", "", "only changes of this id")
	cmd.Flags().IntVar(&limit, "limit", 50, "how many")
	return cmd
}

// first gives up to n entries of a list.
func first[T any](ctx context.Context, n int, page func(context.Context, enplace.Page) (enplace.List[T], error)) ([]T, error) {
	all := []T{}
	p := enplace.Page{}
	for {
		p.Limit = min(n-len(all), enplace.MaxPageSize)
		l, err := page(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, l.Items...)
		if l.Next == "" || len(all) >= n {
			return all, nil
		}
		p.Cursor = l.Next
	}
}

func when(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return ago(*t)
}
