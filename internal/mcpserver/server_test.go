package mcpserver_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"enplace"
	"enplace/enplacetest"
)

// place makes a conversation with a computer whose set has an item that works and one that fails, and a key for its agent.
func place(t *testing.T) (srv *enplacetest.Server, key string) {
	t.Helper()
	srv = enplacetest.Start(t)
	ctx := t.Context()
	if _, err := srv.Client.PutTeam(ctx, "data", enplace.PutTeam{People: []string{"ada"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := srv.Client.PutConversation(ctx, "ada", enplace.PutConversation{Kind: enplace.ConversationDirect, Person: "ada"}); err != nil {
		t.Fatal(err)
	}
	k, err := srv.Client.CreateKey(ctx, enplace.CreateKey{Name: "agent", Kind: enplace.KeyAgent, Subject: "conversation:ada"})
	if err != nil {
		t.Fatal(err)
	}
	return srv, k.Secret
}

// session speaks to `enplace mcp` as an agent's program does, or to the server's /mcp.
func session(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := c.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// bearer sends a key with every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func call[Out any](t *testing.T, s *mcp.ClientSession, tool string, in any) (out Out, failed string) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: in})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if res.IsError {
		return out, res.Content[0].(*mcp.TextContent).Text
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return out, ""
}

type (
	ran struct {
		ExitCode       int `json:"exit_code"`
		Stdout, Stderr string
		Notices        []string
	}
	file struct {
		Content, Encoding string
		Size              int64
		NextOffset        int64 `json:"next_offset"`
	}
	folder struct {
		Entries []struct{ Path, Type string }
		More    bool
	}
)

func TestAgentWorksOnItsComputer(t *testing.T) {
	t.Parallel()
	srv, key := place(t)
	cmd := srv.Command(t.Context(), "mcp")
	cmd.Env = append(cmd.Environ(), "ENPLACE_KEY="+key)
	for name, transport := range map[string]mcp.Transport{
		"stdio": &mcp.CommandTransport{Command: cmd},
		"http":  &mcp.StreamableClientTransport{Endpoint: srv.URL + "/mcp", HTTPClient: &http.Client{Transport: bearer(key)}, DisableStandaloneSSE: true},
	} {
		t.Run(name, func(t *testing.T) { work(t, session(t, transport), "/root/"+name) })
	}
}

// work is what an agent does: it reads what is where, runs commands, and writes, reads and lists files.
func work(t *testing.T, s *mcp.ClientSession, dir string) {
	got, failed := call[map[string]string](t, s, "instructions", map[string]any{})
	if failed != "" || !strings.Contains(got["instructions"], "/root") {
		t.Errorf("instructions: %q %s", got, failed)
	}
	res, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "enplace://instructions"})
	if err != nil || len(res.Contents) != 1 || res.Contents[0].Text != got["instructions"] {
		t.Errorf("the resource: %+v, %v", res, err)
	}
	r, failed := call[ran](t, s, "run_command", map[string]any{"command": "echo out; echo err >&2; cat; exit 3", "stdin": "in"})
	if failed != "" || r.ExitCode != 3 || r.Stdout != "out\nin" || r.Stderr != "err\n" {
		t.Errorf("run_command: %+v %s", r, failed)
	}
	// The API leaves out of this before the tool does.
	r, failed = call[ran](t, s, "run_command", map[string]any{"command": "seq 1000000 1799999"})
	if failed != "" || !strings.HasPrefix(r.Stdout, "1000000\n") || !strings.HasSuffix(r.Stdout, "\n1799999\n") ||
		!strings.Contains(r.Stdout, fmt.Sprintf("\n[%d bytes left out here;", 800_000*8-(64<<10))) || strings.Contains(r.Stdout, "[enplace]") {
		t.Errorf("long output: %d bytes, %s", len(r.Stdout), failed)
	}
	binary := string([]byte{0, 0xff, 0xfe, 1})
	for path, content := range map[string]map[string]any{
		dir + "/a b/$(x)'.txt": {"content": "grüße\n"},
		dir + "/raw":           {"content": base64.StdEncoding.EncodeToString([]byte(binary)), "encoding": "base64", "executable": true},
	} {
		content["path"] = path
		if _, failed := call[map[string]any](t, s, "write_file", content); failed != "" {
			t.Errorf("write_file %s: %s", path, failed)
		}
	}
	f, _ := call[file](t, s, "read_file", map[string]any{"path": dir + "/a b/$(x)'.txt"})
	if f.Content != "grüße\n" || f.Encoding != "utf-8" || f.Size != 8 || f.NextOffset != 0 {
		t.Errorf("read_file: %+v", f)
	}
	// A limit that cuts a letter in two gives the whole letters before it.
	if f, _ = call[file](t, s, "read_file", map[string]any{"path": dir + "/a b/$(x)'.txt", "limit": 3}); f.Content != "gr" || f.NextOffset != 2 {
		t.Errorf("read_file of three bytes: %+v", f)
	}
	f, _ = call[file](t, s, "read_file", map[string]any{"path": dir + "/raw"})
	if raw, err := base64.StdEncoding.DecodeString(f.Content); err != nil || string(raw) != binary || f.Encoding != "base64" {
		t.Errorf("read_file of no text: %+v", f)
	}
	l, _ := call[folder](t, s, "list_files", map[string]any{"path": dir, "depth": 2})
	if len(l.Entries) != 3 || l.Entries[0].Path != "a b" || l.Entries[1].Path != "a b/$(x)'.txt" || l.Entries[2].Type != "file" || l.More {
		t.Errorf("list_files: %+v", l)
	}
	for tool, in := range map[string]map[string]any{
		"read_file":   {"path": dir + "/nothing"},
		"write_file":  {"path": dir, "content": "x"},
		"list_files":  {"path": "relative"},
		"run_command": {"command": " "},
	} {
		if _, failed := call[map[string]any](t, s, tool, in); failed == "" {
			t.Errorf("%s of %v gives no error", tool, in)
		}
	}
}

// A field that there is not was answered with the rule of the schema that it broke.
func TestWrongFieldsAreNamed(t *testing.T) {
	t.Parallel()
	srv, key := place(t)
	s := session(t, &mcp.StreamableClientTransport{Endpoint: srv.URL + "/mcp", HTTPClient: &http.Client{Transport: bearer(key)}, DisableStandaloneSSE: true})
	for _, c := range []struct {
		tool string
		in   map[string]any
		says []string
	}{
		{"run_command", map[string]any{"cmd": "true"}, []string{"command is missing; there is no field \"cmd\"", "- command (required): the command line", "- timeout: seconds"}},
		{"run_command", map[string]any{}, []string{"command is missing; the fields are"}},
		{"read_file", map[string]any{"path": "/etc/passwd", "lines": 3}, []string{"there is no field \"lines\"", "- offset"}},
		{"write_file", map[string]any{"path": "/x", "text": "x"}, []string{"content is missing", "- encoding"}},
		{"toolchain", map[string]any{"all": true}, []string{"takes no fields"}},
	} {
		_, failed := call[map[string]any](t, s, c.tool, c.in)
		for _, part := range c.says {
			if !strings.Contains(failed, part) || strings.Contains(failed, "validating") {
				t.Errorf("%s of %v says %q, and not %q", c.tool, c.in, failed, part)
			}
		}
	}
	if _, failed := call[ran](t, s, "run_command", map[string]any{"command": 3}); failed == "" {
		t.Error("a command that is a number ran")
	}
}

// withAFailure gives a session on a computer whose set has an item that cannot be installed.
func withAFailure(t *testing.T) *mcp.ClientSession {
	t.Helper()
	srv, key := place(t)
	pack := exec.CommandContext(t.Context(), "tar", "-C", "testdata", "-cz", "plugin")
	archive, err := pack.Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := srv.Client.CreatePluginArchive(t.Context(), enplace.Organisation, "company", strings.NewReader(string(archive))); err != nil {
		t.Fatal(err)
	}
	return session(t, &mcp.StreamableClientTransport{Endpoint: srv.URL + "/mcp", HTTPClient: &http.Client{Transport: bearer(key)}, DisableStandaloneSSE: true})
}

// The one report of a failure was lost where the agent's first call was about a file.
func TestFailureIsToldWithAFileToo(t *testing.T) {
	t.Parallel()
	for tool, in := range map[string]map[string]any{
		"list_files": {"path": "/root"},
		"read_file":  {"path": "/etc/passwd"},
		"write_file": {"path": "/root/x", "content": "x"},
	} {
		got, failed := call[struct{ Notices []string }](t, withAFailure(t), tool, in)
		if failed != "" || len(got.Notices) != 1 || !strings.Contains(got.Notices[0], "broken") {
			t.Errorf("%s: %+v %s", tool, got, failed)
		}
	}
	if _, failed := call[file](t, withAFailure(t), "read_file", map[string]any{"path": "/nothing"}); !strings.Contains(failed, "there is no /nothing") || !strings.Contains(failed, "broken") {
		t.Errorf("a call that fails: %s", failed)
	}
}

// What is no file is not replaced by one, whose it is stays, and a file of /proc, which has no size, is read on.
func TestFilesThatAreSpecial(t *testing.T) {
	t.Parallel()
	srv, key := place(t)
	s := session(t, &mcp.StreamableClientTransport{Endpoint: srv.URL + "/mcp", HTTPClient: &http.Client{Transport: bearer(key)}, DisableStandaloneSSE: true})
	made, failed := call[ran](t, s, "run_command", map[string]any{"command": "mkfifo /root/pipe && touch /root/theirs && chown 1000:1001 /root/theirs && chmod 640 /root/theirs"})
	if failed != "" || made.ExitCode != 0 {
		t.Fatalf("%+v %s", made, failed)
	}
	if _, failed := call[file](t, s, "write_file", map[string]any{"path": "/root/pipe", "content": "x"}); !strings.Contains(failed, "no file") {
		t.Errorf("a pipe was written: %q", failed)
	}
	if _, failed := call[file](t, s, "write_file", map[string]any{"path": "/root/theirs", "content": "x"}); failed != "" {
		t.Error(failed)
	}
	if r, _ := call[ran](t, s, "run_command", map[string]any{"command": "stat -c '%F' /root/pipe; stat -c '%u %g %a %s' /root/theirs"}); r.Stdout != "fifo\n1000 1001 640 1\n" {
		t.Errorf("after writing: %+v", r)
	}
	f, failed := call[file](t, s, "read_file", map[string]any{"path": "/proc/self/status", "limit": 5})
	if failed != "" || f.Content != "Name:" || f.NextOffset != 5 {
		t.Errorf("a file of /proc: %+v %s", f, failed)
	}
	for tool, in := range map[string]map[string]any{
		"read_file":  {"path": "/etc/passwd", "limit": -1},
		"list_files": {"path": "/etc", "depth": 9},
	} {
		if _, failed := call[map[string]any](t, s, tool, in); failed == "" {
			t.Errorf("%s of %v gives no error", tool, in)
		}
	}
}

// An item that cannot be installed is told with the first command, and stands in the toolchain afterwards.
func TestAgentIsToldWhatFailed(t *testing.T) {
	t.Parallel()
	s := withAFailure(t)
	r, failed := call[ran](t, s, "run_command", map[string]any{"command": "true"})
	if failed != "" || len(r.Notices) != 1 || !strings.Contains(r.Notices[0], "broken") || !strings.Contains(r.Notices[0], "no such thing") {
		t.Errorf("the first command: %+v %s", r, failed)
	}
	if r, _ := call[ran](t, s, "run_command", map[string]any{"command": "true"}); len(r.Notices) != 0 {
		t.Errorf("the second command tells again: %+v", r)
	}
	chain, _ := call[struct {
		Items   []struct{ Key, Status string }
		Failed  int
		RetryAt time.Time `json:"retry_at"`
	}](t, s, "toolchain", map[string]any{})
	if len(chain.Items) != 2 || chain.Failed != 1 || !chain.RetryAt.After(time.Now()) || chain.Items[0].Status != "failed" || chain.Items[1].Status != "installed" {
		t.Errorf("toolchain: %+v", chain)
	}
	if got, _ := call[map[string]string](t, s, "instructions", map[string]any{}); !strings.Contains(got["instructions"], "tried again by itself at "+chain.RetryAt.UTC().Format(time.TimeOnly)) {
		t.Errorf("instructions: %s", got["instructions"])
	}
}

// Whoever brings no key, another's key or no target gets an answer that says so, and nothing else.
func TestMCPWithoutAKeyOrATarget(t *testing.T) {
	t.Parallel()
	srv, key := place(t)
	const hello = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"true"}}}`
	for name, c := range map[string]struct {
		key, query string
		status     int
	}{
		"no key":                  {"", "", http.StatusUnauthorized},
		"a key that is none":      {"ep_nothing", "", http.StatusUnauthorized},
		"an operator's, unnamed":  {srv.Key, "", http.StatusBadRequest},
		"both targets":            {key, "?conversation=ada&task=task_x", http.StatusBadRequest},
		"another's conversation":  {key, "?conversation=bob", http.StatusNotFound},
		"from another web origin": {key, "", http.StatusForbidden},
	} {
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, srv.URL+"/mcp"+c.query, strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if c.key != "" {
			req.Header.Set("Authorization", "Bearer "+c.key)
		}
		if c.status == http.StatusForbidden {
			req.Header.Set("Sec-Fetch-Site", "cross-site")
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body strings.Builder
		if err := res.Write(&body); err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != c.status || c.status == http.StatusNotFound && !strings.Contains(body.String(), "may not know of it") {
			t.Errorf("%s: status %d, want %d: %s", name, res.StatusCode, c.status, body.String())
		}
	}
}
