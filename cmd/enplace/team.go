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

func newTeam(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "team",
		Aliases: []string{"teams"},
		Short:   "Teams: scopes of the organisation, with the people in them",
		Long: `A team is a scope, team:NAME: its people's conversations, and its rooms, have its items.
Teams, people and rooms are changed with an operator's key.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newTeamPut(c), newTeamList(c), newTeamShow(c), newTeamRemove(c))
	return cmd
}

func newTeamPut(c *cli) *cobra.Command {
	var people []string
	var nobody bool
	cmd := &cobra.Command{
		Use:   "put NAME",
		Short: "Make a team, or change who is in it",
		Long: `Make a team, or change who is in it. With --person the team has just these people: who is not named leaves it.
Without, those who are in it stay. A login that is not known yet becomes a person.`,
		Example: `  enplace team put web --person ann --person bob
  enplace team put web --nobody`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerTeams),
	}
	cmd.Flags().StringSliceVar(&people, "person", nil, "login of someone who is in it (repeat for more)")
	cmd.Flags().BoolVar(&nobody, "nobody", false, "nobody is in it")
	complete(cmd, "person", completeEach(c, offerPeople))
	cmd.RunE = withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
		if err := exclusive(cmd, "person", "nobody"); err != nil {
			return err
		}
		in := enplace.PutTeam{People: people}
		if len(people) == 0 && !nobody {
			have, err := api.Team(ctx, args[0])
			if err != nil && enplace.KindOf(err) != enplace.KindNotFound {
				return err
			}
			in.People = have.People
		}
		t, err := api.PutTeam(ctx, args[0], in)
		if err != nil {
			return err
		}
		return c.print(t, func(w io.Writer) { fmt.Fprintf(w, "team %s: %s\n", t.Name, listed(t.People, "nobody")) })
	})
	return cmd
}

func listed(words []string, none string) string {
	if len(words) == 0 {
		return none
	}
	return strings.Join(words, ", ")
}

func newTeamList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List teams",
		Args:    cobra.NoArgs,
		RunE: withClient(c, func(ctx context.Context, api *client.Client, _ []string) error {
			all, err := everything(ctx, api.ListTeams)
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				rows := [][]string{{"TEAM", "PEOPLE", "CREATED"}}
				for _, t := range all {
					rows = append(rows, []string{t.Name, listed(t.People, "-"), ago(t.CreatedAt)})
				}
				table(w, rows...)
			})
		}),
	}
}

func newTeamShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Show a team",
		Example:           `  enplace team show web`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerTeams),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			t, err := api.Team(ctx, args[0])
			if err != nil {
				return err
			}
			return c.print(t, func(w io.Writer) {
				table(w, []string{"team", t.Name}, []string{"scope", string(enplace.TeamScope(t.Name))}, []string{"people", listed(t.People, "-")},
					[]string{"created", ago(t.CreatedAt)}, []string{"changed", ago(t.UpdatedAt)})
			})
		}),
	}
}

func newTeamRemove(c *cli) *cobra.Command {
	return removal(c, "remove NAME", "Remove a team that owns nothing any more", "enplace team remove web", offerTeams, (*client.Client).DeleteTeam)
}

// removal makes the command that removes a thing by its name.
func removal(c *cli, use, short, example string, names offers, remove func(*client.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:               use,
		Aliases:           []string{"rm", "delete"},
		Short:             short,
		Example:           "  " + example,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, names),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			if err := remove(api, ctx, args[0]); err != nil {
				return err
			}
			return printRemoved(c, args[0])
		}),
	}
}

func printRemoved(c *cli, what string) error {
	return c.print(map[string]string{"removed": what}, func(w io.Writer) { fmt.Fprintf(w, "removed %s\n", what) })
}
