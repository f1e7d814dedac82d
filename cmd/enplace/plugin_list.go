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
	cmd.Flags().StringVar(&scope, "scope", "", "scope whose plugins to list (default: of every scope that the key can see)")
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
	cmd := &cobra.Command{
		Use:   "show PLUGIN",
		Short: "Show a plugin, with what its last sync found",
		Example: `  enplace plugin show base
  enplace plugin show team:web/base`,
		Args: cobra.ExactArgs(1),
	}
	return aboutPlugin(c, cmd, func(ctx context.Context, api *client.Client, ref string, _ []string) error {
		p, err := api.Plugin(ctx, ref)
		if err != nil {
			return err
		}
		return c.print(p, func(w io.Writer) { printPlugin(w, p) })
	})
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
		Use:   "sync PLUGIN [DIR|ARCHIVE|-]",
		Short: "Read a plugin's repository anew, or send its new content",
		Long: `Read a plugin's repository anew; or send the new content of a plugin that came as a folder or an archive. An item that
the new content breaks keeps its last good definition, and the findings say so.`,
		Example: `  enplace plugin sync web-tools
  enplace plugin sync organisation/base ./base-plugin
  enplace plugin sync base ./base-plugin --scope organisation`,
		Args: cobra.RangeArgs(1, 2),
	}
	aboutPlugin(c, cmd, func(ctx context.Context, api *client.Client, ref string, from []string) error {
		p, err := syncPlugin(ctx, c, api, ref, from)
		if err != nil {
			return err
		}
		return c.print(p, func(w io.Writer) { printTaken(w, c.err, p) })
	})
	cmd.ValidArgsFunction = thenLocal(cmd.ValidArgsFunction, 1)
	return cmd
}

func syncPlugin(ctx context.Context, c *cli, api *client.Client, ref string, from []string) (enplace.Plugin, error) {
	if len(from) == 0 {
		return api.SyncPlugin(ctx, ref)
	}
	archive, err := openPluginArchive(c, from[0])
	if err != nil {
		return enplace.Plugin{}, err
	}
	defer archive.Close()
	return api.SyncPluginArchive(ctx, ref, archive)
}

func newPluginRemove(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "remove PLUGIN",
		Aliases: []string{"rm", "delete"},
		Short:   "Remove a plugin with its items; what they installed stays on computers",
		Example: `  enplace plugin remove web-tools
  enplace plugin remove base --scope team:web`,
		Args: cobra.ExactArgs(1),
	}
	return aboutPlugin(c, cmd, func(ctx context.Context, api *client.Client, ref string, _ []string) error {
		if err := api.DeletePlugin(ctx, ref); err != nil {
			return err
		}
		return printRemoved(c, ref)
	})
}
