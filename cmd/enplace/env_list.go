package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func newEnvList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List environments",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.client()
			if err != nil {
				return err
			}
			all, err := everything(cmd.Context(), api.ListEnvironments)
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				rows := [][]string{{"SLUG", "VERSION", "FILES", "SIZE", "PACKAGES", "OWNER", "ID"}}
				for _, e := range all {
					pkgs := len(e.Packages.Pip) + len(e.Packages.NPM) + len(e.Packages.Apt)
					rows = append(rows, []string{e.Slug, number(e.ActiveVersion), fmt.Sprint(e.Files), size(e.Bytes), fmt.Sprint(pkgs), e.Owner, e.ID})
				}
				table(w, rows...)
			})
		},
	}
}
