package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

// aboutScopes is what the help of commands says that take one.
const aboutScopes = "SCOPE is organisation, team:NAME or person:LOGIN."

// withClient wraps a command that speaks to the server.
func withClient(c *cli, run func(ctx context.Context, api *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		api, err := c.client()
		if err != nil {
			return err
		}
		return run(cmd.Context(), api, args)
	}
}

// withScope wraps a command whose first argument is a scope: what is none is told before a server is asked.
func withScope(c *cli, run func(ctx context.Context, api *client.Client, scope enplace.Scope, args []string) error) func(*cobra.Command, []string) error {
	return withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
		scope, err := enplace.ParseScope(args[0])
		if err != nil {
			return err
		}
		return run(ctx, api, scope, args[1:])
	})
}

// exclusive refuses two flags that contradict each other.
func exclusive(cmd *cobra.Command, one, other string) error {
	if cmd.Flags().Changed(one) && cmd.Flags().Changed(other) {
		return usageError(cmd, "give --%s or --%s, not both", one, other)
	}
	return nil
}

// offers gives what there is to complete a word with, each with a tab and what it is; an error is no offer.
type offers func(ctx context.Context, api *client.Client, before []string) []string

// completeEach completes the first argument by the first of these, the second by the second; behind them there is nothing.
func completeEach(c *cli, each ...offers) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(each) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		api, err := c.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return each[len(args)](cmd.Context(), api, args), cobra.ShellCompDirectiveNoFileComp
	}
}

// offerAll makes offers of a list.
func offerAll[T any](list func(*client.Client) func(context.Context, enplace.Page) (enplace.List[T], error), word func(T) string) offers {
	return func(ctx context.Context, api *client.Client, _ []string) []string {
		l, err := list(api)(ctx, enplace.Page{Limit: enplace.MaxPageSize})
		if err != nil {
			return nil
		}
		words := make([]string, 0, len(l.Items))
		for _, v := range l.Items {
			words = append(words, word(v))
		}
		return words
	}
}

type listOf[T any] = func(context.Context, enplace.Page) (enplace.List[T], error)

var (
	offerTeams = offerAll(func(api *client.Client) listOf[enplace.Team] { return api.ListTeams },
		func(t enplace.Team) string { return t.Name + "\t" + counted(len(t.People), "member") })
	offerPeople = offerAll(func(api *client.Client) listOf[enplace.Person] { return api.ListPeople },
		func(p enplace.Person) string { return p.Login + "\t" + strings.Join(p.Teams, ", ") })
	offerRooms = offerAll(func(api *client.Client) listOf[enplace.Room] { return api.ListRooms },
		func(r enplace.Room) string { return r.Name + "\t" + r.Team })
	offerConversations = offerAll(func(api *client.Client) listOf[enplace.Conversation] { return api.ListConversations },
		func(v enplace.Conversation) string { return v.ID + "\t" + v.Computer })
	offerComputers = offerAll(func(api *client.Client) listOf[enplace.Computer] { return api.ListComputers },
		func(v enplace.Computer) string { return v.ID + "\t" + string(v.State) })
)

// offerScopes offers the organisation, the teams and the people.
func offerScopes(ctx context.Context, api *client.Client, _ []string) []string {
	words := []string{string(enplace.Organisation)}
	for _, name := range offerTeams(ctx, api, nil) {
		words = append(words, string(enplace.TeamScope(name)))
	}
	for _, login := range offerPeople(ctx, api, nil) {
		words = append(words, string(enplace.PersonScope(login)))
	}
	return words
}

// offerSets offers conversations, by which sets are named, and the sets that computers have.
func offerSets(ctx context.Context, api *client.Client, _ []string) []string {
	words := offerConversations(ctx, api, nil)
	l, err := api.ListComputers(ctx, enplace.Page{Limit: enplace.MaxPageSize})
	if err != nil {
		return words
	}
	for _, v := range l.Items {
		for _, s := range v.Sets {
			words = append(words, s.Hash+"\t"+v.ID+", "+counted(len(s.Items), "item"))
		}
	}
	return words
}

// offerItems offers the keys of the items that the scope before them reads.
func offerItems(ctx context.Context, api *client.Client, before []string) []string {
	return itemKeys(ctx, api, enplace.Scope(before[0]))
}

func itemKeys(ctx context.Context, api *client.Client, scope enplace.Scope) []string {
	l, err := api.ListItems(ctx, scope, enplace.Page{Limit: enplace.MaxPageSize})
	if err != nil {
		return nil
	}
	var words []string
	for _, i := range l.Items {
		words = append(words, i.Key+"\t"+printable(i.Description))
	}
	return words
}
