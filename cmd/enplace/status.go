package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"enplace"
)

func newStatus(c *cli) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether a server is ready, and what it runs on",
		Long: `Say whether a server can run tasks and builds, and what it runs on. Exits 8 when it cannot; with --wait, when it
still cannot after that time.`,
		Example: `  enplace status
  enplace status --data /var/lib/enplace --wait 5m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if err := waitReady(ctx, c, wait); err != nil {
				return err
			}
			api, err := c.client()
			if err != nil {
				return err
			}
			raw, err := api.Status(ctx)
			if err != nil {
				return err
			}
			return c.print(raw, func(w io.Writer) { printStatus(w, raw) })
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait until it is ready, at most this long")
	return cmd
}

// readyInterval is how often a server that starts is asked. It may not even listen yet, so there is no event to wait for.
const readyInterval = 100 * time.Millisecond

// waitReady gives nil once the server is ready, or why it is not when the wait is over.
func waitReady(ctx context.Context, c *cli, wait time.Duration) error {
	for end := time.Now().Add(wait); ; {
		api, err := c.client()
		if err == nil {
			err = api.Ready(ctx)
		}
		if err == nil || !time.Now().Before(end) || enplace.KindOf(err) != enplace.KindUnavailable {
			return err
		}
		select {
		case <-time.After(readyInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func printStatus(w io.Writer, raw json.RawMessage) {
	var s struct {
		Version string
		Server  struct {
			Sandboxes int
			Base      struct{ Digest, Source, Suite, Python, Node string }
		}
	}
	_ = json.Unmarshal(raw, &s) // what an older server does not say stays empty
	fmt.Fprintf(w, "ready, version %s, %d sandboxes in use\n", s.Version, s.Server.Sandboxes)
	if b := s.Server.Base; b.Digest != "" {
		fmt.Fprintf(w, "base %s: %s %s, python %s, node %s\n", b.Digest, b.Source, b.Suite, b.Python, b.Node)
	}
}
