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

func newItemSet(c *cli) *cobra.Command {
	var mode string
	var enable, disable bool
	cmd := &cobra.Command{
		Use:   "set SCOPE KEY",
		Short: "Change how the scope that declares an item offers it",
		Example: `  enplace item set organisation node --mode available
  enplace item set team:web deploy --disable`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeEach(c, offerScopes, offerItems),
	}
	f := cmd.Flags()
	f.StringVar(&mode, "mode", "", "added or available")
	f.BoolVar(&enable, "enable", false, "let it be in sets")
	f.BoolVar(&disable, "disable", false, "keep it out of every set")
	complete(cmd, "mode", cobra.FixedCompletions([]string{
		string(enplace.ItemAdded) + "\tin the set of every conversation that reads its scope", string(enplace.ItemAvailable) + "\tin a set only where a scope added it",
	}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = withScope(c, func(ctx context.Context, api *client.Client, scope enplace.Scope, args []string) error {
		if err := exclusive(cmd, "enable", "disable"); err != nil {
			return err
		}
		var in enplace.UpdateItem
		if mode != "" {
			m := enplace.ItemMode(mode)
			in.Mode = &m
		}
		if enable || disable {
			in.Enabled = &enable
		}
		if in == (enplace.UpdateItem{}) {
			return usageError(cmd, "nothing to change: name --mode, --enable or --disable")
		}
		return updateItem(ctx, c, api, scope, args[0], in)
	})
	return cmd
}

func newItemLock(c *cli, locked bool) *cobra.Command {
	use, short := "lock KEY", "Lock an item of the organisation: no nearer scope can switch it off, on, or use its key"
	if !locked {
		use, short = "unlock KEY", "Let nearer scopes choose about an item of the organisation again"
	}
	return &cobra.Command{
		Use:     use,
		Short:   short,
		Example: "  enplace item " + strings.Fields(use)[0] + " node",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, func(ctx context.Context, api *client.Client, _ []string) []string {
			return itemKeys(ctx, api, enplace.Organisation)
		}),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			return updateItem(ctx, c, api, enplace.Organisation, args[0], enplace.UpdateItem{Locked: &locked})
		}),
	}
}

func updateItem(ctx context.Context, c *cli, api *client.Client, scope enplace.Scope, key string, in enplace.UpdateItem) error {
	i, err := api.UpdateItem(ctx, scope, key, in)
	if err != nil {
		return err
	}
	return c.print(i, func(w io.Writer) { fmt.Fprintf(w, "%s of %s: %s, %s\n", i.Key, i.Scope, i.Mode, itemState(i)) })
}

func newItemChoice(c *cli, verb string, state enplace.ItemChoice, short string) *cobra.Command {
	return &cobra.Command{
		Use:               verb + " SCOPE KEY",
		Short:             short,
		Example:           `  enplace item ` + verb + ` person:ann node`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeEach(c, offerScopes, offerItems),
		RunE: withScope(c, func(ctx context.Context, api *client.Client, scope enplace.Scope, args []string) error {
			v, err := api.PutChoice(ctx, scope, args[0], enplace.PutChoice{State: state})
			if err != nil {
				return err
			}
			return c.print(v, func(w io.Writer) { fmt.Fprintf(w, "%s for %s: %s\n", v.Key, v.Scope, v.State) })
		}),
	}
}
