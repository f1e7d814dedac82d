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

func newEnvSet(c *cli) *cobra.Command {
	var name, python, index, check, egress string
	var scripts bool
	cmd := &cobra.Command{
		Use:   "set ENV",
		Short: "Change an environment's settings; the next build uses them",
		Example: `  enplace env set content-studio --python 3.12
  enplace env set content-studio --check "python -m pytest -q"
  enplace env set content-studio --egress pypi.org,files.pythonhosted.org`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEnvironments(c),
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "name; the path stays")
	f.StringVar(&python, "python", "", "Python version; empty for the base's")
	f.StringVar(&index, "pip-index", "", "package index; empty for the server's")
	f.StringVar(&check, "check", "", "command that must pass at the end of each build, run by sh; empty for none")
	f.StringVar(&egress, "egress", "", "what builds may reach: open, none, or hosts separated by commas")
	f.BoolVar(&scripts, "npm-scripts", true, "whether npm packages may run install scripts")
	cmd.RunE = withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, _ []string) error {
		var in enplace.UpdateEnvironment
		changed := func(flag string) bool { return f.Changed(flag) }
		if changed("name") {
			in.Name = &name
		}
		if changed("python") {
			in.PythonVersion = &python
		}
		if changed("pip-index") {
			in.PipIndexURL = &index
		}
		if changed("check") {
			argv := []string{}
			if check != "" {
				argv = []string{"sh", "-c", check}
			}
			in.Check = &argv
		}
		if changed("egress") {
			in.Egress = parseEgress(egress)
		}
		if changed("npm-scripts") {
			in.Scripts = &scripts
		}
		if in == (enplace.UpdateEnvironment{}) {
			return usageError(cmd, "nothing to change: name a setting")
		}
		e, err := api.UpdateEnvironment(ctx, e.ID, in)
		if err != nil {
			return err
		}
		return c.print(e, func(w io.Writer) { fmt.Fprintf(w, "%s changed\n", e.Slug) })
	})
	return cmd
}

// parseEgress reads open, none, or hosts separated by commas.
func parseEgress(s string) *enplace.Egress {
	switch s {
	case string(enplace.EgressOpen), string(enplace.EgressNone):
		return &enplace.Egress{Policy: enplace.EgressPolicy(s)}
	}
	return &enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: strings.Split(s, ",")}
}
