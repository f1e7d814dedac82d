package plugin_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"enplace"
	"enplace/internal/blob"
	"enplace/internal/blob/dir"
	"enplace/internal/plugin"
	"enplace/internal/treefs"
)

var update = flag.Bool("update", false, "write the golden files anew")

// What the files of a case are made of, when they are no plain files.
const (
	linkTo = "\x00link:"
	pipe   = "\x00pipe"
)

// files are those of a plugin by path; what ends in a slash is an empty folder.
type files map[string]string

// one is a plugin with one item, whose folder is item.
func one(of files) files {
	all := files{}
	for name, content := range of {
		all["environments/item/"+name] = content
	}
	return all
}

const described = `{"name": "item", "description": "What it is for"}` + "\n"

const tools = "[tools]\nnode = \"24\"\n"

// with is a good item with some files changed; "" takes one away.
func with(changes files) files {
	all := files{"environment.json": described, "mise.toml": tools}
	for name, content := range changes {
		if all[name] = content; content == "" {
			delete(all, name)
		}
	}
	return one(all)
}

func utf16le(s string) string {
	out := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(s)) {
		out = append(out, byte(u), byte(u>>8))
	}
	return string(out)
}

func many(n int, name, content string) files {
	all := files{}
	for i := range n {
		all[fmt.Sprintf(name, i)] = content
	}
	return all
}

func join(all ...files) files {
	out := files{}
	for _, f := range all {
		maps.Copy(out, f)
	}
	return out
}

