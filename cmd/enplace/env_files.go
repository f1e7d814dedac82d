package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newEnvFiles(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "files ENV [PREFIX]",
		Short:             "List the files of an environment's tree",
		Example:           `  enplace env files content-studio data`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeEnvironments(c),
		RunE: withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, args []string) error {
			prefix := ""
			if len(args) > 0 {
				prefix = args[0]
			}
			all, err := everything(ctx, func(ctx context.Context, p enplace.Page) (enplace.List[enplace.TreeEntry], error) {
				p.Limit = enplace.MaxListedEntries
				return api.ListFiles(ctx, e.ID, prefix, p)
			})
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				for _, f := range all {
					mark := ""
					switch {
					case f.Type == enplace.EntryLink:
						mark = " -> " + f.Target
					case f.Executable:
						mark = " *"
					}
					fmt.Fprintf(w, "%10d  %s%s\n", f.Size, f.Path, mark)
				}
			})
		}),
	}
}
