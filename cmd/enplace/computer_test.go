package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"enplace"
)

// A computer that had had many sets was shown with all of them in full, and nothing said which a conversation has now.
func TestOldSetsAreOneLineEach(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	items := func(status enplace.ItemStatus, why string) []enplace.ComputerItem {
		return []enplace.ComputerItem{{Obtained: enplace.FromDirect, InstalledItem: enplace.InstalledItem{
			Key: "web", Scope: "organisation", Status: status, Error: why, Tools: []enplace.ToolStatus{
				{Name: "npm:there", Requested: "1", Resolved: "1.2.3", Status: enplace.ItemInstalled}, {Name: "npm:gone", Requested: "2", Status: enplace.ItemFailed}},
		}}}
	}
	v := enplace.Computer{ID: "person:ann", State: enplace.ComputerRunning, Sets: []enplace.ComputerSet{
		{Hash: "now", Items: items(enplace.ItemFailed, "npm:gone could not be installed"), Attempts: 2, Conversations: strings.Fields("a b c d e f g h i"), More: 3},
		{Hash: "failed", Items: items(enplace.ItemFailed, "is not shown"), UsedAt: &at}, {Hash: "replaced", Items: items(enplace.ItemPending, "is not shown")},
	}}
	for n := range 11 {
		v.Sets = append(v.Sets, enplace.ComputerSet{Hash: fmt.Sprintf("old-%d", n), AppliedAt: &at, TriedAt: &at})
	}
	var out bytes.Buffer
	printSets(&out, v)
	want := `
set now of a, b, c, d, e, f, g, h and 4 more
complete: -, attempts: 2
ITEM  SCOPE         STATUS  BY      TOOL       REQUESTED  RESOLVED  TOOL STATUS
web   organisation  failed  direct  npm:there  1          1.2.3     installed
web   organisation  failed  direct  npm:gone   2          -         failed
web of organisation: npm:gone could not be installed

OTHER SETS  USED                 STATE
failed      ` + ago(at) + `  failed
replaced    -                    incomplete
`
	for n := range 8 {
		want += fmt.Sprintf("old-%d       %s  complete\n", n, ago(at))
	}
	if want += "and 3 used before these\n"; out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

// Of two items that give a tool nothing said whose runs.
func TestExplainedToolSaysWhoOverridesIt(t *testing.T) {
	t.Parallel()
	lock := func(commands ...string) enplace.Override {
		return enplace.Override{Item: "web-tools", Scope: "organisation", Commands: commands}
	}
	node := enplace.ToolStatus{Status: enplace.ItemInstalled, Commands: []string{"node", "npm", "npx"}}
	for want, tool := range map[string]enplace.ExplainedTool{
		"installed": {ToolStatus: node},
		"installed; overridden by web-tools of organisation":          {ToolStatus: node, Overridden: []enplace.Override{lock("node", "npm", "npx")}},
		"installed; npm, npx overridden by web-tools of organisation": {ToolStatus: node, Overridden: []enplace.Override{lock("npm", "npx")}},
		"pending; overridden by web-tools of organisation":            {ToolStatus: enplace.ToolStatus{Status: enplace.ItemPending}, Overridden: []enplace.Override{lock("node")}},
	} {
		if got := standingOf(tool); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
