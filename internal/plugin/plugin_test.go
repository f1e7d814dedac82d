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

	"github.com/google/go-cmp/cmp"

	"enplace"
	"enplace/internal/blob"
	"enplace/internal/blob/dir"
	"enplace/internal/plugin"
	"enplace/internal/treefs"
)

var update = flag.Bool("update", false, "write the golden files anew")

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

// The example of the documentation has nothing that is to be said of it.
func TestExamplePlugins(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{"company": {"greeting", "web-tools"}, "data-team": {"json", "report"}, "ada": {"greeting"}} {
		root, err := os.OpenRoot(filepath.Join("..", "..", "examples", "toolchains", name))
		must(t, err)
		defer root.Close()
		res, err := plugin.Read(root.FS())
		var got []string
		for _, d := range res.Definitions {
			got = append(got, d.Key)
		}
		if slices.Sort(got); err != nil || len(res.Findings) != 0 || !slices.Equal(got, keys) || name == "company" && res.Name != "Company" {
			t.Errorf("%s: %+v %v", name, res, err)
		}
	}
}
