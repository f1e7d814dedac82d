package source

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"enplace"
)

// What lies beside the part is passed over, whatever it is, and what is bad in it is for the caller to judge; what would leave the
// tree is refused as ever.
func TestPart(t *testing.T) {
	t.Parallel()
	l := smallLimits
	l.part = Part{Within: []string{"items", "name.json"}, FileBytes: 10}
	beside := []item{
		{name: "docs/\xff"}, {name: "docs/pipe", kind: tar.TypeFifo}, {name: "docs/out", kind: tar.TypeSymlink, link: "/etc/passwd"},
		{name: "docs/large", body: strings.Repeat("x", 2000)}, {name: "docs/items.md", body: "x"}, {name: "README.md", body: "x"},
	}
	inside := []item{
		{name: "items/a/f", body: "f"}, {name: "items/a/out", kind: tar.TypeSymlink, link: "/etc/passwd"}, {name: "items/b/large", body: strings.Repeat("y", 600)},
		{name: "items/a/node_modules/x", body: "x"}, {name: "name.json", body: "{}"},
	}
	want := []string{"items/a/f f", "items/a/out -> /etc/passwd", "items/b/large " + strings.Repeat("y", 11), "name.json {}"}
	for _, wrapper := range []string{"", "top/"} {
		var all []item
		for _, i := range slices.Concat(beside, inside) {
			i.name = wrapper + i.name
			all = append(all, i)
		}
		res, sink, err := run(t, makeTar(t, all...), l)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, listing(res, sink)); diff != "" {
			t.Error(diff)
		}
		skipped := []enplace.Count{{Rule: "node_modules", Count: 1, Examples: []string{wrapper + "items/a/node_modules/x"}}}
		if diff := cmp.Diff(skipped, res.Report.Skipped); diff != "" {
			t.Error(diff)
		}
	}
	if res, _, err := run(t, makeTar(t, beside...), l); err != nil || len(res.Entries) > 0 {
		t.Errorf("without the part: %v, %v", res.Entries, err)
	}
	for _, name := range []string{"../x", "docs/../../x", "/etc/x", "items/../x"} {
		if _, _, err := run(t, makeTar(t, slices.Concat(inside, []item{{name: name, body: "x"}})...), l); enplace.KindOf(err) != enplace.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What no tree can have is named and left out, each by its path, beside what can be taken; without a part it stops the import.
func TestPartNamesWhatCannotBeTaken(t *testing.T) {
	t.Parallel()
	long := "items/a/" + strings.Repeat("n", 256)
	bad := []item{
		{name: "items/a/caf\xe9", body: "x"}, {name: "items/a/\x1b[2J", body: "x"}, {name: long, body: "x"}, {name: "items/a//empty", body: "x"},
		{name: "items/a/null", kind: tar.TypeChar}, {name: "items/a/sda", kind: tar.TypeBlock}, {name: "items/a/pipe", kind: tar.TypeFifo}, {name: "items/a/odd", kind: 'Z'},
		{name: "items/a/hard", kind: tar.TypeLink, link: "../../etc/passwd"}, {name: "items/a/later", kind: tar.TypeLink, link: "items/b/f"},
		{name: `items/a/back\slash`, body: "x"}, {name: "items/a/both", body: "x"}, {name: "items/a/both/below", body: "x"}, {name: "items/b\xff/f", body: "x"},
		{name: "items", kind: tar.TypeSymlink, link: "elsewhere"},
	}
	want := []string{
		`"items": is a file or link, and a folder too`, `"items/a/\x1b[2J": the path holds a control character; rename it`, `"items/a//empty": the path has an empty component; rename it`,
		`"items/a/back/slash": has a backslash in its name`, `"items/a/both": is a file or link, and a folder too`, `"items/a/caf\xe9": the path is not valid UTF-8; rename it`,
		`"items/a/hard": is a hard link to`, `"items/a/later": is a hard link to`, `"` + long + `": the path has a component of more than 255 bytes`,
		`"items/a/null": is a device;`, `"items/a/odd": is of a kind`, `"items/a/pipe": is a named pipe;`, `"items/a/sda": is a device;`, `"items/b\xff/f": the path is not valid UTF-8; rename it`,
	}
	good := []item{{name: "items/b/f", body: "f"}, {name: "items/a/f", body: "f"}}
	for _, wrapper := range []string{"", "top/"} {
		var all []item
		for _, i := range slices.Concat(bad, good) {
			if i.name = wrapper + i.name; i.kind == tar.TypeLink && i.link[0] != '.' {
				i.link = wrapper + i.link
			}
			all = append(all, i)
		}
		if _, _, err := run(t, makeTar(t, all...), defaultLimits); enplace.KindOf(err) != enplace.KindInvalid {
			t.Errorf("all of it: %v", err)
		}
		l := defaultLimits
		l.part = Part{Within: []string{"items"}, FileBytes: 10}
		res, sink, err := run(t, makeTar(t, all...), l)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"items/a/both/below x", "items/a/f f", "items/b/f f"}, listing(res, sink)); diff != "" {
			t.Error(diff)
		}
		refusals(t, res, want)
		l.entries = 10
		if _, _, err := run(t, makeTar(t, all...), l); enplace.KindOf(err) != enplace.KindTooLarge {
			t.Errorf("more than there may be: %v", err)
		}
	}
}

