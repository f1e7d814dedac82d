package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newEnv(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "env",
		Aliases: []string{"environment", "environments"},
		Short:   "Environments: a project and its packages",
		Long: `An environment is a project and its packages. It is built into numbered versions that never change;
the active one stands at /env/<slug>, read only, in every task that names the environment.

ENV is an id (henv_…), a slug or a name.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newEnvCreate(c), newEnvList(c), newEnvShow(c), newEnvSet(c), newEnvFiles(c), newEnvPut(c), newEnvGet(c), newEnvRemove(c),
		newEnvImport(c), newEnvPackages(c), newEnvCheck(c), newEnvBuild(c), newEnvBuilds(c), newEnvCancel(c), newEnvLog(c), newEnvVersions(c),
		newEnvActivate(c), newEnvDiff(c), newEnvDelete(c))
	return cmd
}

// findEnvironment gives the environment of an id, slug or name.
func findEnvironment(ctx context.Context, api *client.Client, name string) (enplace.Environment, error) {
	if enplace.ValidID(enplace.PrefixEnvironment, name) {
		return api.Environment(ctx, name)
	}
	p := enplace.Page{Limit: enplace.MaxPageSize}
	for {
		l, err := api.ListEnvironments(ctx, p)
		if err != nil {
			return enplace.Environment{}, err
		}
		for _, e := range l.Items {
			if e.Slug == name || e.Name == name {
				return api.Environment(ctx, e.ID)
			}
		}
		if l.Next == "" {
			return enplace.Environment{}, enplace.NotFoundf("there is no environment %q", name).WithFix("enplace env list")
		}
		p.Cursor = l.Next
	}
}

// slugs gives a function that names environments as people know them: by slug, and by id where this key knows no more of it.
// It is for lists alone, and a list is worth showing without it too.
func slugs(ctx context.Context, api *client.Client) func(id string) string {
	all, _ := everything(ctx, api.ListEnvironments)
	known := map[string]string{"": "-"}
	for _, e := range all {
		known[e.ID] = e.Slug
	}
	return func(id string) string { return cmp.Or(known[id], id) }
}

// withEnvironment wraps a command whose first argument is an environment.
func withEnvironment(c *cli, run func(ctx context.Context, api *client.Client, e enplace.Environment, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		api, err := c.client()
		if err != nil {
			return err
		}
		e, err := findEnvironment(cmd.Context(), api, args[0])
		if err != nil {
			return err
		}
		return run(cmd.Context(), api, e, args[1:])
	}
}

// completeEnvironments offers slugs to the shell, and nothing for what comes after one.
func completeEnvironments(c *cli) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		api, err := c.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		l, err := api.ListEnvironments(cmd.Context(), enplace.Page{Limit: enplace.MaxPageSize})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var slugs []string
		for _, e := range l.Items {
			slugs = append(slugs, e.Slug+"\t"+e.Name)
		}
		return slugs, cobra.ShellCompDirectiveNoFileComp
	}
}

// thenFiles lets files of this machine follow an environment.
func thenFiles(environments cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return environments(cmd, args, word)
	}
}

// thenVersions lets as many versions follow an environment.
func thenVersions(c *cli, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return completeEnvironments(c)(cmd, args, word)
		}
		api, err := c.client()
		if err != nil || len(args) > most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		e, err := findEnvironment(cmd.Context(), api, args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var numbers []string
		for _, v := range e.Versions {
			numbers = append(numbers, fmt.Sprintf("%d\tof %s", v.N, ago(v.CreatedAt)))
		}
		return numbers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// table writes rows in columns; the first row is the heading.
func table(w io.Writer, rows ...[]string) {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	_ = t.Flush() // the terminal or pipe says so itself
}

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

func ago(t time.Time) string {
	return t.Local().Format("2006-01-02 15:04:05")
}

func number(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

// everything gives all pages of a list.
func everything[T any](ctx context.Context, page func(context.Context, enplace.Page) (enplace.List[T], error)) ([]T, error) {
	all := []T{}
	p := enplace.Page{Limit: enplace.MaxPageSize}
	for {
		l, err := page(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, l.Items...)
		if l.Next == "" {
			return all, nil
		}
		p.Cursor = l.Next
	}
}
