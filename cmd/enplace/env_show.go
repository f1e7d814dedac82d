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

func newEnvShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "show ENV",
		Short:             "Show an environment: packages, versions, where it stands",
		Example:           `  enplace env show content-studio`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEnvironments(c),
		RunE: withEnvironment(c, func(_ context.Context, _ *client.Client, e enplace.Environment, _ []string) error {
			return c.print(e, func(w io.Writer) { printEnvironment(w, e) })
		}),
	}
}

func printEnvironment(w io.Writer, e enplace.Environment) {
	rows := [][]string{{"name", e.Name}, {"id", e.ID}, {"path", e.Path}, {"owner", e.Owner}, {"tree", files(e.Files) + ", " + size(e.Bytes)},
		{"active version", number(e.ActiveVersion)}}
	for _, m := range enplace.Managers {
		if list := e.Packages.Of(m); len(list) > 0 {
			rows = append(rows, []string{string(m), strings.Join(list, " ")})
		}
	}
	if e.PythonVersion != "" {
		rows = append(rows, []string{"python", e.PythonVersion})
	}
	if e.PipIndexURL != "" {
		rows = append(rows, []string{"pip index", e.PipIndexURL})
	}
	if len(e.Check) > 0 {
		rows = append(rows, []string{"check", quoteWords(e.Check)})
	}
	if e.Egress != nil {
		rows = append(rows, []string{"egress of builds", egressLine(*e.Egress)})
	}
	if e.Scripts != nil && !*e.Scripts {
		rows = append(rows, []string{"npm scripts", "off"})
	}
	table(w, rows...)
	if len(e.Versions) > 0 {
		fmt.Fprintln(w)
		printVersions(w, e.Versions)
	}
}

func printVersions(w io.Writer, versions []enplace.VersionSummary) {
	rows := [][]string{{"VERSION", "BUILD", "SIZE", "CREATED", "DIGEST"}}
	for _, v := range versions {
		n := fmt.Sprint(v.N)
		if v.Active {
			n += " (active)"
		}
		rows = append(rows, []string{n, fmt.Sprint(v.Build), size(v.Bytes), ago(v.CreatedAt), v.Digest})
	}
	table(w, rows...)
}
