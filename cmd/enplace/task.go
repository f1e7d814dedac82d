package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newTask(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "task",
		Aliases: []string{"tasks"},
		Short:   "Tasks: run commands with an environment in place",
		Long: `A task is one run of a harness, in a sandbox of its own: the environment stands read only at /env/<slug>, and
/task is its own writable directory. What it leaves there can be listed and downloaded.

TASK is an id (task_…).`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newTaskRun(c), newTaskList(c), newTaskShow(c), newTaskLog(c), newTaskFiles(c), newTaskGet(c), newTaskArchive(c),
		newTaskCancel(c), newTaskExec(c), newTaskSSH(c))
	return cmd
}

// withTask wraps a command whose first argument is a task's id.
func withTask(c *cli, run func(ctx context.Context, api *client.Client, id string, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if !enplace.ValidID(enplace.PrefixTask, args[0]) {
			return enplace.Errorf(enplace.KindMalformed, "%q is not the id of a task, which looks like task_… and is in `enplace task list`", args[0]).WithField("TASK")
		}
		api, err := c.client()
		if err != nil {
			return err
		}
		return run(cmd.Context(), api, args[0], args[1:])
	}
}

// completeTasks offers the ids of the newest tasks; with states, of those alone.
func completeTasks(c *cli, states ...enplace.TaskStatus) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		api, err := c.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		l, err := api.ListTasks(cmd.Context(), enplace.TaskQuery{}, enplace.Page{Limit: enplace.MaxPageSize})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for _, t := range l.Items {
			if len(states) == 0 || slices.Contains(states, t.Status) {
				ids = append(ids, t.ID+"\t"+string(t.Status)+" "+ago(t.CreatedAt))
			}
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

func printTask(w io.Writer, t enplace.Task) {
	rows := [][]string{{"id", t.ID}, {"status", string(t.Status)}, {"exit code", number(t.ExitCode)}, {"owner", t.Owner}, {"harness", t.Metadata.Harness},
		{"environment", orDash(t.Metadata.Environment)}}
	if t.Metadata.EnvironmentVersion != nil {
		rows = append(rows, []string{"version", fmt.Sprintf("%d (%s)", *t.Metadata.EnvironmentVersion, t.Metadata.EnvironmentDigest)})
	}
	if t.Open {
		rows = append(rows, []string{"open", "takes commands until it is cancelled or out of time"})
	}
	rows = append(rows, []string{"limits", limitLine(t.Limits)}, []string{"created", ago(t.CreatedAt)}, []string{"started", when(t.StartedAt)}, []string{"ended", when(t.EndedAt)})
	if t.StartMS > 0 {
		rows = append(rows, []string{"start took", fmt.Sprintf("%.1f ms", t.StartMS)})
	}
	table(w, rows...)
	if t.Error != nil {
		printFailure(w, t.Error)
	}
}

func printFailure(w io.Writer, f *enplace.Failure) {
	fmt.Fprintf(w, "%s: %s\n", f.Reason, f.Message)
	for _, fix := range f.Fixes {
		fmt.Fprintln(w, "  what to do: "+fix)
	}
}
