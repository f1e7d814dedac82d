package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"enplace"
	"enplace/client"
)

func newKeychain(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keychain",
		Short: "Keychain: values that commands get as variables, and installations never",
		Long: `A value of a scope's keychain is encrypted before it is stored and never comes back. Commands of conversations that
read the scope get it as a variable; of a name that several scopes have, the nearest one's counts.

` + aboutScopes,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newKeychainPut(c), newKeychainList(c), newKeychainRemove(c))
	return cmd
}

func newKeychainPut(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "put SCOPE NAME",
		Short: "Set a value, which is read from standard input",
		Long: `Set a value. It is read from standard input, without the line end that closes it, or asked for on a terminal, which
does not show it: a command line is no place for a secret.`,
		Example: `  enplace keychain put team:web NPM_TOKEN < token.txt
  pass show github | enplace keychain put person:ann GITHUB_TOKEN`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeEach(c, offerScopes, offerSecrets),
		RunE: withScope(c, func(ctx context.Context, api *client.Client, scope enplace.Scope, args []string) error {
			value, err := readSecret(c)
			if err != nil {
				return err
			}
			s, err := api.PutSecret(ctx, scope, args[0], enplace.PutSecret{Value: value})
			if err != nil {
				return err
			}
			return c.print(s, func(w io.Writer) { fmt.Fprintf(w, "%s of %s is set\n", s.Name, s.Scope) })
		}),
	}
}

// readSecret reads a value from standard input, or asks for one.
func readSecret(c *cli) (string, error) {
	if in, ok := c.in.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		fmt.Fprint(c.err, "value: ")
		b, err := term.ReadPassword(int(in.Fd()))
		fmt.Fprintln(c.err)
		if errors.Is(err, io.EOF) {
			return "", enplace.Invalidf("no value was given").WithField("value")
		}
		return string(b), err
	}
	text, err := readText(c, "-", enplace.MaxJSONBytes/4, "standard input")
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"), nil
}

func newKeychainList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "list SCOPE",
		Aliases:           []string{"ls"},
		Short:             "List what a scope's keychain has, without values",
		Example:           `  enplace keychain list team:web`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerScopes),
		RunE: withScope(c, func(ctx context.Context, api *client.Client, scope enplace.Scope, _ []string) error {
			all, err := everything(ctx, func(ctx context.Context, p enplace.Page) (enplace.List[enplace.Secret], error) {
				return api.ListSecrets(ctx, scope, p)
			})
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				rows := [][]string{{"NAME", "SCOPE", "BY", "CREATED", "CHANGED"}}
				for _, s := range all {
					rows = append(rows, []string{s.Name, string(s.Scope), s.CreatedBy, ago(s.CreatedAt), ago(s.UpdatedAt)})
				}
				table(w, rows...)
			})
		}),
	}
}

func newKeychainRemove(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "remove SCOPE NAME",
		Aliases:           []string{"rm", "delete"},
		Short:             "Remove a value; commands that run keep it until they end",
		Example:           `  enplace keychain remove team:web NPM_TOKEN`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeEach(c, offerScopes, offerSecrets),
		RunE: withScope(c, func(ctx context.Context, api *client.Client, scope enplace.Scope, args []string) error {
			if err := api.DeleteSecret(ctx, scope, args[0]); err != nil {
				return err
			}
			return c.print(map[string]string{"removed": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "removed %s of %s\n", args[0], scope) })
		}),
	}
}

// offerSecrets offers the names in the keychain of the scope before them.
func offerSecrets(ctx context.Context, api *client.Client, before []string) []string {
	l, _ := api.ListSecrets(ctx, enplace.Scope(before[0]), enplace.Page{Limit: enplace.MaxPageSize}) // an error is no offer
	var names []string
	for _, s := range l.Items {
		names = append(names, s.Name)
	}
	return names
}
