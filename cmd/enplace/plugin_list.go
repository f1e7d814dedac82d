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

func newPluginList(c *cli) *cobra.Command {
	var scope string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List plugins, newest first",
		Example: `  enplace plugin list
  enplace plugin list --scope team:web`,
		Args: cobra.NoArgs,
		RunE: withClient(c, func(ctx context.Context, api *client.Client, _ []string) error {
			all, err := everything(ctx, func(ctx context.Context, p enplace.Page) (enplace.List[enplace.Plugin], error) {
				return api.ListPlugins(ctx, enplace.Scope(scope), p)
			})
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				rows := [][]string{{"ID", "NAME", "SCOPE", "SOURCE", "ITEMS", "SYNCED", "STATE"}}
				for _, p := range all {
					rows = append(rows, []string{p.ID, p.Name, string(p.Scope), printable(pluginSource(p)), fmt.Sprint(len(p.Items)), ago(p.SyncedAt), pluginState(p)})
				}
				table(w, rows...)
			})
		}),
	}
	cmd.Flags().StringVar(&scope, "scope", "", "scope whose plugins to list (an operator may leave it out, for all)")
	complete(cmd, "scope", completeEach(c, offerScopes))
	return cmd
}

func pluginSource(p enplace.Plugin) string {
	if p.Source.GitURL == "" {
		return "archive"
	}
	parts := []string{p.Source.GitURL}
	if p.Source.Path != "" {
		parts = append(parts, p.Source.Path)
	}
	if p.Source.Ref != "" {
		parts = append(parts, "at "+p.Source.Ref)
	}
	return strings.Join(parts, " ")
}

// pluginState says in a word how the last sync went.
func pluginState(p enplace.Plugin) string {
	if p.Error != nil {
		return "failed"
	}
	for _, severity := range []enplace.Severity{enplace.FindingError, enplace.FindingWarning} {
		for _, f := range p.Findings {
			if f.Severity == severity {
				return string(severity) + "s"
			}
		}
	}
	return "ok"
}

func newPluginShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "show ID",
		Short:             "Show a plugin, with what its last sync found",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerPlugins),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			p, err := api.Plugin(ctx, args[0])
			if err != nil {
				return err
			}
			return c.print(p, func(w io.Writer) { printPlugin(w, p) })
		}),
	}
}

func printPlugin(w io.Writer, p enplace.Plugin) {
	rows := [][]string{{"name", p.Name}, {"id", p.ID}, {"scope", string(p.Scope)}, {"source", printable(pluginSource(p))}, {"items", listed(p.Items, "-")}}
	if p.Commit != "" {
		rows = append(rows, []string{"commit", p.Commit})
	}
	if p.Digest != "" {
		rows = append(rows, []string{"digest", string(p.Digest)})
	}
	rows = append(rows, []string{"synced", ago(p.SyncedAt)}, []string{"tried", ago(p.TriedAt)}, []string{"created", ago(p.CreatedAt)})
	table(w, rows...)
	if p.Error != nil {
		printFailure(w, p.Error)
	}
	printPluginFindings(w, p.Findings)
}

func newPluginSync(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sync ID [DIR|ARCHIVE|-]",
		Short: "Read a plugin's repository anew, or send its new content",
		Long: `Read a plugin's repository anew; or send the new content of a plugin that came as a folder or an archive. An item that
the new content breaks keeps its last good definition, and the findings say so.`,
		Example: `  enplace plugin sync plug_…
  enplace plugin sync plug_… ./base-plugin`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: thenLocal(completeEach(c, offerPlugins), 1),
	}
	cmd.RunE = withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
		p, err := syncPlugin(ctx, c, api, args)
		if err != nil {
			return err
		}
		return c.print(p, func(w io.Writer) { printTaken(w, c.err, p) })
	})
	return cmd
}

func syncPlugin(ctx context.Context, c *cli, api *client.Client, args []string) (enplace.Plugin, error) {
	if len(args) == 1 {
		return api.SyncPlugin(ctx, args[0])
	}
	archive, err := openPluginArchive(c, args[1])
	if err != nil {
		return enplace.Plugin{}, err
	}
	defer archive.Close()
	return api.SyncPluginArchive(ctx, args[0], archive)
}

func newPluginRemove(c *cli) *cobra.Command {
	return removal(c, "remove ID", "Remove a plugin with its items; what they installed stays on computers", offerPlugins, (*client.Client).DeletePlugin)
}
