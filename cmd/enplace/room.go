package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newRoom(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "room",
		Aliases: []string{"rooms"},
		Short:   "Rooms: shared conversation places, each with a computer",
		Long: `A room belongs to the organisation or to one team, whose items its conversations have; it has none of its own.
Its computer is room:NAME.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newRoomPut(c), newRoomList(c), newRoomShow(c),
		removal(c, "remove NAME", "Remove a room without a computer, with its conversations", "enplace room remove hall", offerRooms, (*client.Client).DeleteRoom))
	return cmd
}

func newRoomPut(c *cli) *cobra.Command {
	var in enplace.PutRoom
	cmd := &cobra.Command{
		Use:   "put NAME",
		Short: "Make a room, or say anew what it is",
		Example: `  enplace room put hall --internal
  enplace room put web-help --team web`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerRooms),
	}
	cmd.Flags().StringVar(&in.Team, "team", "", "team that it belongs to (default: the organisation)")
	cmd.Flags().BoolVar(&in.Internal, "internal", false, "everybody in it belongs to the organisation, so that a person there may start a retry")
	complete(cmd, "team", completeEach(c, offerTeams))
	cmd.RunE = withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
		r, err := api.PutRoom(ctx, args[0], in)
		if err != nil {
			return err
		}
		return c.print(r, func(w io.Writer) { fmt.Fprintf(w, "room %s of %s\n", r.Name, roomOf(r)) })
	})
	return cmd
}

// roomOf gives the scope that a room belongs to.
func roomOf(r enplace.Room) string {
	if r.Team == "" {
		return string(enplace.Organisation)
	}
	return string(enplace.TeamScope(r.Team))
}

func newRoomList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List rooms",
		Args:    cobra.NoArgs,
		RunE: withClient(c, func(ctx context.Context, api *client.Client, _ []string) error {
			all, err := everything(ctx, api.ListRooms)
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				rows := [][]string{{"ROOM", "OF", "INTERNAL", "CREATED"}}
				for _, r := range all {
					rows = append(rows, []string{r.Name, roomOf(r), yesNo(r.Internal), ago(r.CreatedAt)})
				}
				table(w, rows...)
			})
		}),
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func newRoomShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Show a room",
		Example:           `  enplace room show hall`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerRooms),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			r, err := api.Room(ctx, args[0])
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				table(w, []string{"room", r.Name}, []string{"of", roomOf(r)}, []string{"internal", yesNo(r.Internal)}, []string{"computer", "room:" + r.Name},
					[]string{"created", ago(r.CreatedAt)}, []string{"changed", ago(r.UpdatedAt)})
			})
		}),
	}
}
