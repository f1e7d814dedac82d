package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newConversation(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "conversation",
		Aliases: []string{"conversations"},
		Short:   "Conversations: where commands come from, and which scopes they read",
		Long: `A conversation with a person reads the organisation, one of the person's teams, and the person; one in a room reads
the organisation and the room's team. Its commands run on the computer of the person or the room.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newConversationPut(c), newConversationList(c), newConversationShow(c),
		removal(c, "remove ID", "Remove a conversation; its computer stays", "enplace conversation remove ann-1", offerConversations, (*client.Client).DeleteConversation))
	return cmd
}

func newConversationPut(c *cli) *cobra.Command {
	var in enplace.PutConversation
	cmd := &cobra.Command{
		Use:   "put ID",
		Short: "Make a conversation, or change what it reads",
		Long: `Make a conversation with a person (--person) or in a room (--room), or change what it reads. ID is yours to choose:
1 to 63 lower-case letters, digits or hyphens.`,
		Example: `  enplace conversation put ann-1 --person ann
  enplace conversation put ann-2 --person ann --team web
  enplace conversation put hall-1 --room hall`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerConversations),
	}
	f := cmd.Flags()
	f.StringVar(&in.Person, "person", "", "login of the person that it is with")
	f.StringVar(&in.Room, "room", "", "room that it is in")
	f.StringVar(&in.Team, "team", "", "which of the person's teams it reads, where there are several")
	complete(cmd, "person", completeEach(c, offerPeople))
	complete(cmd, "room", completeEach(c, offerRooms))
	complete(cmd, "team", completeEach(c, offerTeams))
	cmd.RunE = withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
		if err := cmp.Or(exclusive(cmd, "person", "room"), exclusive(cmd, "team", "room")); err != nil {
			return err
		}
		switch {
		case in.Room != "":
			in.Kind = enplace.ConversationRoom
		case in.Person != "":
			in.Kind = enplace.ConversationDirect
		default:
			return usageError(cmd, "say with whom it is, or where: --person LOGIN or --room NAME")
		}
		v, err := api.PutConversation(ctx, args[0], in)
		if err != nil {
			return err
		}
		return c.print(v, func(w io.Writer) { fmt.Fprintf(w, "conversation %s, on the computer %s\n", v.ID, v.Computer) })
	})
	return cmd
}

func newConversationList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List conversations",
		Args:    cobra.NoArgs,
		RunE: withClient(c, func(ctx context.Context, api *client.Client, _ []string) error {
			all, err := everything(ctx, api.ListConversations)
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				rows := [][]string{{"ID", "KIND", "COMPUTER", "TEAM", "CREATED"}}
				for _, v := range all {
					rows = append(rows, []string{v.ID, string(v.Kind), v.Computer, orDash(v.Team), ago(v.CreatedAt)})
				}
				table(w, rows...)
			})
		}),
	}
}

func newConversationShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "show ID",
		Short:             "Show a conversation",
		Example:           `  enplace conversation show ann-1`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerConversations),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			v, err := api.Conversation(ctx, args[0])
			if err != nil {
				return err
			}
			return c.print(v, func(w io.Writer) {
				table(w, []string{"id", v.ID}, []string{"kind", string(v.Kind)}, []string{"person", orDash(v.Person)}, []string{"team", orDash(v.Team)},
					[]string{"room", orDash(v.Room)}, []string{"computer", v.Computer}, []string{"created", ago(v.CreatedAt)}, []string{"changed", ago(v.UpdatedAt)})
			})
		}),
	}
}
