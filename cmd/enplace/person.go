package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newPerson(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "person",
		Aliases: []string{"people"},
		Short:   "People: each has a scope and a computer",
		Long: `A person has a scope of their own, person:LOGIN, and a computer of the same name. They are in the teams that name
them; a key of kind person has their login as its subject.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newPersonPut(c), newPersonList(c), newPersonShow(c),
		removal(c, "remove LOGIN", "Remove a person who owns nothing any more, with their conversations", "enplace person remove ann", offerPeople, (*client.Client).DeletePerson))
	return cmd
}

func newPersonPut(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "put LOGIN",
		Short:   "Make a person",
		Example: `  enplace person put ann`,
		Args:    cobra.ExactArgs(1),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			p, err := api.PutPerson(ctx, args[0])
			if err != nil {
				return err
			}
			return c.print(p, func(w io.Writer) { fmt.Fprintf(w, "person %s, in: %s\n", p.Login, listed(p.Teams, "no team")) })
		}),
	}
}

func newPersonList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List people",
		Args:    cobra.NoArgs,
		RunE: withClient(c, func(ctx context.Context, api *client.Client, _ []string) error {
			all, err := everything(ctx, api.ListPeople)
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				rows := [][]string{{"LOGIN", "TEAMS", "CREATED"}}
				for _, p := range all {
					rows = append(rows, []string{p.Login, listed(p.Teams, "-"), ago(p.CreatedAt)})
				}
				table(w, rows...)
			})
		}),
	}
}

func newPersonShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "show LOGIN",
		Short:             "Show a person",
		Example:           `  enplace person show ann`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerPeople),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			p, err := api.Person(ctx, args[0])
			if err != nil {
				return err
			}
			return c.print(p, func(w io.Writer) {
				table(w, []string{"login", p.Login}, []string{"scope", string(enplace.PersonScope(p.Login))}, []string{"teams", listed(p.Teams, "-")},
					[]string{"created", ago(p.CreatedAt)})
			})
		}),
	}
}
