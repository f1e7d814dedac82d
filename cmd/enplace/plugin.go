package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"enplace/internal/plugin"
)

func newPlugin(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Plugins: folders that declare the tools of computers",
		Long: `A plugin is a folder, an archive or a git repository whose environments/ folder declares items:
a folder each, with environment.json, and mise.toml or setup.sh or both.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newPluginCheck(c), newPluginSchema(c), newPluginAdd(c), newPluginList(c), newPluginShow(c), newPluginSync(c), newPluginRemove(c))
	return cmd
}

func newPluginSchema(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of environment.json, for editors",
		Example: `  enplace plugin schema > environment.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(c.out, plugin.Schema())
			return err
		},
	}
}