// bad are plugins with an item that is refused; testdata/bad.golden has what is said of each.
var bad = map[string]files{
	"description missing":             with(files{"environment.json": `{"name": "item"}`}),
	"description empty":               with(files{"environment.json": `{"description": "  "}`}),
	"description too long":            with(files{"environment.json": `{"description": "` + strings.Repeat("ü", 401) + `"}`}),
	"description is a number":         with(files{"environment.json": "{\n  \"description\": 7\n}"}),
	"description of two lines":        with(files{"environment.json": `{"description": "a\nb"}`}),
	"name is null":                    with(files{"environment.json": `{"name": null, "description": "x"}`}),
	"name empty":                      with(files{"environment.json": `{"name": "", "description": "x"}`}),
	"name is no key":                  with(files{"environment.json": `{"name": "Data Tools", "description": "x"}`}),
	"name without a letter":           with(files{"environment.json": `{"name": "___", "description": "x"}`}),
	"name too long":                   with(files{"environment.json": `{"name": "` + strings.Repeat("a", 64) + `", "description": "x"}`}),
	"folder is no key":                {"environments/Data_Tools/environment.json": `{"description": "x"}`, "environments/Data_Tools/mise.toml": tools},
	"folder with a control character": {"environments/a\x1b[2J/environment.json": described, "environments/a\x1b[2J/mise.toml": tools},
	"unknown field":                   with(files{"environment.json": "{\"description\": \"x\",\n \"tools\": {\"a\": [1]}}"}),
	"field in capitals":               with(files{"environment.json": `{"Name": "item", "description": "x"}`}),
	"field twice":                     with(files{"environment.json": "{\"description\": \"x\",\n\"name\": \"item\",\n\"name\": \"other\"}"}),
	"JSON empty":                      with(files{"environment.json": "\n"}),
	"JSON is a list":                  with(files{"environment.json": "\n[]"}),
	"JSON with a comment":             with(files{"environment.json": "{\n  // why\n  \"description\": \"x\"}"}),
	"JSON with a last comma":          with(files{"environment.json": "{\n  \"description\": \"x\",\n}"}),
	"JSON with garbage behind it":     with(files{"environment.json": described + "garbage"}),
	"JSON cut short":                  with(files{"environment.json": `{"description": "x`}),
	"environment.json is a folder":    {"environments/item/environment.json/x": "x", "environments/item/mise.toml": tools},
	"mise.toml is a folder":           with(files{"mise.toml": "", "mise.toml/x": "x"}),
	"nothing to install":              with(files{"mise.toml": ""}),
	"no tool":                         with(files{"mise.toml": "[tools]\n"}),
	"TOML invalid":                    with(files{"mise.toml": "[tools]\nnode = 24.\n"}),
	"TOML with a key twice":           with(files{"mise.toml": "[tools]\nnode = \"24\"\nnode = \"22\"\n"}),
	"dotenv":                          with(files{".env": "TOKEN=x\n"}),
	"dotenv of a kind":                with(files{"config/.env.local": "TOKEN=x\n"}),
	"dotenv as a link":                with(files{".env": linkTo + "mise.toml"}),
	"binary":                          with(files{"bin/tool": "\x7fELF\x02\x01\x01\x00"}),
	"UTF-16":                          with(files{"setup.sh": utf16le("echo hello\n")}),
	"UTF-16 without a mark":           with(files{"setup.sh": utf16le("echo hello\n")[2:]}),
	"not UTF-8":                       with(files{"setup.sh": "#!/bin/bash\nset -e\necho caf\xe9\n"}),
	"carriage returns alone":          with(files{"setup.sh": "#!/bin/bash\recho\r"}),
	"link out of the plugin":          with(files{"setup.sh": linkTo + "../../../../../../etc/passwd"}),
	"link to an absolute path":        with(files{"setup.sh": linkTo + "/etc/passwd"}),
	"link into another item":          join(with(files{"setup.sh": linkTo + "../other/setup.sh"}), files{"environments/other/setup.sh": "#!/bin/sh -e\necho\n"}),
	"link to nothing":                 with(files{"setup.sh": linkTo + "lib/setup.sh"}),
	"link to a folder":                with(files{"lib/a.sh": "echo\n", "more": linkTo + "lib"}),
	"link behind a folder's link":     with(files{"lib/a.sh": "echo\n", "more": linkTo + "lib", "setup.sh": linkTo + "more/a.sh"}),
	"links in a circle":               with(files{"a": linkTo + "b", "b": linkTo + "a"}),
	"link to a binary":                with(files{"a": "\x00", "b": linkTo + "a"}),
	"pipe":                            with(files{"setup.sh": pipe}),
	"too large by one byte":           with(files{"data.txt": strings.Repeat("x", enplace.MaxItemBytes-len(described)-len(tools)+1)}),
	"too large by a link's copy":      with(files{"data.txt": strings.Repeat("x", enplace.MaxItemBytes/2), "more.txt": linkTo + "data.txt", "most.txt": linkTo + "data.txt"}),
	"too many files":                  join(with(nil), one(many(enplace.MaxItemFiles-1, "f%03d", "x"))),
	"too many folders":                join(with(nil), one(many(enplace.MaxItemFiles+1, "d%03d/", ""))),
	"names that differ in case":       with(files{"lib/a.sh": "a", "LIB/b.sh": "b"}),
	"name with a backslash":           with(files{`a\b`: "x"}),
	"keys twice": {
		"environments/a/environment.json": "{\n\"name\": \"same\", \"description\": \"x\"}", "environments/a/mise.toml": tools,
		"environments/b/environment.json": `{"name": "same", "description": "x"}`, "environments/b/mise.toml": tools,
		"environments/same/environment.json": `{"description": "x"}`, "environments/same/mise.toml": tools,
	},
	"#! without a program":       with(files{"setup.sh": "#!\necho\n"}),
	"#! of a relative program":   with(files{"setup.sh": "#!bash\necho\n"}),
	"#! too long":                with(files{"setup.sh": "#!/bin/bash " + strings.Repeat("x", 300) + "\necho\n"}),
	"one bad item among good":    join(with(nil), files{"environments/worse/environment.json": "{", "environments/worse/mise.toml": tools}),
	"environments is a file":     {"environments": "x"},
	"environments is a link":     {"environments": linkTo + "other", "other/item/environment.json": described, "other/item/mise.toml": tools},
	"environments is not there":  {"README.md": "x"},
	"everything wrong at once":   with(files{"environment.json": `{"name": "A", "x": 1}`, "mise.toml": "nodes = 1\n[tools]\nnode = 24\n\"npm:\" = \"1\"\n[env]\nPATH = \"/x\"\n", ".env": "x", "b": "\x00"}),
	"unfinished name in capital": with(files{"environment.json": `{"NAME": "x", "Description": "y"}`}),
}

