package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
	"enplace/internal/plugin"
)

func newPlugin(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Plugins: folders that declare the tools of computers",
		Long: `A plugin is a folder, an archive or a git repository whose environments/ folder declares items:
a folder each, with environment.json, and mise.toml or setup.sh or both.

PLUGIN is a plugin's name; where plugins of several scopes have it, SCOPE/NAME, or the name with --scope. Its id (plug_…) does too.
` + aboutScopes,
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

// aboutPlugin makes a command one about the plugin that its first argument names.
func aboutPlugin(c *cli, cmd *cobra.Command, run func(ctx context.Context, api *client.Client, ref string, args []string) error) *cobra.Command {
	var scope string
	cmd.Flags().StringVar(&scope, "scope", "", "scope of the plugin, where plugins of several have the name")
	complete(cmd, "scope", completeEach(c, offerScopes))
	cmd.ValidArgsFunction = completeEach(c, func(ctx context.Context, api *client.Client, _ []string) []string {
		return pluginNames(ctx, api, enplace.Scope(scope))
	})
	cmd.RunE = withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
		ref := args[0]
		if scope != "" {
			if strings.Contains(ref, "/") {
				return usageError(cmd, "%s has its scope already; leave --scope out", printable(ref))
			}
			if _, err := enplace.ParseScope(scope); err != nil {
				return err
			}
			ref = scope + "/" + ref
		}
		return run(ctx, api, ref, args[1:])
	})
	return cmd
}

// pluginNames offers the plugins of a scope by name, or all: SCOPE/NAME those whose name another has too.
func pluginNames(ctx context.Context, api *client.Client, scope enplace.Scope) []string {
	l, err := api.ListPlugins(ctx, scope, enplace.Page{Limit: enplace.MaxPageSize})
	if err != nil {
		return nil
	}
	called := map[string]int{}
	for _, p := range l.Items {
		called[p.Name]++
	}
	words := make([]string, 0, len(l.Items))
	for _, p := range l.Items {
		name := p.Name
		if called[name] > 1 || l.Next != "" { // another may be on the next page
			name = string(p.Scope) + "/" + name
		}
		words = append(words, name+"\tof "+string(p.Scope)+", "+counted(len(p.Items), "item"))
	}
	return words
}