// refusals compares what was left out with the paths and the starts of the reasons.
func refusals(t *testing.T, res Result, want []string) {
	t.Helper()
	var got []string
	for _, r := range res.Refused {
		got = append(got, fmt.Sprintf(`"%s": %s`, strings.NewReplacer("\x1b", `\x1b`, "\xe9", `\xe9`, "\xff", `\xff`).Replace(r.Path), r.Reason))
	}
	if len(got) != len(want) {
		t.Fatalf("got %d: %s", len(got), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got %s, want %s", got[i], want[i])
		}
	}
}

func TestPartOfAZipNamesWhatCannotBeTaken(t *testing.T) {
	t.Parallel()
	b := makeZip(t, zipItem{name: "items/a/locked", body: "x"}, zipItem{name: "items/a/method", body: "x"}, zipItem{name: "items/a/sock", mode: fs.ModeSocket}, zipItem{name: "items/b/f", body: "f"}, zipItem{name: "README.md", body: "x"})
	entry := bytes.Index(b, []byte("PK\x01\x02"))
	b[entry+8] |= flagEncrypted
	b[entry+1+bytes.Index(b[entry+1:], []byte("PK\x01\x02"))+10] = 97
	l := defaultLimits
	l.part = Part{Within: []string{"items"}}
	res, sink, err := run(t, b, l)
	if diff := cmp.Diff([]string{"items/b/f f"}, listing(res, sink)); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
	refusals(t, res, []string{`"items/a/locked": is encrypted`, `"items/a/method": is packed by method 97`, `"items/a/sock": is a device, named pipe or socket`})
}

// What is passed over is not written, and takes time all the same: it counts as what is never imported does.
func TestBombBesideThePart(t *testing.T) {
	t.Parallel()
	l := smallLimits
	l.part = Part{Within: []string{"items"}, FileBytes: 10}
	in := item{name: "items/a/f", body: "f"}
	many := func(name string, n int) (out []item) {
		for i := range n {
			out = append(out, item{name: fmt.Sprintf(name, i), body: "x"})
		}
		return append(out, in)
	}
	zeros := item{name: "docs/zeros", body: strings.Repeat("\x00", 2<<20)}
	var names []zipItem
	for _, i := range many("docs/%d", 200) {
		names = append(names, zipItem{name: i.name, body: i.body})
	}
	for name, b := range map[string][]byte{
		"bytes":                 gz(t, makeTar(t, zeros, in)),
		"bytes behind the part": gz(t, makeTar(t, in, zeros)),
		"bytes of a cut file":   gz(t, makeTar(t, item{name: "items/a/zeros", body: zeros.body}, in)),
		"entries":               makeTar(t, many("docs/%d", 200)...),
		"entries of a zip":      makeZip(t, names...),
		"files of the part":     makeTar(t, many("items/%d", 20)...),
		"bytes of cut files":    gz(t, makeTar(t, many("items/%d", 15)...)),
		"archive":               makeTar(t, zeros, in),
	} {
		limits := l
		if name == "bytes of cut files" {
			limits.treeBytes = 15
		}
		if _, _, err := run(t, b, limits); enplace.KindOf(err) != enplace.KindTooLarge {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// A zip has a directory: what it lists beside the part is not unpacked at all.
	if res, _, err := run(t, makeZip(t, zipItem{name: zeros.name, body: zeros.body}, zipItem{name: in.name, body: in.body}), l); err != nil || len(res.Entries) != 1 {
		t.Errorf("%v, %v", res.Entries, err)
	}
}

// macOS puts a folder of its own beside the one that was packed, and into it the name of the part.
func TestPartOfAZipFromMacOS(t *testing.T) {
	t.Parallel()
	l := smallLimits
	l.part = Part{Within: []string{"items"}}
	var all []zipItem
	for _, name := range []string{"tools/README.md", "tools/items/a/f", "tools/.DS_Store", "__MACOSX/._tools", "__MACOSX/tools/._items", "__MACOSX/tools/items/a/._f"} {
		all = append(all, zipItem{name: name, body: "f"})
	}
	res, sink, err := run(t, makeZip(t, all...), l)
	if diff := cmp.Diff([]string{"items/a/f f"}, listing(res, sink)); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestPartOfARepository(t *testing.T) {
	t.Parallel()
	root, _, second := project(t)
	o := overHTTP
	small := defaultLimits
	small.part, small.scannedBytes = Part{Within: []string{"sub"}}, 2000 // a header and a block for each file, nearly all beside
	if _, err := importGit(t.Context(), local(t), enplace.GitSource{URL: serve(t, root) + "/p.git"}, memory{}, o, small); enplace.KindOf(err) != enplace.KindTooLarge {
		t.Errorf("bytes beside the part: %v", err)
	}
	small.scannedBytes, small.scanned = defaultLimits.scannedBytes, 3
	if _, err := importGit(t.Context(), local(t), enplace.GitSource{URL: serve(t, root) + "/p.git"}, memory{}, o, small); enplace.KindOf(err) != enplace.KindTooLarge {
		t.Errorf("entries beside the part: %v", err)
	}
	for within, submodules := range map[string][]string{"sub": nil, "vendor": {"vendor/lib"}} {
		o.Part = Part{Within: []string{within}}
		res, err := Git(t.Context(), local(t), enplace.GitSource{URL: serve(t, root) + "/p.git"}, memory{}, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(res.Entries); res.Report.Commit != second || !slices.Equal(res.Submodules, submodules) || (got == 1) != (within == "sub") || len(res.Report.Notes) != len(submodules) {
			t.Errorf("%s: %+v", within, res)
		}
	}
}
