package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"enplace"
)

func newKey(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "key",
		Aliases: []string{"keys"},
		Short:   "API keys: who may do what",
		Long: `A key belongs to an operator (everything), a person (what that person created), a harness (start and read its
tasks) or an agent (commands and files of one task, or commands of one conversation). Its secret is shown once, when it is made.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newKeyCreate(c), newKeyList(c), newKeyRevoke(c), newKeyRecover(c), newKeyWhoami(c))
	return cmd
}

func newKeyCreate(c *cli) *cobra.Command {
	var in enplace.CreateKey
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a key, and print its secret: the only time that it is shown",
		Example: `  enplace key create alice-laptop --kind person --subject alice
  enplace key create bot --kind agent --subject conversation:ann-1
  export ENPLACE_KEY=$(enplace key create ci --kind harness --subject har_…)`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.client()
			if err != nil {
				return err
			}
			in.Name = args[0]
			k, err := api.CreateKey(cmd.Context(), in)
			if err != nil {
				return err
			}
			return c.print(k, func(w io.Writer) {
				fmt.Fprintf(c.err, "%s for %s %s; keep the secret now, it is not shown again\n", k.ID, k.Kind, k.Subject)
				fmt.Fprintln(w, k.Secret)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar((*string)(&in.Kind), "kind", string(enplace.KeyPerson), "operator, person, harness or agent")
	f.StringVar(&in.Subject, "subject", "", "the person's login, the harness's id, the task's id, or conversation:ID")
	complete(cmd, "kind", cobra.FixedCompletions([]string{
		string(enplace.KeyOperator) + "\teverything", string(enplace.KeyPerson) + "\twhat that person created",
		string(enplace.KeyHarness) + "\ttasks of one harness", string(enplace.KeyAgent) + "\tcommands and files of one task, or commands of one conversation",
	}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func newKeyList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List keys, without their secrets",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.client()
			if err != nil {
				return err
			}
			all, err := everything(cmd.Context(), api.ListKeys)
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				rows := [][]string{{"ID", "NAME", "KIND", "SUBJECT", "CREATED", "LAST USED", "REVOKED"}}
				for _, k := range all {
					rows = append(rows, []string{k.ID, k.Name, string(k.Kind), orDash(k.Subject), ago(k.CreatedAt), when(k.LastUsed), when(k.RevokedAt)})
				}
				table(w, rows...)
			})
		},
	}
}

func newKeyRevoke(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke KEY",
		Short:   "Make a key useless, at once and for good",
		Example: `  enplace key revoke key_…`,
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			api, err := c.client()
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			l, err := api.ListKeys(cmd.Context(), enplace.Page{Limit: enplace.MaxPageSize})
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var ids []string
			for _, k := range l.Items {
				if k.RevokedAt == nil {
					ids = append(ids, k.ID+"\t"+k.Name)
				}
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.client()
			if err != nil {
				return err
			}
			k, err := api.RevokeKey(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.print(k, func(w io.Writer) { fmt.Fprintf(w, "revoked %s (%s)\n", k.ID, k.Name) })
		},
	}
}

func newKeyWhoami(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Say whom the key in use belongs to",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.client()
			if err != nil {
				return err
			}
			i, err := api.Whoami(cmd.Context())
			if err != nil {
				return err
			}
			return c.print(i, func(w io.Writer) { fmt.Fprintf(w, "%s (%s key %s)\n", i.Name, i.Kind, i.KeyID) })
		},
	}
}
