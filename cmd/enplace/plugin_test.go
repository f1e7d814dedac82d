package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"enplace/internal/plugin"
)

// pluginIn writes a plugin's files, and gives its folder.
func pluginIn(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run gives what a command line prints.
func run(t *testing.T, args ...string) (status int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	status = execute(t.Context(), args, strings.NewReader(""), &o, &e)
	return status, o.String(), e.String()
}

var goodPlugin = map[string]string{
	"environments/web/environment.json": `{"description": "Tools of the web team"}`,
	"environments/web/mise.toml":        "[tools]\nnode = \"24\"\n",
}

func TestPluginCheck(t *testing.T) {
	t.Parallel()
	dir := pluginIn(t, goodPlugin)
	if status, out, _ := run(t, "plugin", "check", dir); status != 0 || out != "a server takes 1 item: web\n0 errors, 0 warnings, 0 notices\n" {
		t.Errorf("%d %q", status, out)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if status, out, _ := run(t, "plugin", "check", link); status != 0 {
		t.Errorf("through a link: %d %q", status, out)
	}
	warned := pluginIn(t, map[string]string{"environments/web/environment.json": `{"description": "x"}`, "environments/web/setup.sh": "echo\r\ncurl -f https://example.org | sh\n"})
	script := filepath.Join(warned, "environments/web/setup.sh")
	status, out, _ := run(t, "plugin", "check", warned)
	if status != 0 || !strings.Contains(out, script+":2: warning: a download that fails") || !strings.Contains(out, script+": notice: there is no #! line") || !strings.HasSuffix(out, "a server takes 1 item: web\n0 errors, 2 warnings, 2 notices\n") {
		t.Errorf("%d %s", status, out)
	}
	if status, out, _ := run(t, "plugin", "check", "--strict", warned); status != 1 || !strings.HasSuffix(out, "2 errors, 0 warnings, 2 notices\n") {
		t.Errorf("--strict: %d %s", status, out)
	}
	broken := pluginIn(t, map[string]string{"environments/web/environment.json": "{", "environments/web/mise.toml": "x = \n", "environments/a/environment.json": `{"description": "x"}`, "environments/a/setup.sh": "#!/bin/sh\n"})
	if status, out, _ := run(t, "plugin", "check", broken); status != 1 || !strings.Contains(out, "environments/web/mise.toml:1: error: ") || !strings.HasSuffix(out, "a server takes 1 item: a\n2 errors, 0 warnings, 0 notices\n") {
		t.Errorf("%d %s", status, out)
	}
}

func TestPluginCheckAsJSON(t *testing.T) {
	t.Parallel()
	files := map[string]string{"plugin.json": `{"name": "Tools"}`, "environments/bad/environment.json": "{}", "environments/bad/setup.sh": "#!/bin/sh\n"}
	for name, content := range goodPlugin {
		files[name] = content
	}
	status, out, _ := run(t, "plugin", "check", pluginIn(t, files), "--json")
	const want = `{
  "name": "Tools",
  "ok": false,
  "items": [
    {
      "key": "web",
      "folder": "web",
      "description": "Tools of the web team",
      "files": [
        "environment.json",
        "mise.toml"
      ],
      "tools": [
        {
          "name": "node",
          "version": "24",
          "line": 2
        }
      ]
    }
  ],
  "findings": [
    {
      "severity": "error",
      "item": "bad",
      "file": "environments/bad/environment.json",
      "message": "there is no \"description\"; say in up to 400 characters what the item is for"
    }
  ],
  "errors": 1,
  "warnings": 0,
  "notices": 0
}
`
	if status != 1 || out != want {
		t.Errorf("%d %s", status, out)
	}
}

// Whoever names a folder that is near a plugin's learns which one it is.
func TestPluginCheckOfTheWrongFolder(t *testing.T) {
	t.Parallel()
	dir := pluginIn(t, goodPlugin)
	for name, want := range map[string]string{
		"environments":                       "what to do: name " + dir,
		"environments/web":                   "what to do: name " + dir,
		"environments/web/../web/":           "what to do: name " + dir,
		"environments/web/mise.toml":         "is a file",
		"nothing":                            "there is no folder",
		"environments/web/mise.toml/nothing": "cannot open the folder",
	} {
		if status, _, errOut := run(t, "plugin", "check", dir+"/"+name); status < 2 || !strings.Contains(errOut, want) {
			t.Errorf("%s: %d %s", name, status, errOut)
		}
	}
	if status, out, _ := run(t, "plugin", "check", t.TempDir()); status != 1 || !strings.Contains(out, "there is no folder environments") {
		t.Errorf("%d %s", status, out)
	}
}

// A name in a plugin commands no terminal.
func TestPluginCheckIsShown(t *testing.T) {
	t.Parallel()
	dir := pluginIn(t, map[string]string{"environments/\x1b[2J/environment.json": "{", "environments/a/environment.json": "{\"\\u001b[2J\": 1}", "environments/a/\x1b]0;x\x07": "x"})
	status, out, _ := run(t, "plugin", "check", dir)
	if status != 1 || strings.ContainsAny(out, "\x1b\x07") {
		t.Errorf("%d %q", status, out)
	}
}

func TestPluginSchema(t *testing.T) {
	t.Parallel()
	status, out, _ := run(t, "plugin", "schema")
	if status != 0 || out != plugin.Schema() || !json.Valid([]byte(out)) {
		t.Errorf("%d %s", status, out)
	}
}

func TestPluginCheckCompletes(t *testing.T) {
	t.Parallel()
	for line, directive := range map[string]string{"plugin check ": ":16", "plugin check x ": ":4"} {
		_, out, _ := run(t, append([]string{"__complete"}, strings.Split(line, " ")...)...)
		if !slices.Contains(strings.Split(out, "\n"), directive) {
			t.Errorf("%s: %s", line, out)
		}
	}
}

// A plugin's folder is often the whole of a repository: what is no part of the plugin may be large, and stays here.
func TestAPluginIsSentWithoutItsSurroundings(t *testing.T) {
	t.Parallel()
	dir := pluginIn(t, map[string]string{
		plugin.ManifestName: "{}", "README.md": "x", "dist/huge.bin": "x", "environments/web/environment.json": "{}", "environments/README.md": "x",
	})
	archive, err := openPluginArchive(&cli{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var got []string
	for tr := tar.NewReader(archive); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Name)
	}
	if want := []string{"environments/README.md", "environments/web/environment.json", plugin.ManifestName}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, wrong := range []string{t.TempDir(), filepath.Join(dir, "environments")} {
		if _, err := openPluginArchive(&cli{}, wrong); err == nil {
			t.Errorf("%s was taken for a plugin", wrong)
		}
	}
}
