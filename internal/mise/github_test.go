package mise

import (
	"slices"
	"strings"
	"testing"

	"enplace"
)

// A token is given for what GitHub alone is asked for, and of which nothing runs.
func TestCase12TokenIsForGitHubAlone(t *testing.T) {
	t.Parallel()
	const declared = `
jq = "1.7"
ripgrep = { version = "latest", os = ["linux"] }
"github:own/tool" = { version = "latest", asset_pattern = "x", bin = "tool" }
"aqua:own/tool" = ["1", "2"]
"ubi:own/tool" = "latest"
node = "24"
"npm:semver" = "7"
"pipx:black" = "latest"
"cargo:eza" = "1"
"go:example.org/x" = "1"
"vfox:own/plugin" = "1"
"http:x" = { version = "1", url = "https://example.org/x" }
"gitlab:own/tool" = "1"
unknown-to-mise = "1"
"github:other/host" = { version = "1", api_url = "https://evil.example/api/v3" }
"github:in/name[api_url=https://evil.example]" = "1"
"github:in/env" = { version = "1", install_env = { HTTPS_PROXY = "http://evil.example" } }
"github:in/list" = ["1", { version = "2", api_url = "https://evil.example" }]
"github:in/platform" = { version = "1", platforms = { linux-x64 = { url = "https://evil.example" } } }
"github:at/branch" = "ref:main"
"ubi:https://evil.example/x" = "1"
"github:in/template" = { version = "1", bin = "evil-{{ __tera_context }}" }
"github:in/statement" = { version = "1", asset_pattern = "evil-{% set x = 1 %}" }
"ubi:elsewhere/x" = { version = "1", provider = "gitlab" }
"github:was/evaluated" = "1"
"github:was/elsewhere" = "1"
"github:was/unsafe" = "1"
"github:was/other" = "1"
"github:was/option" = "1"
`
	// What a box said that a script of an item had to itself.
	versions := map[string][]string{"jq": {"1.7.1"}, "github:was/evaluated": {"{{exec(command='evil')}}"}}
	sources := Sources{}
	for tool, from := range map[string]enplace.ToolSource{
		"jq":                   {Backend: "aqua:jqlang/jq", URL: "https://github.com/jqlang/jq/releases/download/jq-1.7.1/jq-linux-amd64"},
		"github:was/elsewhere": {Backend: "github:was/elsewhere", URL: "https://evil.example/x"},
		"github:was/unsafe":    {Backend: "github:was/unsafe", URL: "http://github.com/evil"},
		"github:was/other":     {Backend: "asdf:evil/plugin", URL: "https://github.com/x"},
		"github:was/option":    {Backend: "github:was/option", URL: "https://github.com/x", Options: map[string]string{"api_url": "https://evil.example"}},
	} {
		sources[tool] = map[string]enplace.ToolSource{"1": from}
	}
	tools, files, err := FromGitHub("[settings]\njobs = 1\n[env]\nLD_PRELOAD = \"/x\"\n[tools]\n"+declared, versions, sources)
	if want := []string{"aqua:own/tool", "github:own/tool", "jq", "ripgrep", "ubi:own/tool"}; err != nil || !slices.Equal(tools, want) {
		t.Errorf("%v: %q, want %q", err, tools, want)
	}
	for name, content := range files {
		for _, not := range []string{"evil", "LD_PRELOAD", "settings", "npm"} {
			if strings.Contains(content, not) {
				t.Errorf("%s has %s:\n%s", name, not, content)
			}
		}
	}
	if pins := files["pins/"+PinsFile]; !strings.Contains(pins, "1.7.1") {
		t.Error(pins)
	}
}
