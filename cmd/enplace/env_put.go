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

func newEnvPut(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "put ENV PATH [FILE]",
		Short: "Write one file of the tree, from FILE or standard input",
		Example: `  enplace env put content-studio src/config.toml ./config.toml
  echo hello | enplace env put content-studio greeting.txt`,
		Args:              cobra.RangeArgs(2, 3),
		ValidArgsFunction: thenFiles(completeEnvironments(c)),
		RunE: withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, args []string) error {
			content, executable := c.in, false
			if len(args) == 2 && args[1] != "-" {
				f, err := os.Open(args[1])
				if err != nil {
					return enplace.Invalidf("cannot read %s", args[1]).WithCause(err)
				}
				defer f.Close()
				fi, err := f.Stat()
				if err != nil {
					return err
				}
				if fi.IsDir() {
					return enplace.Invalidf("%s is a folder, and put writes one file", args[1]).WithFix("enplace env import %s %s --merge", e.Slug, args[1])
				}
				content, executable = f, fi.Mode()&0o100 != 0
			}
			entry, created, err := api.PutFile(ctx, e.ID, args[0], content, executable)
			if err != nil {
				return err
			}
			return c.print(entry, func(w io.Writer) {
				word := "replaced"
				if created {
					word = "created"
				}
				fmt.Fprintf(w, "%s %s (%s)\n", word, entry.Path, size(entry.Size))
			})
		}),
	}
}

func newEnvGet(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "get ENV PATH",
		Short:             "Print one file of the tree",
		Example:           `  enplace env get content-studio data/articles.csv > articles.csv`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeEnvironments(c),
		RunE: withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, args []string) error {
			f, err := api.OpenFile(ctx, e.ID, args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(c.out, f)
			return err
		}),
	}
}

func newEnvRemove(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "rm ENV PATH",
		Short:             "Remove a file, or a folder with all below it, from the tree",
		Example:           `  enplace env rm content-studio data/old.csv`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeEnvironments(c),
		RunE: withEnvironment(c, func(ctx context.Context, api *client.Client, e enplace.Environment, args []string) error {
			if err := api.DeleteFile(ctx, e.ID, args[0]); err != nil {
				return err
			}
			return c.print(map[string]string{"deleted": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "removed %s\n", args[0]) })
		}),
	}
}
