package enplace

import "slices"

// Membership is the people of each team.
type Membership map[string][]string

// KeyInUse finds the item by which a key is used already along some chain that has the scope: one of the organisation for all;
// of a team's people and of a person's teams for these. It is used whatever the item's mode, and while it is disabled too. A key
// that the scope itself switched off, or a team between it and the organisation, is free for it, unless the organisation locked
// it. Items of the scope itself do not count. Of several the organisation's comes first.
func KeyInUse(scope Scope, key string, items []Item, choices []Choice, teams Membership) (Item, bool) {
	said := saidOf(choices)
	var found Item
	ok := false
	for _, i := range items {
		if i.Key != key || i.Scope == scope || !teams.share(scope, i.Scope) {
			continue
		}
		outer, inner := i.Scope, scope
		if outer.Depth() > inner.Depth() {
			outer, inner = inner, outer
		}
		lockedOut := i.locks() && i.Scope == outer
		if !lockedOut && teams.switchedOff(said, key, outer, inner) {
			continue // the inner one took the key for itself
		}
		if !ok || byScopeAndKey(i.Scope, found.Scope, string(i.Scope), string(found.Scope)) < 0 {
			found, ok = i, true
		}
	}
	return found, ok
}

// switchedOff reports whether an item of the outer scope is in no set that the inner one is part of: what the inner scope says
// of the key counts first, then what the teams between do, along every chain.
func (m Membership) switchedOff(s said, key string, outer, inner Scope) bool {
	switch s.of(inner, key) {
	case ChoiceOff:
		return true
	case ChoiceAdded:
		return false
	}
	if outer != Organisation || inner.Person() == "" {
		return false
	}
	off := false
	for team, people := range m {
		if slices.Contains(people, inner.Person()) {
			if off = s.of(TeamScope(team), key) == ChoiceOff; !off {
				return false
			}
		}
	}
	return off
}

// share reports whether some chain has both scopes.
func (m Membership) share(a, b Scope) bool {
	if a.Depth() > b.Depth() {
		a, b = b, a
	}
	switch {
	case a == Organisation:
		return true
	case a.Depth() == b.Depth():
		return a == b
	}
	return slices.Contains(m[a.Team()], b.Person())
}
