package enplace

import "slices"

// Membership is the people of each team.
type Membership map[string][]string

// KeyInUse finds the item by which a key is used already along some chain that has the scope: one of the organisation for all;
// of a team's people and of a person's teams for these. A key that the scope itself switched off is free for it, unless the
// organisation locked it. Items of the scope itself do not count. Of several the organisation's comes first.
func KeyInUse(scope Scope, key string, items []Item, choices []Choice, teams Membership) (Item, bool) {
	off := slices.Contains(choices, Choice{Scope: scope, Key: key, State: ChoiceOff})
	var found Item
	ok := false
	for _, i := range items {
		if i.Key != key || i.Scope == scope || !teams.share(scope, i.Scope) {
			continue
		}
		inherited := i.Scope.Depth() < scope.Depth()
		if inherited && off && !i.locks() {
			continue
		}
		// A nearer scope that switched this one's key off has taken it for itself.
		if !inherited && slices.Contains(choices, Choice{Scope: i.Scope, Key: key, State: ChoiceOff}) {
			continue
		}
		if !ok || i.Scope.Depth() < found.Scope.Depth() {
			found, ok = i, true
		}
	}
	return found, ok
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
