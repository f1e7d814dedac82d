package shim

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestIndex(t *testing.T) {
	t.Parallel()
	all := []Command{
		{"node", "/opt/mise/installs/node/24/bin/node", "node", "organisation", ""},
		{"nod", "/a\nb", "x", "person:ada", ""},
		{"gone", "", "frontend", "team:web", "the deadline passed"},
	}
	b := string(Encode(all))
	got, err := Decode(b)
	if err != nil || !slices.Equal(got, all) {
		t.Fatalf("%v, %v", got, err)
	}
	for _, c := range all {
		if got, err := command(b, c.Name); err != nil || got == nil || *got != c {
			t.Errorf("%s: %v, %v", c.Name, got, err)
		}
	}
	for _, name := range []string{"no", "node2", "", "x", "organisation"} {
		if got, err := command(b, name); err != nil || got != nil {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	for cut := range len(b) {
		if _, err := command(b[:cut], "node"); err == nil {
			t.Errorf("an index cut at %d is believed", cut)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add(string(Encode([]Command{{"node", "/bin/node", "i", "organisation", ""}, {"x", "", "i", "s", "f"}})), "node")
	f.Add(header+"\x00\x00\x00\x00", "a")
	f.Add(header+"\xff\xff\xff\xff", "a")
	f.Fuzz(func(t *testing.T, index, name string) {
		all, err := Decode(index)
		c, lookupErr := command(index, name)
		if err == nil {
			if lookupErr != nil {
				t.Fatalf("decoded, but not looked through: %v", lookupErr)
			}
			at := slices.IndexFunc(all, func(c Command) bool { return c.Name == name })
			if (at >= 0) != (c != nil) || c != nil && *c != all[at] {
				t.Fatalf("%q: %v of %v", name, c, all)
			}
			if string(Encode(all)) != index {
				t.Fatal("another encoding of the same commands is believed")
			}
		}
		if c != nil && (c.Name != name || c.Failed == "" && !strings.HasPrefix(c.Target, "/")) {
			t.Fatalf("%q: %+v", name, c)
		}
	})
}

func FuzzDepth(f *testing.F) {
	f.Add("1.2.3")
	f.Add(strconv.Itoa(os.Getpid()) + ".8.8")
	f.Fuzz(func(t *testing.T, marker string) {
		env, why := deeper("x", []string{"A=1", depthVar + "=" + marker, "B=2"})
		if why == nil && (len(env) != 3 || env[0] != "A=1" || env[1] != "B=2") {
			t.Fatalf("%q", env)
		}
	})
}

func TestCalledAs(t *testing.T) {
	t.Parallel()
	for argv0, want := range map[string]string{"/opt/mise/shims/node": "node", "node": "node", "-fish": "fish", "/run/enplace/shim": "shim", "": "", "/": "", "-": ""} {
		if got := calledAs([]string{argv0}); got != want {
			t.Errorf("%q: %q; want %q", argv0, got, want)
		}
	}
	if got := calledAs(nil); got != "" {
		t.Errorf("without arguments: %q", got)
	}
}

// The name of a program, which stands in /proc before its parent, can hold anything.
func TestParent(t *testing.T) {
	t.Parallel()
	if got := parent(os.Getpid()); got != os.Getppid() {
		t.Errorf("%d; want %d", got, os.Getppid())
	}
	if got := parent(1 << 30); got != 0 {
		t.Errorf("of nobody: %d", got)
	}
}

// Each package that is linked here is initialised before each command of each tool.
func TestImportsNextToNothing(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); !slices.Contains([]string{"errors", "os", "strconv", "syscall", "unsafe"}, path) {
				t.Errorf("%s imports %s", f, path)
			}
		}
	}
}
