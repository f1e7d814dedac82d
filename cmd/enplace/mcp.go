package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"enplace"
	"enplace/internal/mcpserver"
)

func newMCP(c *cli) *cobra.Command {
	var t mcpserver.Target
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Give an agent its computer or its task as MCP tools, over standard input and output",
		Long: `Speak the Model Context Protocol over standard input and output: run commands, read and write files, see which
tools could not be installed and why, and read the instructions. It acts with the key in ENPLACE_KEY, and can do nothing
that the key cannot. A key of kind agent says by itself which conversation or task it belongs to.

The server speaks the same over HTTP at /mcp, with the key as a bearer token, for agents that run elsewhere.`,
		Example: `  enplace key create "Ada's agent" --kind agent --subject conversation:ada
  ENPLACE_KEY=… enplace mcp
  enplace mcp --conversation standup
  claude mcp add enplace -- enplace mcp --conversation ada
  claude mcp add --transport http enplace http://127.0.0.1:8470/mcp --header "Authorization: Bearer …"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.serveMCP(cmd.Context(), t) },
	}
	f := cmd.Flags()
	f.StringVar(&t.Conversation, "conversation", "", "the conversation whose computer it is (default: the key's)")
	f.StringVar(&t.Task, "task", "", "the running task that it is (default: the key's)")
	complete(cmd, "conversation", completeEach(c, offerConversations))
	complete(cmd, "task", completeTasks(c, enplace.TaskRunning))
	return cmd
}

func (c *cli) serveMCP(ctx context.Context, t mcpserver.Target) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	if t, err = mcpserver.Find(ctx, api, t); err != nil {
		return err
	}
	err = mcpserver.New(api, t, version).Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(c.in), Writer: nopCloser{c.out}})
	if errors.Is(err, io.EOF) || ctx.Err() != nil { // the agent has gone
		return nil
	}
	return err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// withMCP answers at /mcp beside the API, which the answers come from.
func withMCP(api http.Handler, a *app, ln net.Listener) http.Handler {
	agents := mcpserver.Handler("http://"+reachable(ln.Addr()), version, a.log)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // no mux: it would redirect what the API refuses
		if r.URL.Path == "/mcp" {
			agents.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// reachable gives the address by which this machine reaches a listener: one on all addresses is on loopback as well.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	local := *tcp
	local.IP, local.Zone = net.IPv6loopback, ""
	if tcp.IP.To4() != nil {
		local.IP = net.IPv4(127, 0, 0, 1)
	}
	return local.String()
}
