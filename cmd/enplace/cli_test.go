package main

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"enplace"
)

func TestQuotedWordsComeBackFromAShell(t *testing.T) {
	t.Parallel()
	words := []string{"plain", "", "a b", "it's", `"`, "$HOME", "`id`", "*", "a\nb", "--flag=x", "\\", "é", "!x", "~", "#c", ";", "a=b"}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\0' "+quoteWords(words)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); strings.Join(got, "|") != strings.Join(words, "|") {
		t.Errorf("%q came back as %q", words, got)
	}
}

func TestEveryKindHasAnExitCode(t *testing.T) {
	t.Parallel()
	for _, k := range []enplace.Kind{enplace.KindMalformed, enplace.KindInvalid, enplace.KindUnauthenticated, enplace.KindForbidden, enplace.KindNotFound, enplace.KindConflict,
		enplace.KindTooLarge, enplace.KindBusy, enplace.KindUpstream, enplace.KindUnavailable, enplace.KindInternal} {
		if exitCodes[k] == 0 {
			t.Errorf("%s has none", k)
		}
	}
}

// Every command says what it does, in one line and in a style; those that take something complex show an example.
func TestHelp(t *testing.T) {
	t.Parallel()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if s := cmd.Short; s == "" || strings.HasSuffix(s, ".") || s[0] < 'A' || s[0] > 'Z' {
			t.Errorf("%s: %q", cmd.CommandPath(), s)
		}
		if cmd.HasSubCommands() == cmd.Runnable() {
			t.Errorf("%s is a group and runs, or neither", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: the example %q is not indented", cmd.CommandPath(), line)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(&cli{}))
}

// Every command that takes something shows an example; and what examples show is how it is written.
func TestExamples(t *testing.T) {
	t.Parallel()
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Runnable() && cmd.Example == "" && strings.Contains(cmd.Use, " ") && cmd.Name() != "help" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		if lines := commandLines(cmd.Example); cmd.Example != "" && len(lines) == 0 {
			t.Errorf("no example of %s runs enplace", cmd.CommandPath())
		}
		for _, words := range commandLines(cmd.Example) {
			shown, rest, err := newRoot(&cli{}).Find(words)
			if err == nil {
				err = shown.ParseFlags(rest)
			}
			if err == nil {
				err = shown.ValidateArgs(shown.Flags().Args())
			}
			if err != nil {
				t.Errorf("an example of %s is wrong: enplace %s: %v", cmd.CommandPath(), quoteWords(words), err)
			}
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "completion" {
				walk(sub)
			}
		}
	}
	walk(newRoot(&cli{}))
}

// commandLines gives the words of each enplace in lines for a shell, without its name.
func commandLines(example string) [][]string {
	var all [][]string
	for line := range strings.Lines(example) {
		var words []string
		quote, word, begun := rune(0), "", false
		end := func() {
			if begun {
				words = append(words, word)
			}
			word, begun = "", false
		}
		over := func() {
			end()
			for i, w := range words {
				if w == "enplace" && (i == 0 || words[i-1] == "--") {
					all = append(all, words[i+1:])
				}
			}
			words = nil
		}
		for _, r := range line {
			switch {
			case quote != 0 && r == quote:
				quote = 0
			case quote == 0 && (r == '\'' || r == '"'):
				quote, begun = r, true
			case quote == 0 && strings.ContainsRune("|<>;&()$", r):
				over()
			case quote == 0 && (r == ' ' || r == '\n'):
				end()
			default:
				word, begun = word+string(r), true
			}
		}
		over()
	}
	return all
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	for line, code := range map[string]int{
		"nonsense": 2, "env nonsense": 2, "--json env nonsense": 2, "--data x nonsense": 2, "env show": 2, "env show a b": 2, "env --nonsense": 2,
		"": 0, "env": 0, "help env": 0, "completion bash": 0, "env create --help": 0, "version": 0,
	} {
		var out, errOut bytes.Buffer
		if got := execute(context.Background(), strings.Fields(line), strings.NewReader(""), &out, &errOut); got != code {
			t.Errorf("enplace %s: exit status %d, %s", line, got, &errOut)
		}
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	got, err := variables([]string{"A=1", "B=x=y", "C="})
	if err != nil || len(got) != 3 || got["B"] != "x=y" || got["C"] != "" {
		t.Errorf("%v %v", got, err)
	}
	for _, wrong := range []string{"A", "=x", ""} {
		if _, err := variables([]string{wrong}); enplace.KindOf(err) != enplace.KindMalformed {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// A set that no conversation has any more is not tried again, and what failed of it was counted for as long as it was remembered.
func TestFailedItemsAreThoseTriedAgain(t *testing.T) {
	t.Parallel()
	failed := []enplace.ComputerItem{{InstalledItem: enplace.InstalledItem{Key: "web", Status: enplace.ItemFailed}}}
	due := time.Now()
	v := enplace.Computer{Sets: []enplace.ComputerSet{{Hash: "old", Items: failed}, {Hash: "now", Items: failed, RetryAt: &due}}}
	if n := failedItems(v); n != 1 {
		t.Errorf("%d", n)
	}
}

func TestNamesOfFilesCommandNoTerminal(t *testing.T) {
	t.Parallel()
	if got := printable("a\x1b[31mb\u202ec\n é"); strings.ContainsAny(got, "\x1b\n\u202e") || !strings.HasSuffix(got, " é") {
		t.Errorf("%q", got)
	}
}

// Debian's packages of two architectures are two packages, and a manager that is not named keeps its list as it is.
func TestEditPackagesLeavesTheOthers(t *testing.T) {
	t.Parallel()
	declared := enplace.Packages{Pip: []string{"idna==3.9"}, NPM: []string{"left-pad"}, Apt: []string{"jq", "jq:arm64"}}
	add := map[enplace.Manager]*[]string{enplace.Pip: {"IDNA==3.10"}, enplace.NPM: {}, enplace.Apt: {}}
	next, err := editPackages(declared, add, []string{"apt:jq:arm64"})
	if err != nil || next.NPM != nil || !slices.Equal(*next.Pip, []string{"IDNA==3.10"}) || !slices.Equal(*next.Apt, []string{"jq"}) {
		t.Errorf("%+v %v", next, err)
	}
	if declared.Pip[0] != "idna==3.9" {
		t.Error("what was declared changed")
	}
	if next, err := editPackages(declared, map[enplace.Manager]*[]string{enplace.Pip: {}, enplace.NPM: {}, enplace.Apt: {}}, nil); err != nil || next != (enplace.PackageLists{}) {
		t.Errorf("nothing to do: %+v %v", next, err)
	}
}

// A time that was past was printed as the one of the next try while that ran.
func TestNextTry(t *testing.T) {
	trying := []enplace.InstalledItem{{Status: enplace.ItemInstalled}, {Status: enplace.ItemInstalling}}
	past, later := time.Now().Add(-time.Minute), time.Now().Add(time.Minute)
	for _, c := range []struct {
		at      time.Time
		running bool
		items   []enplace.InstalledItem
		want    string
	}{
		{later, true, nil, "to be tried again: " + ago(later)},
		{later, true, trying, "being tried again now"},
		{past, true, nil, "being tried again now"},
		{past, false, trying, "being tried again now"},
		{past, false, nil, "to be tried again with the next command"},
	} {
		if got := nextTry(c.at, c.running, c.items); got != c.want {
			t.Errorf("%v, %v: %q, want %q", c.at, c.running, got, c.want)
		}
	}
}
