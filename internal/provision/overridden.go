package provision

import (
	"slices"

	"enplace"
	"enplace/internal/mise"
)

// Overridden gives the items of a set whose commands run instead of a tool's, by VersionKey, the one heard last at the end. items
// are how the set's stand. It goes by the rule of the shims; a tool that is not there has the commands that its name promises.
func Overridden(set enplace.Set, items []enplace.InstalledItem) map[string][]enplace.Override {
	ranked := slices.Clone(set.Items)
	slices.SortStableFunc(ranked, enplace.ByPrecedence)
	type claim struct {
		item  enplace.SetItem
		tools map[string][]string // commands by tool
	}
	var claims []claim
	command, named := map[string]int{}, map[string]int{} // whose is heard last, by command and by tool
	for n, item := range ranked {
		c := claim{item, map[string][]string{}}
		for _, d := range item.Tools {
			c.tools[d.Name] = claimed(item, d.Name, items)
			named[d.Name] = n
			for _, name := range c.tools[d.Name] {
				command[name] = n
			}
		}
		claims = append(claims, c)
	}
	all := map[string][]enplace.Override{}
	for n, c := range claims {
		for tool, commands := range c.tools {
			by := map[int][]string{}
			if other := named[tool]; other != n {
				by[other] = []string{}
			}
			for _, name := range commands {
				if other := command[name]; other != n {
					by[other] = append(by[other], name)
				}
			}
			for other, o := range claims {
				if taken, ok := by[other]; ok {
					key := VersionKey(c.item.Scope, c.item.Key, tool)
					all[key] = append(all[key], enplace.Override{Item: o.item.Key, Scope: o.item.Scope, Commands: taken})
				}
			}
		}
	}
	return all
}

// claimed gives the commands of a tool of an item, ordered.
func claimed(item enplace.SetItem, tool string, items []enplace.InstalledItem) (commands []string) {
	for _, i := range items {
		for _, t := range i.Tools {
			if i.Key == item.Key && i.Scope == item.Scope && t.Name == tool {
				commands = append(commands, t.Commands...)
			}
		}
	}
	if len(commands) == 0 {
		commands = mise.Guess(tool)
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}
