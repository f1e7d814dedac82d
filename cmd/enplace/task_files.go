package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newTaskFiles(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "files TASK",
		Short:             "List what a task left, or has so far, in /task",
		Example:           `  enplace task files task_…`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTasks(c),
		RunE: withTask(c, func(ctx context.Context, api *client.Client, id string, _ []string) error {
			all, err := everything(ctx, func(ctx context.Context, p enplace.Page) (enplace.List[enplace.WorkFile], error) {
				p.Limit = enplace.MaxListedEntries
				return api.ListTaskFiles(ctx, id, p)
			})
			if err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				for _, f := range all {
					mark := ""
					switch f.Type {
					case "link":
						mark = " -> " + f.Target
					case "other":
						mark = " (no regular file)"
					}
					fmt.Fprintf(w, "%s %10d  %s%s\n", f.Mode, f.Size, printable(f.Path), printable(mark))
				}
			})
		}),
	}
}

// printable replaces what a terminal might obey: the names of files are a task's own.
func printable(s string) string { return enplace.Shown(s, len(s)) }

func newTaskGet(c *cli) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "get TASK PATH",
		Short: "Print one file that a task left, or write it to a file",
		Example: `  enplace task get task_… result.json
  enplace task get task_… charts/sales.png -o sales.png`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeTasks(c),
		RunE: withTask(c, func(ctx context.Context, api *client.Client, id string, args []string) error {
			r, err := api.OpenTaskFile(ctx, id, args[0])
			return save(c, out, r, err)
		}),
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write (default: standard output)")
	return cmd
}

func newTaskArchive(c *cli) *cobra.Command {
	var out, extract string
	cmd := &cobra.Command{
		Use:   "archive TASK",
		Short: "Download what a task left: as a tar, or unpacked into a folder",
		Long: `Download what a task left in /task, as a tar to standard output or a file, or unpacked into a folder (--extract).
Unpacked are regular files, and links that stay inside the folder; nothing is written through a link.`,
		Example: `  enplace task archive task_… -o results.tar
  enplace task archive task_… --extract ./results`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTasks(c),
		RunE: withTask(c, func(ctx context.Context, api *client.Client, id string, _ []string) error {
			if extract != "" && out != "" {
				return enplace.Errorf(enplace.KindMalformed, "write a tar to --output, or unpack it into --extract, not both").WithField("--extract")
			}
			if extract != "" {
				t, err := api.Task(ctx, id, 0)
				if err != nil {
					return err
				}
				return downloadTask(ctx, c, api, t, extract)
			}
			r, err := api.TaskArchive(ctx, id)
			return save(c, out, r, err)
		}),
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write (default: standard output)")
	cmd.Flags().StringVar(&extract, "extract", "", "folder to unpack into; it is made when it is not there")
	return cmd
}

// save writes an answer's body to a file, or to standard output. Of one that was cut nothing stays.
func save(c *cli, name string, r io.ReadCloser, err error) error {
	if err != nil {
		return err
	}
	defer r.Close()
	if name == "" || name == "-" {
		_, err = io.Copy(c.out, r)
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return enplace.Invalidf("cannot write %s", name).WithField("--output").WithCause(err)
	}
	_, err = io.Copy(f, r)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		os.Remove(name)
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// downloadTask unpacks what a task left into a folder of this machine.
func downloadTask(ctx context.Context, c *cli, api *client.Client, t enplace.Task, dir string) error {
	r, err := api.TaskArchive(ctx, t.ID)
	if err != nil {
		return err
	}
	defer r.Close()
	got, err := unpack(r, dir, int64(t.Limits.DiskMiB)<<20)
	if err != nil {
		return err
	}
	for _, s := range got.skipped {
		fmt.Fprintln(c.err, "enplace: left out "+printable(s))
	}
	fmt.Fprintf(c.err, "%s, %s, in %s\n", files(got.files), size(got.bytes), dir)
	return nil
}
