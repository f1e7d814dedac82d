package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newTaskList(c *cli) *cobra.Command {
	var harness, env, status string
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List tasks, newest first",
		Example: `  enplace task list --status running
  enplace task list --env content-studio --limit 500`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usageError(cmd, "--limit must be at least 1")
			}
			api, err := c.client()
			if err != nil {
				return err
			}
			q := enplace.TaskQuery{Status: enplace.TaskStatus(status)}
			if harness != "" {
				q.Harness = harness
				if !enplace.ValidID(enplace.PrefixHarness, harness) {
					h, err := findHarness(cmd.Context(), api, harness)
					if err != nil {
						return err
					}
					q.Harness = h.ID
				}
			}
			if env != "" {
				e, err := findEnvironment(cmd.Context(), api, env)
				if err != nil {
					return err
				}
				q.Environment = e.ID
			}
			all, err := first(cmd.Context(), limit, func(ctx context.Context, p enplace.Page) (enplace.List[enplace.Task], error) {
				return api.ListTasks(ctx, q, p)
			})
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) { printTasks(w, all, slugs(cmd.Context(), api)) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&harness, "harness", "", "only tasks of this harness")
	f.StringVar(&env, "env", "", "only tasks on this environment")
	f.StringVar(&status, "status", "", "only tasks of this status: queued, running, succeeded, failed or cancelled")
	f.IntVar(&limit, "limit", 50, "how many")
	complete(cmd, "env", completeEnvironments(c))
	complete(cmd, "harness", completeHarnesses(c))
	complete(cmd, "status", cobra.FixedCompletions([]string{"queued", "running", "succeeded", "failed", "cancelled"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func printTasks(w io.Writer, all []enplace.Task, slug func(id string) string) {
	rows := [][]string{{"ID", "STATUS", "EXIT", "ENVIRONMENT", "VERSION", "OWNER", "CREATED", "TOOK"}}
	for _, t := range all {
		took := "-"
		if t.StartedAt != nil && t.EndedAt != nil {
			took = t.EndedAt.Sub(*t.StartedAt).Round(time.Millisecond).String()
		}
		rows = append(rows, []string{t.ID, string(t.Status), number(t.ExitCode), slug(t.Metadata.Environment), number(t.Metadata.EnvironmentVersion), t.Owner, ago(t.CreatedAt), took})
	}
	table(w, rows...)
}

func newTaskShow(c *cli) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "show TASK",
		Short: "Show a task: status, exit code, and what it read",
		Example: `  enplace task show task_…
  enplace task show task_… --wait 5m --json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTasks(c),
		RunE: withTask(c, func(ctx context.Context, api *client.Client, id string, _ []string) error {
			t, err := waitTask(ctx, api, id, wait)
			if err != nil {
				return err
			}
			return c.print(t, func(w io.Writer) { printTask(w, t) })
		}),
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait for its end, at most this long")
	return cmd
}

// waitTask gives a task once it has ended or the wait is over, in as many requests as that takes.
func waitTask(ctx context.Context, api *client.Client, id string, wait time.Duration) (enplace.Task, error) {
	for end := time.Now().Add(wait); ; {
		t, err := api.Task(ctx, id, min(max(time.Until(end), 0), time.Minute))
		if err != nil || t.Status.Ended() || !time.Now().Before(end) {
			return t, err
		}
	}
}

func newTaskLog(c *cli) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:               "log TASK",
		Short:             "Print what a task printed",
		Example:           `  enplace task log task_… --follow`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTasks(c),
		RunE: withTask(c, func(ctx context.Context, api *client.Client, id string, _ []string) error {
			if follow {
				_, err := api.FollowTaskLog(ctx, id, c.out)
				return err
			}
			return copyOut(c.out)(api.TaskLog(ctx, id))
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as it prints, until it ends")
	return cmd
}

func newTaskCancel(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "cancel TASK",
		Short:             "Stop a task and everything it started",
		Example:           `  enplace task cancel task_…`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTasks(c, enplace.TaskQueued, enplace.TaskRunning),
		RunE: withTask(c, func(ctx context.Context, api *client.Client, id string, _ []string) error {
			t, err := api.CancelTask(ctx, id)
			if err != nil {
				return err
			}
			return c.print(t, func(w io.Writer) { fmt.Fprintf(w, "%s: %s\n", t.ID, t.Status) })
		}),
	}
}
