package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newEnvBuilds(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "builds ENV",
		Short:             "List builds",
		Example:           `  enplace env builds content-studio`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEnvironments(c),
		RunE: withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, _ []string) error {
			all, err := everything(ctx, func(ctx context.Context, p enplace.Page) (enplace.List[enplace.Build], error) {
				return api.ListBuilds(ctx, e.ID, p)
			})
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				rows := [][]string{{"BUILD", "STATUS", "VERSION", "TIME", "CREATED", "ERROR"}}
				for _, b := range all {
					why := ""
					if b.Error != nil {
						why = b.Error.Message
					}
					rows = append(rows, []string{fmt.Sprint(b.N), string(b.Status), number(b.Version), fmt.Sprintf("%.1fs", float64(b.ElapsedMS)/1000), ago(b.CreatedAt), why})
				}
				table(w, rows...)
			})
		}),
	}
}

func newEnvCancel(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "cancel ENV [BUILD]",
		Short:             "Cancel a build (default: the newest)",
		Example:           `  enplace env cancel content-studio`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeEnvironments(c),
		RunE: withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, args []string) error {
			n, err := buildNumber(ctx, api, e, args)
			if err != nil {
				return err
			}
			b, err := api.CancelBuild(ctx, e.ID, n)
			if err != nil {
				return err
			}
			return c.print(b, func(w io.Writer) { fmt.Fprintf(w, "build %d is being cancelled\n", b.N) })
		}),
	}
}

func newEnvLog(c *cli) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "log ENV [BUILD]",
		Short: "Print the log of a build (default: the newest)",
		Example: `  enplace env log content-studio
  enplace env log content-studio 3`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeEnvironments(c),
		RunE: withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, args []string) error {
			n, err := buildNumber(ctx, api, e, args)
			if err != nil {
				return err
			}
			if follow {
				_, err := api.FollowBuildLog(ctx, e.ID, n, c.out)
				return err
			}
			return copyOut(c.out)(api.BuildLog(ctx, e.ID, n))
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as the log grows")
	return cmd
}

// copyOut writes an answer's body and closes it.
func copyOut(w io.Writer) func(io.ReadCloser, error) error {
	return func(r io.ReadCloser, err error) error {
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(w, r)
		return err
	}
}

// buildNumber reads the number after the environment, or gives the newest build's.
func buildNumber(ctx context.Context, api *client.Client, e enplace.Environment, args []string) (int, error) {
	if len(args) > 0 {
		return atLeastOne("BUILD", args[0])
	}
	l, err := api.ListBuilds(ctx, e.ID, enplace.Page{Limit: 1})
	if err != nil {
		return 0, err
	}
	if len(l.Items) == 0 {
		return 0, enplace.NotFoundf("the environment has no build yet").WithFix("enplace env build %s", e.Slug)
	}
	return l.Items[0].N, nil
}

func atLeastOne(what, s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, enplace.Errorf(enplace.KindMalformed, "%q is not a number from 1", s).WithField(what)
	}
	return n, nil
}