// good are plugins whose items are all taken; testdata/good.golden has what is said, and what they are.
var good = map[string]files{
	"plain":                  with(nil),
	"named by its folder":    {"environments/web-tools/environment.json": `{"description": "x"}`, "environments/web-tools/mise.toml": tools},
	"named otherwise":        {"environments/Web Tools/environment.json": `{"name": "web-tools", "description": " x "}`, "environments/Web Tools/mise.toml": tools},
	"script alone":           with(files{"mise.toml": "", "setup.sh": "#!/bin/bash\nset -euo pipefail\ncurl -fsSL https://example.org/install | bash\n"}),
	"script without #!":      with(files{"setup.sh": "echo hello\n"}),
	"script of Python":       with(files{"setup.sh": "#!/usr/bin/env python3\nimport os; os.system('curl x | sh')\n"}),
	"empty script":           with(files{"setup.sh": "\n"}),
	"CRLF and marks":         with(files{"environment.json": "\ufeff" + strings.ReplaceAll(described, "\n", "\r\n"), "mise.toml": strings.ReplaceAll(tools, "\n", "\r\n"), "setup.sh": "\ufeff\ufeff#!/bin/bash\r\r\nset -e\r\n"}),
	"carriage return inside": with(files{"setup.sh": "#!/bin/bash\nprintf 'a\rb'\n"}),
	"links inside":           with(files{"lib/setup.sh": "#!/bin/bash -e\necho\n", "setup.sh": linkTo + "lib/./setup.sh", "again": linkTo + "setup.sh"}),
	"exactly as large":       with(files{"data.txt": strings.Repeat("x", enplace.MaxItemBytes-len(described)-len(tools))}),
	"exactly as many files":  join(with(nil), one(many(enplace.MaxItemFiles-2, "f%03d", "x"))),
	"exactly as long":        with(files{"environment.json": `{"description": "` + strings.Repeat("ü", 400) + `"}`}),
	"what is never imported": with(files{".git/config": "\x00", "node_modules/a/index.js": "x", ".DS_Store": "\x00", "._mise.toml": "\x00"}),
	"what is no item": join(with(nil), files{
		"environments/README.md": "x", "environments/lib/a.sh": "\x00", "environments/half/mise.toml": tools, "environments/near/Environment.json": described,
		"environments/linked": linkTo + "item", "environments/setup.sh": "x", "skills/a/SKILL.md": "x", "environments/node_modules/environment.json": described,
	}),
	"what looks as if it counted": with(files{".tool-versions": "node 24\n", "Setup.sh": "x"}),
	"plugin.json":                 join(with(nil), files{"plugin.json": `{"name": " My plugin ", "environments": "elsewhere", "environmentsPath": 1, "version": "1"}`}),
	"plugin.json broken":          join(with(nil), files{"plugin.json": "{"}),
	"no item at all":              {"environments/.keep": ""},
	"scripts that end well": with(files{"setup.sh": `#!/bin/bash
# curl https://example.org/install | sh
curl https://example.org/install | sudo -E bash -s -- --yes
curl -fsSL \
  https://example.org/install |
  VERSION=1 /bin/sh
cat <<'END'
curl https://example.org/install | sh
END
sh -c "$(curl -fsSL https://example.org/install)"
bash <(wget -qO- https://example.org/install)
echo a || bash -c true; echo hush | shasum
apt-get update && apt-get install jq curl
sudo apt-get install -y --no-install-recommends curl
if curl -sS https://example.org/x.tar.gz -o x.tar.gz; then true; fi
curl -o x 'https://example.org/x?a=1&b=2' --fail
`}),
	"a #! that comes late": with(files{"setup.sh": "\n# A comment\n#!/bin/bash\nset -e\n"}),
	"two items": {
		"environments/b/environment.json": `{"description": "second"}`, "environments/b/mise.toml": "[tools]\ngo = \"1.26\"\n",
		"environments/a/environment.json": `{"description": "first"}`, "environments/a/mise.toml": "[tools]\n\"npm:prettier\" = \"latest\"\nnode = [\"24\", \"22\"]\n",
	},
}

