package source

import (
	"archive/tar"
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

func TestPartOfARepository(t *testing.T) {
	t.Parallel()
	root, _, second := project(t)
	o := overHTTP
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
