package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newEnvVersions(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "versions ENV [VERSION]",
		Short: "List versions, or show what one is made of",
		Example: `  enplace env versions content-studio
  enplace env versions content-studio 2`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: thenVersions(c, 1),
		RunE: withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, args []string) error {
			if len(args) > 0 {
				n, err := atLeastOne("VERSION", args[0])
				if err != nil {
					return err
				}
				v, err := api.Version(ctx, e.ID, n)
				if err != nil {
					return err
				}
				return c.print(v, func(w io.Writer) { printVersion(w, v) })
			}
			all, err := everything(ctx, func(ctx context.Context, p enplace.Page) (enplace.List[enplace.VersionSummary], error) {
				return api.ListVersions(ctx, e.ID, p)
			})
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) { printVersions(w, all) })
		}),
	}
}

func printVersion(w io.Writer, v enplace.Version) {
	printVersions(w, []enplace.VersionSummary{v.VersionSummary})
	fmt.Fprintln(w)
	rows := [][]string{{"IMAGE", "SIZE", "DIGEST"}, {"base", "", v.Manifest.Base}}
	for _, m := range v.Manifest.Images {
		rows = append(rows, []string{m.Step, size(m.Bytes), m.Digest})
	}
	table(w, rows...)
	fmt.Fprintln(w)
	rows = [][]string{{"PACKAGE", "VERSION", "MANAGER", "FROM", "HASH"}}
	for _, p := range v.Manifest.Packages {
		rows = append(rows, []string{p.Name, p.Version, string(p.Manager), p.Source, p.Hash})
	}
	table(w, rows...)
	fmt.Fprintln(w)
	for _, name := range slices.Sorted(maps.Keys(v.Manifest.Interpreters)) {
		fmt.Fprintf(w, "%s %s\n", name, v.Manifest.Interpreters[name])
	}
	for _, warning := range v.Manifest.Warnings {
		fmt.Fprintln(w, "warning: "+warning)
	}
}

func newEnvActivate(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "activate ENV VERSION",
		Short:             "Make a version the active one: new tasks read it, running ones keep theirs",
		Example:           `  enplace env activate content-studio 1`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: thenVersions(c, 1),
		RunE: withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, args []string) error {
			n, err := atLeastOne("VERSION", args[0])
			if err != nil {
				return err
			}
			if e, err = api.Activate(ctx, e.ID, n); err != nil {
				return err
			}
			return c.print(e, func(w io.Writer) { fmt.Fprintf(w, "version %d is active\n", n) })
		}),
	}
}

func newEnvDiff(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "diff ENV FROM TO",
		Short:             "Show the files and packages in which two versions differ",
		Example:           `  enplace env diff content-studio 1 2`,
		Args:              cobra.ExactArgs(3),
		ValidArgsFunction: thenVersions(c, 2),
		RunE: withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, args []string) error {
			from, err := atLeastOne("FROM", args[0])
			if err != nil {
				return err
			}
			to, err := atLeastOne("TO", args[1])
			if err != nil {
				return err
			}
			d, err := api.Diff(ctx, e.ID, from, to)
			if err != nil {
				return err
			}
			return c.print(d, func(w io.Writer) { printDiff(w, d) })
		}),
	}
}

func printDiff(w io.Writer, d enplace.VersionDiff) {
	for _, p := range d.Packages {
		switch {
		case p.From == "":
			fmt.Fprintf(w, "+ %s %s %s\n", p.Manager, p.Name, p.To)
		case p.To == "":
			fmt.Fprintf(w, "- %s %s %s\n", p.Manager, p.Name, p.From)
		default:
			fmt.Fprintf(w, "~ %s %s %s -> %s\n", p.Manager, p.Name, p.From, p.To)
		}
	}
	if len(d.Packages)+len(d.Files) == 0 {
		fmt.Fprintf(w, "versions %d and %d have the same files and packages\n", d.From, d.To)
	}
	for _, f := range d.Files {
		fmt.Fprintf(w, "%s %s\n", map[string]string{"added": "+", "removed": "-", "changed": "~"}[f.Change], f.Path)
	}
}

func newEnvDelete(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "delete ENV",
		Short:             "Delete an environment with its tree, builds and versions",
		Example:           `  enplace env delete content-studio`,
		Long:              "Delete an environment with its tree, builds and versions. Tasks that run on it keep what they read until they end.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEnvironments(c),
		RunE: withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, _ []string) error {
			if err := api.DeleteEnvironment(ctx, e.ID); err != nil {
				return err
			}
			return c.print(map[string]string{"deleted": e.ID}, func(w io.Writer) { fmt.Fprintf(w, "deleted %s\n", e.Slug) })
		}),
	}
}