// lay writes files below a folder of their own, and opens it as the command does.
func lay(t testing.TB, all files) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for name, content := range all {
		p := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(p, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		target, isLink := strings.CutPrefix(content, linkTo)
		switch {
		case isLink:
			must(t, os.Symlink(target, p))
		case content == pipe:
			must(t, syscall.Mkfifo(p, 0o644))
		default:
			must(t, os.WriteFile(p, []byte(content), 0o644))
		}
	}
	root, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	return root
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tell writes a result as the golden files have it.
func tell(res plugin.Result) string {
	var b strings.Builder
	if res.Name != "" {
		fmt.Fprintf(&b, "plugin %q\n", res.Name)
	}
	for _, d := range res.Definitions {
		fmt.Fprintf(&b, "item %s (%.40s):", d.Key, d.Description)
		for _, tool := range d.Tools {
			fmt.Fprintf(&b, " %s@%s:%d", tool.Name, tool.Version, tool.Line)
		}
		fmt.Fprintf(&b, "; %d files\n", len(d.Files))
	}
	for _, f := range res.Findings {
		fmt.Fprintf(&b, "[%s] %s:%d: %s: %s\n", f.Item, f.File, f.Line, f.Severity, f.Message)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (run with -update to take what is said now):\n%s", file, diff)
	}
}

func goldenOf(t *testing.T, name string, cases map[string]files) map[string]plugin.Result {
	results := map[string]plugin.Result{}
	var all strings.Builder
	for _, c := range slices.Sorted(maps.Keys(cases)) {
		res, err := plugin.Read(lay(t, cases[c]).FS())
		if err != nil {
			t.Errorf("%s: %v", c, err)
		}
		results[c] = res
		fmt.Fprintf(&all, "== %s\n%s\n", c, tell(res))
	}
	golden(t, name, all.String())
	return results
}

func TestBadItems(t *testing.T) {
	t.Parallel()
	for c, res := range goldenOf(t, "bad.golden", bad) {
		if !slices.ContainsFunc(res.Findings, func(f enplace.Finding) bool { return f.Severity == enplace.FindingError && f.Message != "" }) {
			t.Errorf("%s: taken", c)
		}
		for _, f := range res.Findings {
			if f.Message != enplace.Shown(f.Message, 10_000) || f.File != enplace.Shown(f.File, 10_000) || f.Item != enplace.Shown(f.Item, 10_000) {
				t.Errorf("%s: what is said commands a terminal: %+v", c, f)
			}
		}
	}
}

func TestGoodItems(t *testing.T) {
	t.Parallel()
	for c, res := range goldenOf(t, "good.golden", good) {
		for _, f := range res.Findings {
			if f.Severity == enplace.FindingError {
				t.Errorf("%s: %+v", c, f)
			}
		}
		for _, d := range res.Definitions {
			if _, ok := good[c]["environments/"+d.Folder+"/environment.json"]; !ok {
				t.Errorf("%s: %s is of the folder %q", c, d.Key, d.Folder)
			}
			for _, f := range d.Files {
				if strings.Contains(f.Content, "\r\n") || strings.HasPrefix(f.Content, "\ufeff") || enplace.CheckPath(f.Path) != nil {
					t.Errorf("%s: %q was not normalised", c, f.Path)
				}
			}
		}
	}
}

// One that is wrong takes nothing from the others, in whatever order they come.
func TestOneBadItemStopsNoOther(t *testing.T) {
	t.Parallel()
	for c, all := range bad {
		plain := files{"environments/zz/environment.json": `{"description": "x"}`, "environments/zz/mise.toml": tools, "environments/0/environment.json": `{"description": "x"}`, "environments/0/setup.sh": "#!/bin/sh\n"}
		if strings.HasPrefix(c, "environments is") {
			continue
		}
		res, err := plugin.Read(lay(t, join(all, plain)).FS())
		must(t, err)
		for _, key := range []string{"zz", "0"} {
			if !slices.ContainsFunc(res.Definitions, func(d enplace.Definition) bool { return d.Key == key }) {
				t.Errorf("%s: the item %s is missing", c, key)
			}
		}
	}
}

// What an import brings says what the folder says that it came from.
func TestImportsReadAsFolders(t *testing.T) {
	t.Parallel()
	blobs, err := dir.Open(t.TempDir())
	must(t, err)
	for _, cases := range []map[string]files{bad, good} {
		for c, all := range cases {
			entries, ok := entriesOf(t, blobs, all)
			if !ok {
				continue
			}
			want, err := plugin.Read(lay(t, all).FS())
			must(t, err)
			got, err := plugin.Read(treefs.New(t.Context(), blobs, entries, nil))
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s:\n%s", c, diff)
			}
		}
	}
}

