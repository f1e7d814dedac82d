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
		next, err := editPackages(e.Packages, add, remove)
		if err != nil {
			return err
		}
		if next != (enplace.PackageLists{}) {
			if e, err = api.UpdateEnvironment(ctx, e.ID, enplace.UpdateEnvironment{Packages: &next}); err != nil {
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

// editPackages gives the lists that change; one that stays is left out, so that whoever changes it at the same time is not undone.
func editPackages(p enplace.Packages, add map[enplace.Manager]*[]string, remove []string) (enplace.PackageLists, error) {
	var next enplace.PackageLists
	lists := map[enplace.Manager]**[]string{enplace.Pip: &next.Pip, enplace.NPM: &next.NPM, enplace.Apt: &next.Apt}
	// drop takes a package out of its list and reports whether it was there. Debian's are told apart by architecture too.
	drop := func(pkg enplace.Package) bool {
		list := lists[pkg.Manager]
		if *list == nil {
			fresh := slices.Clone(p.Of(pkg.Manager))
			*list = &fresh
		}
		n := len(**list)
		**list = slices.DeleteFunc(**list, func(entry string) bool {
			old, err := enplace.ParsePackage(pkg.Manager, entry)
			return err == nil && old.CanonicalName() == pkg.CanonicalName() && old.Arch == pkg.Arch
		})
		return len(**list) < n
	}
	for _, m := range enplace.Managers {
		for _, entry := range *add[m] {
			pkg, err := enplace.ParsePackage(m, entry)
			if err != nil {
				return next, err
			}
			drop(pkg)
			**lists[m] = append(**lists[m], entry)
		}
	}
	for _, r := range remove {
		m, name, ok := strings.Cut(r, ":")
		if !ok || !slices.Contains(enplace.Managers, enplace.Manager(m)) {
			return next, enplace.Invalidf("%q does not say which manager; write pip:NAME, npm:NAME or apt:NAME", r).WithField("--remove")
		}
		pkg, err := enplace.ParsePackage(enplace.Manager(m), name)
		if err != nil {
			return next, err
		}
		if !drop(pkg) {
			return next, enplace.NotFoundf("%s is not declared", r).WithField("--remove")
		}
	}
	return next, nil
}
