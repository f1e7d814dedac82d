package main

import (
	"context"

	"github.com/spf13/cobra"

	"enplace/client"
)

func newComputerSSH(c *cli) *cobra.Command {
	var stdio bool
	cmd := &cobra.Command{
		Use:   "ssh CONVERSATION [-- COMMAND…]",
		Short: "Open a shell, or run a command, on a conversation's computer over SSH",
		Long: `Open a shell on the computer of a conversation, with the conversation's set in place, on a terminal when this is one;
or run a command there, word by word. The exit status is the shell's or the command's.

With --stdio the connection itself is passed through, for ssh, scp, rsync and editors: see enplace task ssh --help.`,
		Example: `  enplace computer ssh ann-1
  enplace computer ssh ann-1 -- tail -f server.log
  rsync -e 'ssh -o ProxyCommand="enplace computer ssh --stdio ann-1"' -a ./shop/ root@ann:shop/`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeEach(c, offerConversations),
	}
	cmd.Flags().BoolVar(&stdio, "stdio", false, "pass the connection through standard input and output, for ProxyCommand")
	cmd.RunE = withClient(c, func(ctx context.Context, api *client.Client, args []string) error {
		if stdio && len(args) > 1 {
			return usageError(cmd, "--stdio takes no command")
		}
		if err := checkConversation(args[0]); err != nil {
			return err
		}
		conn, err := api.DialConversation(ctx, args[0])
		if err != nil {
			return err
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		if stdio {
			return bridge(c, conn)
		}
		return remote(ctx, c, conn, args[1:])
	})
	return cmd
}
