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

func newItem(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "item",
		Aliases: []string{"items"},
		Short:   "Items: the toolchains that scopes declare, and what scopes make of them",
		Long: `An item comes with a plugin of a scope. It is added (in the set of every conversation that reads its scope) or
available (in a set only where a scope added it). A nearer scope can add an item or switch it off for itself, unless
the organisation locked it.

` + aboutScopes + ` KEY is the item's key.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newItemList(c), newItemShow(c), newItemSet(c), newItemLock(c, true), newItemLock(c, false),
		newItemChoice(c, "add", enplace.ChoiceAdded, "Have an item in the sets of a scope's conversations"),
		newItemChoice(c, "off", enplace.ChoiceOff, "Switch an inherited item off for a scope"),
		newItemChoice(c, "inherit", enplace.ChoiceInherit, "Take back what a scope said: what the scopes above say counts"))
	return cmd
}

func newItemList(c *cli) *cobra.Command {
	var scope string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the items that a scope declares or inherits",
		Example: `  enplace item list
  enplace item list --scope person:ann`,
		Args: cobra.NoArgs,
		RunE: withClient(c, func(ctx context.Context, api *client.Client, _ []string) error {
			all, err := everything(ctx, func(ctx context.Context, p enplace.Page) (enplace.List[enplace.ListedItem], error) {
				return api.ListItems(ctx, enplace.Scope(scope), p)
			})
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				rows := [][]string{{"KEY", "SCOPE", "MODE", "STATE", "CHOICE", "IN SET", "WHY"}}
				for _, i := range all {
					rows = append(rows, []string{i.Key, string(i.Scope), string(i.Mode), itemState(i.Item), orDash(string(i.Choice)), yesNo(i.InSet), printable(i.Reason)})
				}
				table(w, rows...)
			})
		}),
	}
	cmd.Flags().StringVar(&scope, "scope", string(enplace.Organisation), "scope whose items to list, with those that it inherits")
	complete(cmd, "scope", completeEach(c, offerScopes))
	return cmd
}

func itemState(i enplace.Item) string {
	state := []string{"enabled"}
	if !i.Enabled {
		state[0] = "disabled"
	}
	if i.Locked {
		state = append(state, "locked")
	}
	return strings.Join(state, ", ")
}

func newItemShow(c *cli) *cobra.Command {
	var files bool
	cmd := &cobra.Command{
		Use:               "show SCOPE KEY",
		Short:             "Show an item of the scope that declares it",
		Example:           `  enplace item show organisation node --files`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeEach(c, offerScopes, offerItems),
		RunE: withScope(c, func(ctx context.Context, api *client.Client, scope enplace.Scope, args []string) error {
			i, err := api.Item(ctx, scope, args[0])
			if err != nil {
				return err
			}
			return c.print(i, func(w io.Writer) { printItem(w, i, files) })
		}),
	}
	cmd.Flags().BoolVar(&files, "files", false, "show its files too")
	return cmd
}

func printItem(w io.Writer, i enplace.Item, files bool) {
	var names []string
	for _, f := range i.Files {
		names = append(names, f.Path)
	}
	table(w, []string{"key", i.Key}, []string{"name", printable(i.Name)}, []string{"description", printable(i.Description)}, []string{"scope", string(i.Scope)},
		[]string{"plugin", orDash(i.Plugin)}, []string{"mode", string(i.Mode)}, []string{"state", itemState(i)}, []string{"files", printable(strings.Join(names, ", "))},
		[]string{"changed", ago(i.UpdatedAt)})
	if len(i.Tools) > 0 {
		rows := [][]string{{"TOOL", "VERSION", "LINE"}}
		for _, t := range i.Tools {
			rows = append(rows, []string{printable(t.Name), printable(t.Version), fmt.Sprint(t.Line)})
		}
		fmt.Fprintln(w)
		table(w, rows...)
	}
	printPluginFindings(w, i.Findings)
	if !files {
		return
	}
	for _, f := range i.Files {
		fmt.Fprintf(w, "\n== %s ==\n%s", printable(f.Path), lines(f.Content, ""))
	}
}

// lines makes a stranger's text fit for a terminal, line by line, each behind an indent.
func lines(text, indent string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(indent)
		for i, cell := range strings.Split(strings.TrimSuffix(line, "\n"), "\t") {
			if i > 0 {
				out.WriteByte('\t')
			}
			out.WriteString(printable(cell))
		}
		out.WriteByte('\n')
	}
	return out.String()
}
