package enplace

import (
	"slices"
	"strings"
)

// Scope is who declares items: the organisation, a team or a person. It is written "organisation", "team:NAME" or
// "person:LOGIN", in paths and bodies alike.
type Scope string

// Organisation is the outermost scope; a server has one.
const Organisation Scope = "organisation"

// The prefixes of the two other kinds of scope.
const (
	teamPrefix   = "team:"
	personPrefix = "person:"
)

// TeamScope is the scope of a team.
func TeamScope(name string) Scope { return Scope(teamPrefix + name) }

// PersonScope is the scope of a person.
func PersonScope(login string) Scope { return Scope(personPrefix + login) }

// ParseScope reads a scope, and says how one is written when it is none. It does not know whether the team or person exists.
func ParseScope(s string) (Scope, error) {
	scope := Scope(s)
	if scope == Organisation || scope.Team() != "" && CheckHandle("team", scope.Team()) == nil || scope.Person() != "" && CheckLogin(scope.Person()) == nil {
		return scope, nil
	}
	return "", Invalidf("%q is no scope; write organisation, team:NAME or person:LOGIN", Shown(s, 80)).WithField("scope")
}

// Team gives the team's name, or "" for a scope of another kind.
func (s Scope) Team() string { return after(string(s), teamPrefix) }

// Person gives the person's login, or "" for a scope of another kind.
func (s Scope) Person() string { return after(string(s), personPrefix) }

// Depth orders scopes from the outermost: 0 for the organisation, 1 for a team, 2 for a person.
func (s Scope) Depth() int {
	switch {
	case s.Person() != "":
		return 2
	case s.Team() != "":
		return 1
	}
	return 0
}

func after(s, prefix string) string {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return ""
	}
	return rest
}

// Chain is the scopes that a conversation reads, the outermost first: the organisation, then at most one team, then at most one
// person.
type Chain []Scope

// NewChain makes a chain; an empty team or person is left out.
func NewChain(team, person string) Chain {
	c := Chain{Organisation}
	if team != "" {
		c = append(c, TeamScope(team))
	}
	if person != "" {
		c = append(c, PersonScope(person))
	}
	return c
}

// Has reports whether the chain reads a scope.
func (c Chain) Has(s Scope) bool { return slices.Contains(c, s) }

// MaxHandleLength bounds the names of teams, people, rooms and conversations, and the keys of items.
const MaxHandleLength = 63

// CheckLogin refuses what cannot be a person's login: 1 to 63 lower-case letters, digits, dots, hyphens or underscores, a letter
// or digit first.
func CheckLogin(s string) error {
	ok := s != "" && len(s) <= MaxHandleLength && !strings.ContainsAny(s[:1], "._-")
	for _, c := range s {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c))
	}
	if !ok {
		return Invalidf("%q must be 1 to %d lower-case letters, digits, dots, hyphens or underscores, and start with a letter or digit", Shown(s, 80), MaxHandleLength).WithField("person")
	}
	return nil
}

// CheckHandle refuses what cannot be the name of a team, a room or a conversation, or an item's key: 1 to 63
// lower-case letters, digits or hyphens, a letter or digit first. field names it in the error. They are parts of paths, of file
// names and of variables, and are compared as they are.
func CheckHandle(field, s string) error {
	ok := s != "" && len(s) <= MaxHandleLength && s[0] != '-'
	for _, c := range s {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	if !ok {
		return Invalidf("%q must be 1 to %d lower-case letters, digits or hyphens, and start with a letter or digit", Shown(s, 80), MaxHandleLength).WithField(field)
	}
	return nil
}

// Strictest gives the policy that every one of these allows: none before allowlist before open, and of two allow-lists the hosts
// that both let through. Nothing at all is open; a policy that is not known lets nothing through. Hosts come in one form
// (lower case, without a trailing dot, sorted, none that another covers), so that equal policies are equal.
func Strictest(policies ...Egress) Egress {
	out := Egress{Policy: EgressOpen}
	for _, p := range policies {
		switch {
		case p.Policy == EgressOpen:
		case p.Policy != EgressAllowlist || out.Policy == EgressNone:
			out = Egress{Policy: EgressNone}
		case out.Policy == EgressOpen:
			out = Egress{Policy: EgressAllowlist, Hosts: canonicalHosts(p.Hosts)}
		default:
			out.Hosts = bothAllow(out.Hosts, canonicalHosts(p.Hosts))
		}
	}
	return out
}

// bothAllow gives, of two lists in their one form, the entries that the other covers: the narrower of each pair that overlaps.
// Two entries overlap only where one covers the other, since all that a wildcard stands for ends alike.
func bothAllow(a, b []string) []string {
	var both []string
	for _, h := range a {
		if covered(h, b) {
			both = append(both, h)
		}
	}
	for _, h := range b {
		if covered(h, a) {
			both = append(both, h)
		}
	}
	return canonicalHosts(both)
}

// canonicalHosts gives the one form of a list of hosts; nil for an empty one.
func canonicalHosts(hosts []string) []string {
	var all, out []string
	for _, h := range hosts {
		all = append(all, strings.ToLower(strings.TrimSuffix(h, ".")))
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for i, h := range all {
		if !covered(h, slices.Concat(all[:i], all[i+1:])) {
			out = append(out, h)
		}
	}
	return out
}

// covered reports whether one of the hosts lets through all that h does.
func covered(h string, hosts []string) bool {
	name := strings.TrimPrefix(h, "*") // .example.org of a wildcard, which "*.example.org" covers as it does a.example.org
	return slices.ContainsFunc(hosts, func(o string) bool {
		below, wild := strings.CutPrefix(o, "*.")
		return o == h || wild && strings.HasSuffix(name, "."+below)
	})
}
