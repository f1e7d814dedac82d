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
// set, and its mode where none chose; of a locked item nothing but what the organisation says. Where one key is left twice, the
// nearer definition is used. A locked item keeps its key from all nearer ones, also where it is in no set itself.
func ResolveSet(in SetInput) Set {
	set := Set{Chain: in.Chain, Items: []SetItem{}, Base: in.Base, Arch: in.Arch, Mise: in.Mise, Refresh: in.Refresh, Left: []LeftOut{}, Clashes: []Clash{}}
	said, locked := saidOf(in.Choices), lockedKeys(in)
	byKey := map[string][]Item{}
	for _, item := range in.Items {
		if !in.Chain.Has(item.Scope) {
			continue
		}
		ok, why := said.want(in.Chain, item)
		switch {
		case !item.Enabled:
			set.leave(item, "disabled in its scope")
		case !ok:
			set.leave(item, why)
		case locked[item.Key] && !item.locks():
			set.Clashes = append(set.Clashes, Clash{Key: item.Key, Used: Organisation, Unused: item.Scope, Reason: "the organisation locked the key"})
		default:
			byKey[item.Key] = append(byKey[item.Key], item)
		}
	}
	for _, items := range byKey {
		slices.SortFunc(items, nearerFirst)
		used := items[0]
		set.Items = append(set.Items, SetItem{Definition: used.Definition, Scope: used.Scope, Locked: used.locks()})
		for _, unused := range items[1:] {
			set.Clashes = append(set.Clashes, Clash{Key: used.Key, Used: used.Scope, Unused: unused.Scope, Reason: "the nearer definition is used"})
		}
	}
	set.sort()
	set.Egress = strictestOf(in.Chain, in.Egress)
	set.Hash = set.hash()
	return set
}

// nearerFirst orders items of one key. A scope has a key once; should it come twice, content decides and not the order.
func nearerFirst(a, b Item) int {
	if c := cmp.Compare(b.Scope.Depth(), a.Scope.Depth()); c != 0 {
		return c
	}
	return cmp.Compare(a.Hash(), b.Hash())
}

// locks reports whether no nearer scope has a say: the organisation alone can lock.
func (i Item) locks() bool { return i.Locked && i.Scope == Organisation }

func lockedKeys(in SetInput) map[string]bool {
	locked := map[string]bool{}
	for _, item := range in.Items {
		if item.locks() && in.Chain.Has(Organisation) {
			locked[item.Key] = true
		}
	}
	return locked
}

// said is what scopes chose, by scope and key.
type said map[Choice]ItemChoice

// saidOf gathers choices. A scope says one thing of a key; should it say two, off counts.
func saidOf(choices []Choice) said {
	all := said{}
	for _, c := range choices {
		at := Choice{Scope: c.Scope, Key: c.Key}
		if all[at] != ChoiceOff {
			all[at] = c.State
		}
	}
	return all
}

func (s said) of(scope Scope, key string) ItemChoice { return s[Choice{Scope: scope, Key: key}] }

// want says whether a chain has an enabled item of it, and why not.
func (s said) want(chain Chain, item Item) (bool, string) {
	for _, scope := range slices.Backward(chain) {
		if scope.Depth() < item.Scope.Depth() || item.locks() && scope != item.Scope {
			continue
		}
		switch s.of(scope, item.Key) {
		case ChoiceAdded:
			return true, ""
		case ChoiceOff:
			if scope != item.Scope { // its own scope disables it instead, so that "off" is about what is inherited
				return false, fmt.Sprintf("switched off by %s", scope)
			}
		}
	}
	if item.locks() {
		return item.Mode == ItemAdded, "available and locked, so that no other scope can add it"
	}
	return item.Mode == ItemAdded, "available; no scope of the chain added it"
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

// ByPrecedence orders items of a set by what is heard where several give one tool, command, variable or folder: the later ones. It
// is to be used on items in the set's order, by a stable sort: the nearer scope's is heard, and a locked one before all others.
func ByPrecedence(a, b SetItem) int {
	switch {
	case a.Locked == b.Locked:
		return 0
	case a.Locked:
		return 1
	}
	return -1
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

// hash is over what an installation depends on, and over nothing else: two chains with the same items have the same set. A lock
// changes which of them commands get, and not what is installed.
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
		for _, f := range byPath(i.Files) {
			one.Files = append(one.Files, file(f))
		}
		in.Items = append(in.Items, one)
	}
	return hashOf(in)
}

// Hash names a definition by its files.
func (d Definition) Hash() string { return hashOf(byPath(d.Files)) }

// byPath gives files in the order of their paths, which is how hashes name them.
func byPath(files []ItemFile) []ItemFile {
	return slices.SortedFunc(slices.Values(files), func(a, b ItemFile) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Content, b.Content)) })
}

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
