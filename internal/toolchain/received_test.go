package toolchain_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/toolchain/toolchaintest"
)

// packed is an archive of files in their order; the content of a link is behind an arrow, a pipe's name is before a bar, and that of a
// hard link before a double arrow.
func packed(files ...[2]string) io.Reader {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))}
		if target, isLink := strings.CutPrefix(f[1], "-> "); isLink {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, target, 0
		}
		if name, isPipe := strings.CutSuffix(f[0], " |"); isPipe {
			h.Name, h.Typeflag, h.Size = name, tar.TypeFifo, 0
		}
		if name, target, isLink := strings.Cut(f[0], " => "); isLink {
			h.Name, h.Typeflag, h.Linkname, h.Size = name, tar.TypeLink, target, 0
		}
		_ = w.WriteHeader(h) // into memory
		if h.Typeflag == tar.TypeReg || h.Typeflag == 0 {
			_, _ = io.WriteString(w, f[1])
		}
	}
	_ = w.Close()
	return &b
}

func filesOf(f toolchaintest.Files) (all [][2]string) {
	for name, content := range f {
		all = append(all, [2]string{"environments/" + name, content})
	}
	return all
}

// said gives findings as lines.
func said(findings []enplace.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s %s:%d: %s\n", f.Severity, f.File, f.Line, f.Message)
	}
	return b.String()
}

// An item with a bad file does not stop the others, whatever the file is; nor does what lies beside the items.
func testBadFiles(h house) {
	h.Direct("b-ann")
	files := filesOf(item("b-good").With(item("b-link"), item("b-large"), item("b-twice"), toolchaintest.Item("venv", "true\n", "")))
	files = append(files, [][2]string{
		{"environments/b-link/passwd", "-> /etc/passwd"}, {"environments/b-large/data", strings.Repeat("x", 2<<20)},
		{"environments/b-twice/setup.sh", "#!/bin/bash\nset -e\ntrue\n"}, {"environments/b-good/node_modules/x.js", "x"},
		{"docs/abroad", "-> ../../../etc"}, {"docs/\xff.txt", "x"}, {"README.md", "x"},
	}...)
	p, err := h.Toolchain.CreatePluginArchive(h.t.Context(), operator, "person:b-ann", "own", packed(files...))
	check(h.t, err)
	if !slices.Equal(p.Items, []string{"b-good", "b-twice"}) {
		h.t.Errorf("items %v", p.Items)
	}
	for _, want := range []string{
		"error environments/b-link/passwd:0: the link to", "error environments/b-large/data:0: with this file the item has more than 1 MiB",
		"error environments/venv/environment.json:0: no import brings a folder called venv", "warning environments/b-good/node_modules:0: node_modules is never part",
		"warning environments/b-twice/setup.sh:0: came again later",
	} {
		if !strings.Contains(said(p.Findings), want) {
			h.t.Errorf("%q is not said:\n%s", want, said(p.Findings))
		}
	}
	if strings.Contains(said(p.Findings), "docs") {
		h.t.Errorf("what is no item is judged:\n%s", said(p.Findings))
	}
	if _, err := h.Toolchain.SyncPlugin(h.t.Context(), operator, p.ID, packed(append(files, [2]string{"../out", "x"})...)); enplace.KindOf(err) != enplace.KindInvalid {
		h.t.Errorf("an archive that leads out of itself: %v", err)
	}
}

