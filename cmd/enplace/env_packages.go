package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newEnvPackages(c *cli) *cobra.Command {
	add := map[enplace.Manager]*[]string{}
	var remove []string
	cmd := &cobra.Command{
		Use:   "packages ENV",
		Short: "Show, declare or remove packages",
		Long: `Without flags: show the declared packages. With them: declare packages, or remove them by name.
A package that is declared already gets its new version. Names and versions are checked against their
registries. The next build installs them.`,
		Example: `  enplace env packages content-studio
  enplace env packages content-studio --pip pandas==2.2.3 --npm typescript --apt jq
  enplace env packages content-studio --remove pip:pandas`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEnvironments(c),
	}
	for _, m := range enplace.Managers {
		add[m] = new([]string)
		cmd.Flags().StringArrayVar(add[m], string(m), nil, "declare a package of "+string(m)+" (repeat for more)")
	}
	cmd.Flags().StringArrayVar(&remove, "remove", nil, "remove MANAGER:NAME (repeat for more)")
	cmd.RunE = withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, _ []string) error {
		next, changed, err := editPackages(e.Packages, add, remove)
		if err != nil {
			return err
		}
		if changed {
			e, err = api.UpdateEnvironment(ctx, e.ID, enplace.UpdateEnvironment{Packages: &enplace.PackageLists{Pip: &next.Pip, NPM: &next.NPM, Apt: &next.Apt}})
			if err != nil {
				return err
			}
		}
		return c.print(e.Packages, func(w io.Writer) {
			for _, m := range enplace.Managers {
				fmt.Fprintf(w, "%s  %s\n", m, strings.Join(e.Packages.Of(m), " "))
			}
		})
	})
	return cmd
}

func editPackages(p enplace.Packages, add map[enplace.Manager]*[]string, remove []string) (enplace.Packages, bool, error) {
	lists := map[enplace.Manager][]string{enplace.Pip: slices.Clone(p.Pip), enplace.NPM: slices.Clone(p.NPM), enplace.Apt: slices.Clone(p.Apt)}
	changed := false
	drop := func(m enplace.Manager, name string) bool {
		n := len(lists[m])
		lists[m] = slices.DeleteFunc(lists[m], func(entry string) bool {
			pkg, err := enplace.ParsePackage(m, entry)
			return err == nil && pkg.CanonicalName() == name
		})
		return len(lists[m]) < n
	}
	for _, m := range enplace.Managers {
		for _, entry := range *add[m] {
			pkg, err := enplace.ParsePackage(m, entry)
			if err != nil {
				return p, false, err
			}
			drop(m, pkg.CanonicalName())
			lists[m], changed = append(lists[m], entry), true
		}
	}
	for _, r := range remove {
		m, name, ok := strings.Cut(r, ":")
		if !ok || !slices.Contains(enplace.Managers, enplace.Manager(m)) {
			return p, false, enplace.Invalidf("%q does not say which manager; write pip:NAME, npm:NAME or apt:NAME", r).WithField("--remove")
		}
		pkg, err := enplace.ParsePackage(enplace.Manager(m), name)
		if err != nil {
			return p, false, err
		}
		if !drop(enplace.Manager(m), pkg.CanonicalName()) {
			return p, false, enplace.NotFoundf("%s is not declared", r).WithField("--remove")
		}
		changed = true
	}
	return enplace.Packages{Pip: lists[enplace.Pip], NPM: lists[enplace.NPM], Apt: lists[enplace.Apt]}, changed, nil
}
