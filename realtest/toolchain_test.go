package realtest

import (
	"archive/tar"
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"enplace"
	"enplace/enplacetest"
)

// teamTools has tools of three registries, and a script that installs from a fourth and configures outside of the tools' folder.
var teamTools = map[string]string{
	"format/environment.json": `{"name": "format", "description": "Formatters of the team."}`,
	"format/mise.toml":        "[tools]\n\"npm:prettier\" = \"3\"\n\"pipx:ruff\" = \"latest\"\n\n[env]\nHOUSE_STYLE = \"tabs\"\n",
	"query/environment.json":  `{"name": "query", "description": "jq, and where the team keeps its filters."}`,
	"query/setup.sh":          "#!/bin/bash\nset -e\napt-get update -q\napt-get install -y -q jq\necho filters >/etc/query.conf\necho run >>/root/runs\n",
	"broken/environment.json": `{"name": "broken", "description": "A script that fails."}`,
	"broken/setup.sh":         "#!/bin/bash\necho 'curl: (22) The requested URL returned error: 404' >&2\nexit 22\n",
}

func pluginArchive(t *testing.T, files map[string]string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: "environments/" + name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, content)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// onComputer runs a script in a conversation, and checks its output.
func onComputer(t *testing.T, srv *enplacetest.Server, conversation, script, want string) enplace.ConversationResult {
	t.Helper()
	r, err := srv.Client.ExecConversation(t.Context(), conversation, enplace.ConversationExec{
		ExecRequest: enplace.ExecRequest{Command: []string{"bash", "-c", script}, Timeout: 1800}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(r.Stdout); r.ExitCode != 0 || want != "" && got != want {
		t.Fatalf("%s: exit %d, %q, errors %q, notices %+v; want %q", script, r.ExitCode, got, r.Stderr, r.Notices, want)
	}
	return r
}

// A team's plugin, from the first command of one of its people to the computer that a room gets from the bundle.
func TestToolchainOfATeam(t *testing.T) {
	t.Parallel()
	srv := start(t)
	ctx, c := t.Context(), srv.Client
	if _, err := c.PutTeam(ctx, "web", enplace.PutTeam{People: []string{"ann"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutRoom(ctx, "web", enplace.PutRoom{Team: "web"}); err != nil {
		t.Fatal(err)
	}
	for id, in := range map[string]enplace.PutConversation{
		"ann": {Kind: enplace.ConversationDirect, Person: "ann"}, "web": {Kind: enplace.ConversationRoom, Room: "web"},
	} {
		if _, err := c.PutConversation(ctx, id, in); err != nil {
			t.Fatal(err)
		}
	}
	p, err := c.CreatePluginArchive(ctx, enplace.TeamScope("web"), "tools", pluginArchive(t, teamTools))
	if err != nil {
		t.Fatal(err)
	}
	const use = `prettier --version >/dev/null && ruff --version >/dev/null && jq -n '1+1' && echo $HOUSE_STYLE && cat /etc/query.conf /root/runs`
	const works = "2\ntabs\nfilters\nrun"
	first := onComputer(t, srv, "ann", use, works)
	if len(first.Notices) != 1 || first.Notices[0].Kind != enplace.NoticeFailed || first.Notices[0].Items[0].Key != "broken" ||
		!strings.Contains(first.Notices[0].Items[0].ErrorTail, "returned error: 404") {
		t.Errorf("notices %+v", first.Notices)
	}
	if again := onComputer(t, srv, "ann", use, works); len(again.Notices) > 0 {
		t.Errorf("notices of the second command %+v", again.Notices)
	}
	set, err := c.Set(ctx, "ann")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := c.WaitBundle(ctx, set.Hash); err != nil || b.Status != enplace.BundleFailed || !strings.Contains(b.Reason, "broken of team:web") {
		t.Errorf("the bundle with a broken item: %+v, %v", b, err)
	}

	// Mended, it has a bundle, which the room's computer starts from; what ann has is not installed again.
	mended := map[string]string{}
	for name, content := range teamTools {
		mended[name] = content
	}
	mended["broken/setup.sh"] = "#!/bin/bash\ntrue\n"
	if _, err := c.SyncPluginArchive(ctx, p.ID, pluginArchive(t, mended)); err != nil {
		t.Fatal(err)
	}
	if r := onComputer(t, srv, "ann", use, works); len(r.Notices) > 0 {
		t.Errorf("notices after it was mended %+v", r.Notices)
	}
	if set, err = c.Set(ctx, "web"); err != nil { // the room reads the same items
		t.Fatal(err)
	}
	b, err := c.WaitBundle(ctx, set.Hash)
	if err != nil || b.Status != enplace.BundleReady {
		t.Fatalf("the bundle: %+v, %v", b, err)
	}
	onComputer(t, srv, "web", use, works)
	computer, err := c.Computer(ctx, "room:web")
	if err != nil {
		t.Fatal(err)
	}
	if computer.Bundle != b.Image || slices.ContainsFunc(computer.Sets[0].Items, func(i enplace.ComputerItem) bool { return i.Obtained != enplace.FromBundle }) {
		t.Errorf("the room's computer: %+v", computer)
	}
	explained, err := c.ExplainSet(ctx, "web")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range explained.Tools {
		if tool.Scope != "team:web" || tool.File != "environments/format/mise.toml" || tool.Line == 0 || strings.Count(tool.Resolved, ".") < 2 {
			t.Errorf("%+v", tool)
		}
	}
}
