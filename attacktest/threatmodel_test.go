package attacktest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A test as docs/threat-model.md names it: its package's folder below the module, its name, and subtests behind it.
var namedTest = regexp.MustCompile("`((?:[a-z0-9]+/)*[a-z0-9]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)((?:/[A-Za-z0-9]+)*)`")

// Whatever the threat model promises is held by a test that exists, and whatever is attacked here is on that page.
func TestThreatModelNamesTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	named := namedTest.FindAllStringSubmatch(string(page), -1)
	if len(named) < 60 {
		t.Errorf("the page names only %d tests", len(named))
	}
	for _, m := range named {
		source := testSource(t, m[1])
		if !strings.Contains(source, "func "+m[2]+"(") {
			t.Errorf("%s: there is no %s in %s", m[0], m[2], m[1])
		}
		for sub := range strings.SplitSeq(strings.TrimPrefix(m[3], "/"), "/") {
			if sub != "" && !strings.Contains(source, `"`+sub+`"`) {
				t.Errorf("%s: there is no subtest %s in %s", m[0], sub, m[1])
			}
		}
	}
	promises, _, _ := strings.Cut(string(page), "## What is not promised")
	_, promises, _ = strings.Cut(promises, "## What is promised")
	for line := range strings.Lines(promises) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| promise") && !namedTest.MatchString(line) {
			t.Errorf("no test holds this: %s", line)
		}
	}
	own := testSource(t, "attacktest")
	for _, m := range regexp.MustCompile(`t\.Run\("([A-Za-z]+)"|\n\t*"([A-Z][A-Za-z]+)": [a-z]|, "([A-Z][A-Za-z]+)": [a-z][A-Za-z]+[,}]`).FindAllStringSubmatch(own, -1) {
		if name := m[1] + m[2] + m[3]; !strings.Contains(string(page), "/"+name+"`") {
			t.Errorf("the attack %s is not on the page", name)
		}
	}
}

// testSource gives the Go source of a package, with that of a conformance suite beside it, since its tests run under the adapter's name.
func testSource(t *testing.T, pkg string) string {
	t.Helper()
	if pkg == "enplace" {
		pkg = "."
	}
	var all strings.Builder
	for _, dir := range []string{pkg, filepath.Join(filepath.Dir(pkg), filepath.Base(filepath.Dir(pkg))+"test")} {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
		}
	}
	return all.String()
}
