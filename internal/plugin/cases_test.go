package plugin_test

import (
	"fmt"
	"maps"
	"strings"
	"unicode/utf16"

	"enplace"
)

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
	"dotenv with a name":              with(files{"prod.env": "TOKEN=x\n"}),
	"pointer to Git LFS":              with(files{"setup.sh": "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"}),
	"name that turns the reading":     with(files{"x\u202ehs.exe": "x"}),
	"description that shows nothing":  with(files{"environment.json": "{\"description\": \"\u200b \u2060\"}"}),
	"description that turns":          with(files{"environment.json": "{\"description\": \"a\u202eb\"}"}),
	"description over two lines":      with(files{"environment.json": "{\"description\": \"a\u2028b\"}"}),
	"folder that is never imported":   join(with(nil), files{"environments/venv/environment.json": described, "environments/venv/mise.toml": tools}),
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
		"environments/linked": linkTo + "item", "environments/setup.sh": "x", "skills/a/SKILL.md": "x", "environments/node_modules/a/environment.json": described,
	}),
	"submodule":                   with(files{"theme/.git": "gitdir: ../../../.git/modules/theme\n", "theme/house.css": "x"}),
	"joined characters":           with(files{"environment.json": `{"description": "👩‍💻 tools"}`}),
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
