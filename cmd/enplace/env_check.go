package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"enplace"
)

func newEnvCheck(c *cli) *cobra.Command {
	var env string
	cmd := &cobra.Command{
		Use:   "check MANAGER NAME [VERSION]",
		Short: "Ask a registry about a package",
		Long:  "Ask PyPI (pip), the npm registry (npm) or Debian (apt) about a name and version. Exits 1 when it cannot be installed.",
		Example: `  enplace env check pip pandas 2.2.3
  enplace env check npm typescript --env content-studio`,
		Args: cobra.RangeArgs(2, 3),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"pip", "npm", "apt"}, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.client()
			if err != nil {
				return err
			}
			q := enplace.PackageQuery{Manager: enplace.Manager(args[0]), Name: args[1]}
			if len(args) == 3 {
				q.Version = args[2]
			}
			if env != "" {
				e, err := findEnvironment(cmd.Context(), api, env)
				if err != nil {
					return err
				}
				q.Environment = e.ID
			}
			r, err := api.CheckPackage(cmd.Context(), q)
			if err != nil {
				return err
			}
			if err := c.print(r, func(w io.Writer) { fmt.Fprintln(w, r.Message) }); err != nil {
				return err
			}
			if !r.Installable {
				return statusError(1)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&env, "env", "", "environment whose Python and index to ask for")
	complete(cmd, "env", completeEnvironments(c))
	return cmd
}
