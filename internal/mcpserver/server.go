// Package mcpserver gives an agent its computer or its task as tools of the Model Context Protocol: commands, files, what of the
// toolchain failed, and the instructions. It speaks to the API as a client does, with the agent's own key, so that it can do
// nothing that the key cannot. Source: the protocol's specification of 2025-11-25.
package mcpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"enplace"
	"enplace/client"
)

// instructionsURI is the resource that says what is where.
const instructionsURI = "enplace://instructions"

// Target is where the agent works: exactly one of a conversation's computer and a task.
type Target struct {
	Conversation string
	Task         string
}

// conversationSubject begins the subject of an agent's key that belongs to a conversation.
const conversationSubject = "conversation:"

// Find gives the target that a key of kind agent belongs to, unless one is named. One that is not there, or that the key may not
// know of, is an error.
func Find(ctx context.Context, api *client.Client, named Target) (Target, error) {
	t, err := find(ctx, api, named)
	if err != nil {
		return t, err
	}
	if t.Task != "" {
		_, err = api.Task(ctx, t.Task, 0)
	} else {
		_, err = api.Conversation(ctx, t.Conversation)
	}
	return t, err
}

func find(ctx context.Context, api *client.Client, named Target) (Target, error) {
	if named.Conversation != "" && named.Task != "" {
		return Target{}, enplace.Invalidf("name a conversation or a task, not both")
	}
	if named != (Target{}) {
		return named, nil
	}
	who, err := api.Whoami(ctx)
	if err != nil {
		return Target{}, err
	}
	if who.Kind != enplace.KeyAgent {
		return Target{}, enplace.Invalidf("a key of kind %s belongs to no conversation or task; name one", who.Kind).
			WithFix("enplace mcp --conversation ID, or over HTTP /mcp?conversation=ID")
	}
	if id, ok := strings.CutPrefix(who.Subject, conversationSubject); ok {
		return Target{Conversation: id}, nil
	}
	return Target{Task: who.Subject}, nil
}

// New makes a server for one target. It is safe for concurrent use.
func New(api *client.Client, t Target, version string) *mcp.Server {
	var at place = conversation{api, t.Conversation}
	if t.Task != "" {
		at = task{api, t.Task}
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "enplace", Title: "Enplace", Version: version}, &mcp.ServerOptions{
		Instructions: "Commands and files of " + at.name() + ". Read the instructions first: they say what is where, where to write, and which tools are there.",
	})
	tools{at}.add(s)
	s.AddResource(&mcp.Resource{URI: instructionsURI, Name: "instructions", MIMEType: "text/markdown", Description: "What is where, and where to write"},
		func(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			text, err := at.instructions(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s", told(err))
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: instructionsURI, MIMEType: "text/markdown", Text: text}}}, nil
		})
	return s
}

// Handler serves the protocol's streamable HTTP transport for every key: each request brings the bearer key that it acts with,
// and names its target by ?conversation= or ?task= unless the key is an agent's. It keeps no session, so none can be taken over.
func Handler(url, version string, log *slog.Logger) http.Handler {
	streamable := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		s, _ := r.Context().Value(serverKey{}).(*mcp.Server)
		return s
	}, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, Logger: log, MaxRequestBodyBytes: 2 * maxWrite, PropagateRequestCancellation: true})
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || key == "" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="enplace"`)
			http.Error(w, "send an API key as Authorization: Bearer KEY", http.StatusUnauthorized)
			return
		}
		api, err := client.New(client.Config{URL: url, Key: key})
		t := Target{Conversation: r.URL.Query().Get("conversation"), Task: r.URL.Query().Get("task")}
		if err == nil && t != (Target{}) { // whose key it is, before a byte of the body is read
			_, err = api.Whoami(r.Context())
		}
		if err == nil {
			t, err = Find(r.Context(), api, t)
		}
		if err != nil {
			http.Error(w, told(err), statusOf(err))
			return
		}
		streamable.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serverKey{}, New(api, t, version))))
	}))
}

// serverKey is where a request's context holds the server made for it.
type serverKey struct{}

func statusOf(err error) int {
	switch enplace.KindOf(err) {
	case enplace.KindUnauthenticated:
		return http.StatusUnauthorized
	case enplace.KindBusy, enplace.KindUnavailable:
		return http.StatusServiceUnavailable
	case enplace.KindNotFound:
		return http.StatusNotFound
	case enplace.KindInternal:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}
