package mise_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"enplace"
	"enplace/internal/mise"
)

var update = flag.Bool("update", false, "write the golden files anew")

// checked are files of mise; testdata/check.golden has what is said of each, and the tools that it declares.
var checked = []string{
	// Tools that are taken.
	"[tools]\nnode = \"24\"\n\"npm:prettier\" = \"latest\"\n\"npm:@biomejs/biome\" = \"2\"\n",
	"tools.node = \"24\"\ntools.\"go:golang.org/x/tools/gopls\" = \"latest\"\n",
	"[tools]\n# two of one\npython = [\n  \"3.13\", # new\n  \"3.12\",\n]\n",
	"[tools.node]\nversion = \"24\"\n[tools.go]\nprefix = \"1.2\"\n",
	"[[tools.node]]\nversion = \"24\"\n[[tools.node]]\nversion = \"22\"\n",
	"[tools]\nnode = {\n  version = \"lts\",\n}\n'pipx:black' = [{ version = \"25.1.0\", uvx = true }, \"24\"]\n",
	"[tools]\n\"http:tool\" = { version = \"1.0.0\", url = \"https://example.org/{{version}}/tool-{{ os() }}-{{arch()}}.tar.gz\", checksum = \"sha256:00\" }\n",
	"[tools]\n\"github:cli/cli[exe=gh]\" = \"sub-1:latest\"\nrust = { version = \"1.90\", components = [\"clippy\"] }\nnode = \"tag:v24.1.0\"\ngo = \"rev:0123abcd\"\n",
	"",
	"# nothing\n[tools]\n",

	// Tools that are refused, or that a list has twice.
	"tools = \"node\"\n",
	"[[tools]]\nnode = \"24\"\n",
	"[tools]\nnode = 24\npython = 3.10\ngo = true\nrust = 2024-01-01\nzig = [1]\n",
	"[tools]\nnode = \"\"\ngo = \" \"\nrust = []\nzig = {}\npython = { os = [\"linux\"] }\nruby = { version = 3 }\njava = { version = \"21\", ref = \"main\" }\n",
	"[tools]\nnode = \"24\"\nnodejs = \"22\"\ngolang = \"1.26\"\ngo = \"1.25\"\n\"core:go\" = \"1\"\n",
	"[tools]\n\"npm:prettier\" = \"3\"\n\"npm:prettier[x=y]\" = \"2\"\n\"7z\" = \"1\"\n7zip = \"2\"\n",
	"[tools]\nnode = [\"24\", \"24\", {version = \"22\"}, {version = \"22\"}]\n",
	"[tools]\n\"\" = \"1\"\n\" \" = \"1\"\n\"npm:\" = \"1\"\n\"npm:[a=b]\" = \"1\"\n\"nosuch:tool\" = \"1\"\n\"-x\" = \"1\"\n\"npm:--global\" = \"1\"\n",
	"[tools]\n\"node@24\" = \"1\"\n\"npm:@scope/name@1\" = \"1\"\n\"npm:prettier@3\" = \"1\"\n",
	"[tools]\n\"npm:a b\" = \"1\"\n\"npm:$(id)\" = \"1\"\n\"npm:a\\u001b[2J\" = \"1\"\n\"npm:caf\u00e9\" = \"1\"\n\"npm:a;b\" = \"1\"\n",
	"[tools]\n\"pipx:git+https://user:pass@example.org/x.git\" = \"1\"\n",
	"[tools]\nnode = \"2 4\"\ngo = \"1\\n\"\nrust = \"1\\u001b[2J\"\nzig = \"--force\"\nruby = \"{{ exec(command='id') }}\"\n",
	"[tools]\njava = \"temurin:21\"\nnode = \"ref:\"\ngo = \"sub-1:1.26\"\nzig = \"a:b:c\"\n",
	"[tools]\nnode = { version = \"24\", os = 1 }\ngo = { version = \"1\", depends = [1], install_env = \"A=1\" }\nzig = { version = \"1\", depends = \"go\", install_env = { A = \"1\" } }\n",
	"[tools]\nnode = \"path:/opt/node\"\ngo = { path = \"/opt/go\" }\n",
	"[tools]\nnode = { version = \"24\", postinstall = \"corepack enable\" }\n\"http:x\" = { version = \"1\", url = \"https://example.org/{{ exec(command='id') }}\", install_env = { A = \"{{ env.HOME }}\", B = \"{{ __tera_context }}\" } }\n\"github:own/x\" = { version = \"1\", bin = \"{{ __tera_context | json_encode() }}\" }\n",
	"[tools]\n\"npm:" + strings.Repeat("a", 300) + "\" = \"1\"\nnode = \"" + strings.Repeat("1", 201) + "\"\n",

	"[tools]\nnode = \"..\"\ngo = \"1/../2\"\nrust = \"prefix:..\"\nzig = \"$x\"\nruby = \"a\\\\b\"\njava = \"ref:-x\"\ndeno = \"sub-x:latest\"\nbun = { ref = \"a..b\" }\npython = \"rel/3.13\"\n",
	"[tools]\n\"npm:../x\" = \"1\"\n\"npm:file:/x\" = \"1\"\n\"cargo:/x\" = \"1\"\n\"pipx:git+file:///x\" = \"1\"\n\"go:./x\" = \"1\"\n\"http:x\" = { version = \"1\", url = \"file:///x\" }\n",
	"[tools]\nnode = { version = \"24\", install_env = { A = 1, B = [1] } }\ngo = { version = \"1\", lazy = \"x\" }\nzig = { version = \"1\", install_env = { A = 1, B = true }, lazy = true }\n",

	// Tools that mise takes and that are probably not meant.
	"[tools]\nnode = \"system\"\ngo = \"ref:main\"\nrust = { ref = \"0123456789abcdef0123456789abcdef01234567\" }\nzig = \"branch:main\"\n",
	"[tools]\npyton = \"3.13\"\nprettier-not-there = \"3\"\nripgrp = \"14\"\n",
	"[tools]\n\"asdf:owner/tool\" = \"1\"\n\"vfox:owner/tool\" = \"1\"\n\"pipx:git+https://example.org/x.git\" = \"1\"\n",
	"[tools]\n\"npm:prettier\" = { version = \"3\", os = [\"macos\", \"windows\"] }\nnode = { version = \"24\", os = \"linux\" }\ngo = { version = \"1\", os = [] }\n",
	"[tools]\nnode = \"^24\"\ngo = \">=1.2\"\nzig = \"1.x\"\nrust = \"*\"\njava = \"temurin-21.0.1+12\"\n",
	"[tools]\n\"core:nonsense\" = \"1\"\n\"core:node\" = \"24\"\n",

	// Variables.
	"[env]\nEDITOR = \"vim\"\nJOBS = 4\nDEBUG = true\nPAGER = false\nNAMED = { value = \"x\", redact = true }\n_.path = [\"/opt/x/bin\", \"/usr/games/\"]\n[tools]\n",
	"env = 1\n",
	"[[env]]\nA = \"1\"\n",
	"[env]\n\"1A\" = \"x\"\n\"A B\" = \"x\"\nA-B = \"x\"\nPATH = \"/x\"\nPath = \"/x\"\nMISE_YES = \"1\"\nhttp_proxy = \"x\"\nENPLACE_SCOPE = \"x\"\n",
	"[env]\nA = 1.5\nB = [1]\nC = { required = true }\nD = { age = \"x\" }\nE.f = \"x\"\nF = \"{{ exec(command='id') }}\"\nG = \"a\\u0000b\"\nH = 2024-01-01\n",
	"[env]\nA = { value = \"x\", redact = \"yes\" }\nB = { value = \"x\", tools = 1 }\nC = { value = 1, redact = true, tools = false }\n",
	"[env]\nNPM_TOKEN = \"x\"\nAPI_KEY = \"x\"\nTOKENIZER = \"x\"\nDB_PASSWORD = \"\"\n",
	"[env]\n_.file = \".env\"\n_.source = \"./x.sh\"\n_.python.venv = \".venv\"\n_.nonsense = 1\n",
	"[env]\n_ = 1\n",
	"[env._]\npath = [\"bin\", \"/a/../b\", \"{{config_root}}/bin\", \"/a:b\"]\n",
	"[env]\n_.path = 1\n",

	// The rest of the file.
	"[settings]\nexperimental = true\npython.compile = false\nhttp_timeout = \"30s\"\nhttp_retries = 3\nminimum_release_age_excludes = [\"npm:x\"]\n[settings.node]\nmirror_url = \"https://example.org\"\n",
	"[settings]\ndata_dir = \"/x\"\nparanoid = false\ntrusted_config_paths = [\"/\"]\nyes = true\nnode.default_packages_file = \"/x\"\ngithub.credential_command = \"x\"\nnpm = \"npm\"\n",
	"[settings]\ngo.x.y = 1\njobs = { a = 1 }\nexperimental = \"yes\"\nhttp_timeout = 30\nhttp_retries = -1\nnode.mirror_url = \"{{ x }}\"\ndotnet.package_flags = [1]\n",
	"settings = 1\n",
	"[plugins]\nx = \"https://example.org/x\"\n[hooks]\npostinstall = \"x\"\n[alias]\nnode = \"asdf:x/y\"\n[tool_alias]\n[[watch_files]]\nrun = \"x\"\n",
	"env_file = \".env\"\ndotenv = \".env\"\nenv_path = \"bin\"\n",
	"[tasks.build]\nrun = \"make\"\n[vars]\na = \"b\"\n[shell_alias]\nll = \"ls -l\"\n",
	"[tool]\nnode = \"24\"\n[nonsense]\n\"\\u001b[2J\" = 1\n",
	"\"\\u001b[2J\" = 1\n",
	"min_version = \"2025.1.1\"\n",
	"min_version = 2025\n",
	"min_version = \"2026.9.15\"\n", "min_version = \"2026.9.16\"\n", "min_version = \"2026.9.15.1\"\n", "min_version = \"2027\"\n", "min_version = \"v2026.9.15-rc1\"\n", "min_version = \"\"\n", "min_version = \">=2025\"\n", "min_version = \"99999999999999999999\"\n",
	"min_version = { hard = \"2026.10\", soft = \"9999.1\" }\n",
	"min_version = { hard = \"2025.1.1\", medium = \"x\" }\n",

	// What is no TOML.
	"[tools]\nnode = \"24\"\nnode = \"22\"\n",
	"[tools]\n\"node\" = \"24\"\n'node' = \"22\"\n",
	"[tools]\n[tools]\n",
	"[tools\n",
	"[tools]\nnode =\n",
	"[tools]\nnode = \"24\n",
	"[tools]\nnode = '24' go = '1'\n",
	"node: 24\n",
	"[tools]\r\nnode = \"24\"\rgo = \"1\"\r\n",
	"\x00",
	"[tools]\n\"\x1b[2J = 1\n",
}