// What no import can take breaks the item that it is of, and no other: its last good definition is kept, and the finding names the
// file and the reason. What lies in no item's folder breaks none.
func testRefusedFiles(h house) {
	ctx := h.t.Context()
	with := h.Direct("rf-ann")
	good := filesOf(item("rf-one").With(item("rf-two")))
	p, err := h.Toolchain.CreatePluginArchive(ctx, operator, "person:rf-ann", "own", packed(good...))
	check(h.t, err)
	before := h.set(with).Hash
	for name, want := range map[string]string{
		"environments/rf-two/caf\xe9":                     "error environments/rf-two/caf\ufffd:0: the path is not valid UTF-8; rename it",
		"environments/rf-two/\x1b[2J":                     "error environments/rf-two/\ufffd[2J:0: the path holds a control character; rename it",
		"environments/rf-two/pipe |":                      "error environments/rf-two/pipe:0: is a named pipe; leave it out of the archive",
		"environments/rf-two/hard => /etc":                "error environments/rf-two/hard:0: is a hard link to",
		`environments/rf-two/back\slash`:                  "error environments/rf-two/back/slash:0: has a backslash in its name",
		"environments/rf-two/setup.sh/x":                  "error environments/rf-two/setup.sh:0: is a file or link, and a folder too",
		"environments/rf-two/" + strings.Repeat("n", 256): "0: the path has a component of more than 255 bytes; rename it",
		"environments//rf-two/x":                          "error environments/rf-two/x:0: the path has an empty component; rename it",
		"environments/rf-three\xff/x":                     "",
		"environments/rf-three/pipe |":                    "",
		"environments/pipe |":                             "warning environments/pipe:0: is a named pipe",
		"environments/rf-\xff/environment.json":           "error environments/rf-\ufffd/environment.json:0: the path is not valid UTF-8; rename it",
	} {
		p, err = h.Toolchain.SyncPlugin(ctx, operator, p.ID, packed(append(good, [2]string{name, "x"})...))
		check(h.t, err)
		said := said(p.Findings)
		if !strings.Contains(said, want) || want == "" && said != "" {
			h.t.Errorf("%q: said\n%s", name, said)
		}
		if breaks := strings.Contains(name, "rf-two"); breaks != strings.Contains(said, "the last good definition of rf-two is kept") {
			h.t.Errorf("%q: %s", name, said)
		}
		if !slices.Equal(p.Items, []string{"rf-one", "rf-two"}) || h.set(with).Hash != before {
			h.t.Errorf("%q: items %v", name, p.Items)
		}
		if strings.Contains(name, "rf-two") {
			_, err := h.Toolchain.CreatePluginArchive(ctx, operator, "person:rf-ann", "other", packed(append(filesOf(item("rf-two")), [2]string{name, "x"})...))
			if enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), strings.TrimSuffix(want[strings.Index(want, "0: ")+3:], "; rename it")) {
				h.t.Errorf("%q alone: %v", name, err)
			}
		}
	}
	testEncrypted(h, p, before, with)
}

// testEncrypted sends a zip of which the description of one item has a password, and then all of it.
func testEncrypted(h house, p enplace.Plugin, before, with string) {
	for from, want := range map[string]string{"environments/rf-two/environment.json": "rf-two", "environments/rf-one/environment.json": "rf-one", "": "rf-two"} {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for _, f := range filesOf(item("rf-one").With(item("rf-two"))) {
			header := &zip.FileHeader{Name: f[0]}
			if from == "" || f[0] == from {
				header.Flags = 1
			}
			file, err := w.CreateRaw(header)
			check(h.t, err)
			_, err = io.WriteString(file, f[1])
			check(h.t, err)
		}
		check(h.t, w.Close())
		p, err := h.Toolchain.SyncPlugin(h.t.Context(), operator, p.ID, &b)
		check(h.t, err)
		if said := said(p.Findings); !strings.Contains(said, "error environments/"+want+"/environment.json:0: is encrypted; make the zip without a password") || strings.Contains(said, "it has no environment.json") ||
			!strings.Contains(said, "the last good definition of "+want+" is kept") || !slices.Equal(p.Items, []string{"rf-one", "rf-two"}) || h.set(with).Hash != before {
			h.t.Errorf("%q: %v\n%s", from, p.Items, said)
		}
	}
}

