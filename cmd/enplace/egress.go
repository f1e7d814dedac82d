package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newEgress(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "egress",
		Short: "Egress: what computers may reach, scope by scope",
		Long: `Each scope may have a policy: open, allowlist (hosts) or none. A conversation gets the strictest of its scopes'.

` + aboutScopes,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newEgressShow(c), newEgressSet(c),
		removal(c, "remove SCOPE", "Leave what computers reach to the other scopes", "enplace egress remove team:web", offerScopes, func(api *client.Client, ctx context.Context, scope string) error {
			return api.DeleteEgress(ctx, enplace.Scope(scope))
		}))
	return cmd
}

func newEgressShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "show SCOPE",
		Short:             "Show a scope's own policy",
		Example:           `  enplace egress show team:web`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerScopes),
		RunE: withScope(c, func(ctx context.Context, api *client.Client, scope enplace.Scope, _ []string) error {
			e, err := api.Egress(ctx, scope)
			if noPolicy(err) {
				return showOuter(ctx, c, api, scope)
			}
			if err != nil {
				return err
			}
			return c.print(e, func(w io.Writer) { fmt.Fprintln(w, printable(egressLine(e))) })
		}),
	}
}

// noPolicy tells the answer about a scope without a policy from that about a scope that is not there.
func noPolicy(err error) bool {
	var e *enplace.Error
	return errors.As(err, &e) && e.Kind == enplace.KindNotFound && e.Field == "egress"
}

// showOuter says what holds for a scope without a policy of its own: what the scopes that it reads say. Under --json it is null, the
// policy that there is not.
func showOuter(ctx context.Context, c *cli, api *client.Client, scope enplace.Scope) error {
	var outer []enplace.Scope
	if scope != enplace.Organisation {
		outer = append(outer, enplace.Organisation)
	}
	if login := scope.Person(); login != "" {
		p, err := api.Person(ctx, login)
		if err != nil {
			return err
		}
		for _, team := range p.Teams {
			outer = append(outer, enplace.TeamScope(team))
		}
	}
	lines := []string{fmt.Sprintf("%s has no policy of its own", scope)}
	for _, o := range outer {
		e, err := api.Egress(ctx, o)
		if noPolicy(err) {
			continue
		}
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("  %s says %s", o, printable(egressLine(e))))
	}
	if len(lines) == 1 {
		lines = append(lines, "  nor has a scope that it reads: its computers reach what is public, unless a nearer scope says otherwise")
	}
	return c.print(nil, func(w io.Writer) { fmt.Fprintln(w, strings.Join(lines, "\n")) })
}

func newEgressSet(c *cli) *cobra.Command {
	var hosts []string
	cmd := &cobra.Command{
		Use:   "set SCOPE POLICY",
		Short: "Set a scope's policy: open, allowlist or none",
		Example: `  enplace egress set organisation open
  enplace egress set team:web allowlist --host registry.npmjs.org --host '*.example.org'`,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: completeEach(c, offerScopes, func(context.Context, *client.Client, []string) []string {
			return []string{string(enplace.EgressOpen), string(enplace.EgressAllowlist), string(enplace.EgressNone)}
		}),
		RunE: withScope(c, func(ctx context.Context, api *client.Client, scope enplace.Scope, args []string) error {
			in := enplace.Egress{Policy: enplace.EgressPolicy(args[0]), Hosts: hosts}
			if err := in.Check(""); err != nil {
				return err
			}
			e, err := api.PutEgress(ctx, scope, in)
			if err != nil {
				return err
			}
			return c.print(e, func(w io.Writer) { fmt.Fprintf(w, "%s: %s\n", scope, egressLine(e)) })
		}),
	}
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "host that an allow-list lets through; *.example.org for all below one (repeat for more)")
	return cmd
}