func TestCheck(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, content := range checked {
		shown := content
		if len(shown) > 400 {
			shown = enplace.Shown(shown, 400) + "\n"
		}
		for line := range strings.Lines(shown) {
			quoted := fmt.Sprintf("%+q", strings.TrimSuffix(line, "\n"))
			fmt.Fprintf(&got, "| %s\n", strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`))
		}
		tools, findings := mise.Check(content)
		for _, tool := range tools {
			fmt.Fprintf(&got, "%d: %s@%s\n", tool.Line, tool.Name, tool.Version)
		}
		for _, f := range findings {
			fmt.Fprintf(&got, "%d: %s: %s\n", f.Line, f.Severity, f.Message)
		}
		got.WriteString("\n")
	}
	file := filepath.Join("testdata", "check.golden")
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s differs (run with -update to take what is said now):\n%s", file, diff)
	}
}

// Whatever a file holds, checking it ends, says something when it is no TOML, points at lines that are there, and lets no tool
// through whose name or version is not one word.
func FuzzCheck(f *testing.F) {
	for _, content := range checked {
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content string) {
		tools, findings := mise.Check(content)
		lines := 1 + strings.Count(content, "\n")
		failed := false
		for _, finding := range findings {
			failed = failed || finding.Severity == enplace.FindingError
			if finding.Message == "" || finding.Line < 0 || finding.Line > lines || finding.Message != enplace.Shown(finding.Message, 1<<20) {
				t.Errorf("%q: %+v", content, finding)
			}
		}
		if !slices.IsSortedFunc(findings, func(a, b enplace.Finding) int { return a.Line - b.Line }) {
			t.Errorf("%q: %+v", content, findings)
		}
		for _, tool := range tools {
			if tool.Line < 1 || tool.Line > lines || len(strings.Fields(tool.Name)) != 1 || len(strings.Fields(tool.Version)) != 1 || tool.Name[0] == '-' || tool.Version[0] == '-' {
				t.Errorf("%q: %+v", content, tool)
			}
		}
		var v map[string]any
		if err := toml.Unmarshal([]byte(content), &v); err != nil && !failed {
			t.Errorf("%q: %v", content, err)
		}
	})
}

// The documentation lists the settings that an item may have, and no others.
func TestSettingsAreDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "items.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "| value | settings |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	listed := 0
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(row), "|")
		value := map[string]string{"`true` or `false`": "true", "a whole number": "1", "text in quotes": `"x"`, "a list of texts": `["x"]`}[strings.TrimSpace(cells[1])]
		for name := range strings.SplitSeq(cells[2], ",") {
			name = strings.Trim(name, " `")
			if _, findings := mise.Check("settings." + name + " = " + value); len(findings) > 0 {
				t.Errorf("%s: %+v", name, findings)
			}
			listed++
		}
	}
	if listed != mise.Settings() {
		t.Errorf("%d settings are listed, and %d are taken", listed, mise.Settings())
	}
}

// A key of any number of parts takes no more than its length; places of all of its parts would take the square of it.
func TestCheckOfADeepKey(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("a.", 60_000) + "a"
	for _, content := range []string{deep + " = 1\n", "[" + deep + "]\n", "[[" + deep + "]]\nb = 1\n", "[tools]\nnode = { version = \"24\", " + deep + " = 1 }\n"} {
		_, findings := mise.Check(content)
		if len(findings) > 1 {
			t.Errorf("%.20s: %d findings", content, len(findings))
		}
	}
}

func TestCheckOfALargeFile(t *testing.T) {
	t.Parallel()
	const limit = 128 << 10
	tools := "[tools]\nnode = \"24\"\n"
	if got, findings := mise.Check(tools + strings.Repeat("#", limit-len(tools))); len(got) != 1 || len(findings) != 0 {
		t.Errorf("%v %v", got, findings)
	}
	if got, findings := mise.Check(tools + strings.Repeat("#", limit-len(tools)+1)); len(got) != 0 || len(findings) != 1 || !strings.Contains(findings[0].Message, "larger than 128 KiB") {
		t.Errorf("%v %v", got, findings)
	}
}
