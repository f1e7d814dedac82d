package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"enplace"
	"enplace/client"
)

func newComputerErrors(c *cli) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:               "errors COMPUTER",
		Short:             "List what could not be installed on a computer, newest first",
		Example:           `  enplace computer errors person:ann --limit 5`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerComputers),
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "how many")
	cmd.RunE = withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
		if limit < 1 {
			return usageError(cmd, "--limit must be at least 1")
		}
		if err := checkComputer(args[0]); err != nil {
			return err
		}
		all, err := first(ctx, limit, func(ctx context.Context, p enplace.Page) (enplace.List[enplace.ComputerError], error) {
			return api.ListComputerErrors(ctx, args[0], p)
		})
		if err != nil {
			return err
		}
		return c.print(all, func(w io.Writer) {
			for _, e := range all {
				times := ""
				if e.Count > 1 {
					times = fmt.Sprintf(", %d times since %s", e.Count, ago(e.At))
				}
				fmt.Fprintf(w, "%s  %s of %s, attempt %d%s: %s\n%s", ago(e.LastAt), e.Key, e.Scope, e.Attempt, times, printable(e.Error), lines(e.ErrorTail, "  "))
			}
		})
	})
	return cmd
}

func newComputerLog(c *cli) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:     "log COMPUTER SET",
		Short:   "Print the log of a set's last installation on a computer",
		Long:    `Print the log of a set's last installation on a computer. SET is the set's hash, or a conversation that has the set now.`,
		Example: `  enplace computer log person:ann ann-1 --follow`,
		Args:    cobra.ExactArgs(2),
		ValidArgsFunction: completeEach(c, offerComputers, func(ctx context.Context, api *client.Client, before []string) []string {
			v, _ := api.Computer(ctx, before[0]) // an error is no offer
			var hashes []string
			for _, s := range v.Sets {
				hashes = append(hashes, s.Hash+"\t"+counted(len(s.Items), "item"))
			}
			return hashes
		}),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			if err := checkComputer(args[0]); err != nil {
				return err
			}
			hash, err := setHash(ctx, api, args[1])
			if err != nil {
				return err
			}
			if follow {
				_, err := api.FollowComputerLog(ctx, args[0], hash, c.out)
				return err
			}
			return copyOut(c.out)(api.ComputerLog(ctx, args[0], hash))
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as the log grows")
	return cmd
}

func newComputerStop(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "stop COMPUTER",
		Short: "Stop a computer and all that runs there; its files stay, and the next command starts it",
		Long: `Stop a computer, whoever uses it: commands that run there are ended. Its files and tools stay, and the next command of one
of its conversations starts it. What was being installed is redone then.`,
		Example:           `  enplace computer stop person:ann`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerComputers),
		RunE: withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
			if err := checkComputer(args[0]); err != nil {
				return err
			}
			v, err := api.StopComputer(ctx, args[0])
			if err != nil {
				return err
			}
			return c.print(v, func(w io.Writer) { fmt.Fprintf(w, "%s is stopped\n", v.ID) })
		}),
	}
}

func newComputerReset(c *cli) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:               "reset COMPUTER",
		Short:             "Remove a computer with all its files; the next command makes another",
		Example:           `  enplace computer reset person:ann --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeEach(c, offerComputers),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "remove all its files, for good")
	cmd.RunE = withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
		if err := checkComputer(args[0]); err != nil {
			return err
		}
		if !yes {
			return enplace.Errorf(enplace.KindMalformed, "this removes %s with all its files, for good; nothing was done", printable(args[0])).WithField("--yes").
				WithFix("say so: enplace computer reset %s --yes", quoteWords(args[:1]))
		}
		if err := api.ResetComputer(ctx, args[0]); err != nil {
			return err
		}
		return printRemoved(c, args[0])
	})
	return cmd
}