// entriesOf makes entries of files; not of what no import brings.
func entriesOf(t *testing.T, blobs blob.Store, all files) ([]enplace.TreeEntry, bool) {
	batch, err := blobs.Batch(t.Context())
	must(t, err)
	defer batch.Discard()
	var entries []enplace.TreeEntry
	for name, content := range all {
		target, isLink := strings.CutPrefix(content, linkTo)
		switch {
		case content == pipe, strings.HasSuffix(name, "/"), enplace.CheckPath(name) != nil:
			return nil, false
		case isLink:
			entries = append(entries, enplace.TreeEntry{Path: name, Type: enplace.EntryLink, Target: target})
		default:
			info, err := batch.Add(t.Context(), strings.NewReader(content), enplace.MaxFileBytes)
			must(t, err)
			entries = append(entries, enplace.TreeEntry{Path: name, Type: enplace.EntryFile, Size: info.Bytes, Digest: info.Digest})
		}
	}
	must(t, batch.Commit(t.Context()))
	return entries, true
}

// An archive of environments/ alone lost it as the single top folder that imports take off.
func TestUnwrappedEnvironments(t *testing.T) {
	t.Parallel()
	blobs, err := dir.Open(t.TempDir())
	must(t, err)
	entries, _ := entriesOf(t, blobs, files{"item/environment.json": described, "item/mise.toml": tools})
	for unwrapped, want := range map[string]int{"environments": 1, "my-plugin-main": 0} {
		res, err := plugin.Read(treefs.New(t.Context(), blobs, plugin.Rewrap(entries, unwrapped), nil))
		if err != nil || len(res.Definitions) != want {
			t.Errorf("%s: %+v %v", unwrapped, res, err)
		}
	}
}

// A failure to read is an error and no finding: it says nothing of the item.
func TestUnreadableIsNoFinding(t *testing.T) {
	t.Parallel()
	root := lay(t, with(nil))
	root.Close()
	if res, err := plugin.Read(root.FS()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%+v %v", res, err)
	}
}

func TestTooManyItems(t *testing.T) {
	t.Parallel()
	all := join(many(enplace.MaxPluginItems+1, "environments/i%03d/environment.json", `{"description": "x"}`), many(enplace.MaxPluginItems+1, "environments/i%03d/setup.sh", "#!/bin/sh\n"))
	res, err := plugin.Read(lay(t, all).FS())
	must(t, err)
	if len(res.Definitions) != enplace.MaxPluginItems || len(res.Findings) != 1 || !strings.Contains(res.Findings[0].Message, `from "i200" on`) {
		t.Errorf("%d items, %+v", len(res.Definitions), res.Findings)
	}
}

// A stranger's file does not decide how much is said of it.
func TestFindingsAreBounded(t *testing.T) {
	t.Parallel()
	var toml, doc strings.Builder
	toml.WriteString("[tools]\n")
	doc.WriteString("{")
	for i := range 5000 {
		fmt.Fprintf(&toml, "\"no:%d\" = 1\n", i)
		fmt.Fprintf(&doc, "\"f%d\": 1,\n", i)
	}
	doc.WriteString(`"description": "x"}`)
	res, err := plugin.Read(lay(t, with(files{"mise.toml": toml.String(), "environment.json": doc.String()})).FS())
	must(t, err)
	if len(res.Findings) > 250 || len(res.Findings) < 100 {
		t.Errorf("%d findings", len(res.Findings))
	}
	if len(res.Definitions) != 0 {
		t.Error("taken")
	}
}