// A folder that is renamed while its item breaks keeps the last good definition, and an item whose key changes in its folder is
// offered as it was.
func testRenames(h house) {
	ctx, s := h.t.Context(), h.Toolchain
	with := h.Direct("n-ann")
	p := h.Attach("organisation", "n-org", item("n-one").With(item("n-two")))
	locked, mode := true, enplace.ItemAvailable
	_, err := s.UpdateItem(ctx, operator, "organisation", "n-two", enplace.UpdateItem{Locked: &locked, Mode: &mode})
	check(h.t, err)
	moved := item("n-two").With(toolchaintest.Files{"elsewhere/environment.json": `{"name": "n-one", "description": "x"}`, "elsewhere/mise.toml": "[tools\n"})
	p = h.Sync(p, moved)
	if !slices.Equal(p.Items, []string{"n-one", "n-two"}) || !strings.Contains(said(p.Findings), "the last good definition of n-one is kept") {
		h.t.Errorf("%v\n%s", p.Items, said(p.Findings))
	}
	if got := keys(h.set(with)); got != "organisation/n-one" {
		h.t.Errorf("set %s", got)
	}
	renamed := item("n-one").With(toolchaintest.Files{"n-two/environment.json": "{\"description\": \"x\",\n\"name\": \"n-three\"}", "n-two/setup.sh": "#!/bin/bash\ntrue\n"})
	p = h.Sync(p, renamed)
	three, err := s.Item(ctx, operator, "organisation", "n-three")
	check(h.t, err)
	if !three.Locked || three.Mode != enplace.ItemAvailable || !strings.Contains(said(p.Findings), "notice environments/n-two/environment.json:2: the key was n-two") {
		h.t.Errorf("locked %v, %s\n%s", three.Locked, three.Mode, said(p.Findings))
	}
	if p = h.Sync(p, renamed); strings.Contains(said(p.Findings), "the key was") {
		h.t.Errorf("told twice:\n%s", said(p.Findings))
	}
	// A new key that is refused is no reason to take the item away.
	other := h.Attach("organisation", "n-other", item("n-taken"))
	taken := item("n-one").With(toolchaintest.Files{"n-two/environment.json": `{"name": "n-taken", "description": "x"}`, "n-two/setup.sh": "#!/bin/bash\ntrue\n"})
	if p = h.Sync(p, taken); !slices.Equal(p.Items, []string{"n-one", "n-three"}) || !strings.Contains(said(p.Findings), "the last good definition of n-three is kept") {
		h.t.Errorf("%v\n%s", p.Items, said(p.Findings))
	}
	check(h.t, s.DeletePlugin(ctx, operator, other.ID))
	// Who declares a key that somebody nearer has is not told to switch that off, which they cannot.
	h.Attach("person:n-ann", "own", item("n-own"))
	_, err = s.CreatePluginArchive(ctx, operator, "organisation", "n-more", item("n-own").Archive())
	if enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), "environment.json:1: the key n-own is used by an item of person:n-ann") || strings.Contains(err.Error(), "switch") {
		h.t.Error(err)
	}
	check(h.t, s.DeletePlugin(ctx, operator, p.ID))
}

// A source is kept as it is meant, and an error names the field that has it.
func testSources(h house, url, work string) {
	ctx, s := h.t.Context(), h.Toolchain
	h.Direct("o-ann")
	create := func(src enplace.PluginSource) (enplace.Plugin, error) {
		src.GitURL = url
		return s.CreatePlugin(ctx, operator, enplace.CreatePlugin{Scope: "person:o-ann", Name: "git", Source: src})
	}
	for field, src := range map[string]enplace.PluginSource{"source.path": {Path: "../x"}, "source.ref": {Ref: "-x"}} {
		if _, err := create(src); !strings.HasPrefix(fmt.Sprint(err), field+": ") {
			h.t.Errorf("%+v: %v", src, err)
		}
	}
	p, err := create(enplace.PluginSource{Ref: " main\n", Path: " plugin "})
	check(h.t, err)
	if p.Source.Ref != "main" || p.Source.Path != "plugin" {
		h.t.Errorf("%+v", p.Source)
	}
	// An item that became a submodule is broken, and not gone.
	git := func(args ...string) string {
		h.t.Helper()
		out, err := exec.Command("git", append([]string{"-C", work, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...).Output()
		check(h.t, err)
		return strings.TrimSpace(string(out))
	}
	git("rm", "-rq", "--cached", "plugin/environments/from-git")
	git("update-index", "--add", "--cacheinfo", "160000,"+git("rev-parse", "HEAD")+",plugin/environments/from-git")
	git("commit", "-qm", "submodule")
	p, err = s.SyncPlugin(ctx, operator, p.ID, nil)
	check(h.t, err)
	if !slices.Equal(p.Items, []string{"from-git"}) || !strings.Contains(said(p.Findings), "error environments/from-git:0: this is a submodule") {
		h.t.Errorf("%v\n%s", p.Items, said(p.Findings))
	}
}
