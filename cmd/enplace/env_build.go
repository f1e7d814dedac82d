package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newEnvBuild(c *cli) *cobra.Command {
	var detach bool
	cmd := &cobra.Command{
		Use:   "build ENV",
		Short: "Build the next version, and follow it",
		Long: `Build the environment as it is now into its next version. The log is shown as it grows, each line behind
the time since the start. Interrupting this command leaves the build running; enplace env cancel stops it.`,
		Example:           `  enplace env build content-studio`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEnvironments(c),
		RunE: withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, _ []string) error {
			b, err := api.StartBuild(ctx, e.ID)
			if err != nil {
				return err
			}
			if !detach {
				if b, err = followBuild(ctx, c, api, e.ID, b.N); err != nil {
					return err
				}
			}
			show := printBuild
			if detach {
				show = func(w io.Writer, b enplace.Build) {
					fmt.Fprintf(w, "build %d is %s; follow it: enplace env log %s %d -f\n", b.N, b.Status, e.Slug, b.N)
				}
			}
			if err := c.print(b, func(w io.Writer) { show(w, b) }); err != nil {
				return err
			}
			if b.Status.Ended() && b.Status != enplace.BuildSucceeded {
				return statusError(1)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&detach, "detach", false, "do not wait for the build")
	return cmd
}

// followBuild shows the log until the build has ended, and gives it.
func followBuild(ctx context.Context, c *cli, api *client.Client, id string, n int) (enplace.Build, error) {
	out := c.out
	if c.json {
		out = c.err // the answer alone goes to standard output
	}
	_, err := api.FollowBuildLog(ctx, id, n, &timedLines{w: out, start: time.Now()})
	if err != nil && !errors.Is(err, context.Canceled) && enplace.KindOf(err) != enplace.KindNotFound {
		return enplace.Build{}, err
	}
	if ctx.Err() != nil {
		return enplace.Build{}, ctx.Err()
	}
	return api.WaitBuild(ctx, id, n)
}

// timedLines puts the time since the start before each line.
type timedLines struct {
	w     io.Writer
	start time.Time
	rest  []byte
}

func (t *timedLines) Write(p []byte) (int, error) {
	t.rest = append(t.rest, p...)
	for {
		i := bytes.IndexByte(t.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		if _, err := fmt.Fprintf(t.w, "%7.1fs  %s\n", time.Since(t.start).Seconds(), t.rest[:i]); err != nil {
			return 0, err
		}
		t.rest = t.rest[i+1:]
	}
}

func printBuild(w io.Writer, b enplace.Build) {
	rows := [][]string{{"STEP", "STATUS", "TIME"}}
	for _, s := range b.Steps {
		status := string(s.Status)
		if s.Cached {
			status = "cached"
		}
		rows = append(rows, []string{s.Name, status, fmt.Sprintf("%.1fs", float64(s.ElapsedMS)/1000)})
	}
	table(w, rows...)
	fmt.Fprintf(w, "build %d: %s in %.1fs", b.N, b.Status, float64(b.ElapsedMS)/1000)
	if b.Version != nil {
		fmt.Fprintf(w, ", version %d", *b.Version)
	}
	fmt.Fprintln(w)
	for _, warning := range b.Warnings {
		fmt.Fprintln(w, "warning: "+warning)
	}
	if b.Error != nil {
		fmt.Fprintf(w, "%s: %s\n", b.Error.Reason, b.Error.Message)
		for _, f := range b.Error.Fixes {
			fmt.Fprintln(w, "  what to do: "+f)
		}
	}
}
