package enplace

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// ResolveSet gives the set of a chain. It is a pure function: the same input gives the same set and hash, in whatever order
// items and choices come.
//
// An item counts when it is enabled and its scope is of the chain. What the nearest scope chose decides whether it is in the
// set, and its mode where none chose; of a locked item nothing but its mode. Where one key is left twice, a locked item wins
// over a nearer one, and a nearer one over the outer.
func ResolveSet(in SetInput) Set {
	set := Set{Chain: in.Chain, Items: []SetItem{}, Base: in.Base, Arch: in.Arch, Mise: in.Mise, Refresh: in.Refresh, Left: []LeftOut{}, Clashes: []Clash{}}
	byKey := map[string][]Item{}
	for _, item := range in.Items {
		switch {
		case !in.Chain.Has(item.Scope):
		case !item.Enabled:
			set.leave(item, "disabled in its scope")
		default:
			if ok, why := in.wants(item); ok {
				byKey[item.Key] = append(byKey[item.Key], item)
			} else {
				set.leave(item, why)
			}
		}
	}
	for _, items := range byKey {
		slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(b.Scope.Depth(), a.Scope.Depth()) })
		used, reason := items[0], "the nearer definition is used"
		if i := slices.IndexFunc(items, Item.locks); i > 0 {
			used, reason = items[i], "the organisation locked its definition"
		}
		set.Items = append(set.Items, SetItem{Definition: used.Definition, Scope: used.Scope})
		for _, unused := range items {
			if unused.Scope != used.Scope {
				set.Clashes = append(set.Clashes, Clash{Key: used.Key, Used: used.Scope, Unused: unused.Scope, Reason: reason})
			}
		}
	}
	set.sort()
	set.Egress = strictestOf(in.Chain, in.Egress)
	set.Hash = set.hash()
	return set
}

// locks reports whether no nearer scope has a say: the organisation alone can lock.
func (i Item) locks() bool { return i.Locked && i.Scope == Organisation }

// wants says whether a chain has an enabled item of it, and why not.
func (in SetInput) wants(item Item) (bool, string) {
	for _, scope := range slices.Backward(in.Chain) {
		state := in.choice(scope, item.Key)
		switch {
		case scope.Depth() < item.Scope.Depth() || state == ChoiceInherit:
		case item.locks() && scope != item.Scope:
		case state == ChoiceAdded:
			return true, ""
		case scope != item.Scope: // its own scope disables it instead, so that "off" is about what is inherited
			return false, fmt.Sprintf("switched off by %s", scope)
		}
	}
	return item.Mode == ItemAdded, "available; no scope of the chain added it"
}

func (in SetInput) choice(scope Scope, key string) ItemChoice {
	for _, c := range in.Choices {
		if c.Scope == scope && c.Key == key {
			return c.State
		}
	}
	return ChoiceInherit
}

func (s *Set) leave(item Item, why string) {
	s.Left = append(s.Left, LeftOut{Key: item.Key, Scope: item.Scope, Reason: why})
}

// sort puts everything in its order: by scope, the outermost first, and then by key.
func (s *Set) sort() {
	slices.SortFunc(s.Items, func(a, b SetItem) int { return byScopeAndKey(a.Scope, b.Scope, a.Key, b.Key) })
	slices.SortFunc(s.Left, func(a, b LeftOut) int { return byScopeAndKey(a.Scope, b.Scope, a.Key, b.Key) })
	slices.SortFunc(s.Clashes, func(a, b Clash) int { return byScopeAndKey(a.Unused, b.Unused, a.Key, b.Key) })
}

func byScopeAndKey(s, t Scope, k, l string) int {
	return cmp.Or(cmp.Compare(s.Depth(), t.Depth()), cmp.Compare(k, l))
}

func strictestOf(chain Chain, of map[Scope]Egress) Egress {
	var all []Egress
	for _, scope := range chain {
		if e, ok := of[scope]; ok {
			all = append(all, e)
		}
	}
	return Strictest(all...)
}

// hash is over what an installation depends on, and over nothing else: two chains with the same items have the same set.
func (s Set) hash() string {
	type file struct {
		Path    string
		Content string
	}
	type item struct {
		Key   string
		Scope Scope
		Files []file
	}
	in := struct {
		Items      []item
		Base       Digest
		Arch, Mise string
		Policy     EgressPolicy
		Hosts      []string
		Refresh    int `json:",omitempty"`
	}{Base: s.Base, Arch: s.Arch, Mise: s.Mise, Policy: s.Egress.Policy, Hosts: s.Egress.Hosts, Refresh: s.Refresh}
	for _, i := range s.Items {
		one := item{Key: i.Key, Scope: i.Scope}
		for _, f := range i.Files {
			one.Files = append(one.Files, file(f))
		}
		in.Items = append(in.Items, one)
	}
	return hashOf(in)
}

// Hash names a definition by its files.
func (d Definition) Hash() string { return hashOf(d.Files) }

func hashOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers of our own
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Prepared reports whether a set gets a bundle: one with items, whose installation may reach what it likes. Where egress is
// restricted computers install directly, each under the policy in force.
func (s Set) Prepared() (bool, string) {
	switch {
	case len(s.Items) == 0:
		return false, "the set has no items"
	case s.Egress.Policy != EgressOpen:
		return false, "the egress of the chain is restricted, so computers install directly"
	}
	return true, ""
}
