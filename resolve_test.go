package enplace_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"enplace"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	org = enplace.Organisation
	web = enplace.Scope("team:web")
	ops = enplace.Scope("team:ops")
	ann = enplace.Scope("person:ann")
	bob = enplace.Scope("person:bob")
)

// item makes an added item that is enabled.
func item(scope enplace.Scope, key string, change ...func(*enplace.Item)) enplace.Item {
	i := enplace.Item{Scope: scope, Mode: enplace.ItemAdded, Enabled: true, Definition: enplace.Definition{Key: key, Name: key, Description: key,
		Files: []enplace.ItemFile{{Path: "environment.json", Content: `{"description": "` + key + `"}`}, {Path: "mise.toml", Content: "[tools]\n" + key + " = \"1\"\n"}}}}
	for _, c := range change {
		c(&i)
	}
	return i
}

func available(i *enplace.Item) { i.Mode = enplace.ItemAvailable }
func disabled(i *enplace.Item)  { i.Enabled = false }
func locked(i *enplace.Item)    { i.Locked = true }
func content(s string) func(*enplace.Item) {
	return func(i *enplace.Item) { i.Files[1].Content = s }
}

func added(scope enplace.Scope, key string) enplace.Choice {
	return enplace.Choice{Scope: scope, Key: key, State: enplace.ChoiceAdded}
}

func off(scope enplace.Scope, key string) enplace.Choice {
	return enplace.Choice{Scope: scope, Key: key, State: enplace.ChoiceOff}
}

func inherit(scope enplace.Scope, key string) enplace.Choice {
	return enplace.Choice{Scope: scope, Key: key, State: enplace.ChoiceInherit}
}

func allow(hosts ...string) enplace.Egress {
	return enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: hosts}
}

var (
	open = enplace.Egress{Policy: enplace.EgressOpen}
	none = enplace.Egress{Policy: enplace.EgressNone}
)

type (
	items   = []enplace.Item
	choices = []enplace.Choice
	egress  = map[enplace.Scope]enplace.Egress
)

// chains are the conversations that the golden file pins.
var chains = map[string]enplace.SetInput{
	"01 nothing declared":                                   {Chain: enplace.NewChain("", "")},
	"02 order: scopes from the outside, keys within":        {Chain: enplace.NewChain("web", "ann"), Items: items{item(ann, "a"), item(web, "b"), item(org, "c"), item(ann, "z"), item(web, "a-b"), item(org, "b-b"), item(org, "10"), item(org, "9")}},
	"03 a person in no team":                                {Chain: enplace.NewChain("", "ann"), Items: items{item(org, "a"), item(web, "b"), item(ann, "c"), item(bob, "d")}},
	"04 a person in a team":                                 {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a"), item(web, "b"), item(ops, "x"), item(ann, "c"), item(bob, "d")}},
	"05 a room of the organisation":                         {Chain: enplace.NewChain("", ""), Items: items{item(org, "a"), item(web, "b"), item(ann, "c")}},
	"06 a room of a team":                                   {Chain: enplace.NewChain("web", ""), Items: items{item(org, "a"), item(web, "b"), item(ops, "x"), item(ann, "c")}},
	"07 available, and nobody added it":                     {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a", available), item(web, "b", available), item(ann, "c", available)}},
	"08 available, added by its own scope":                  {Chain: enplace.NewChain("", ""), Items: items{item(org, "a", available)}, Choices: choices{added(org, "a")}},
	"09 available, added by a team":                         {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a", available)}, Choices: choices{added(web, "a"), added(ops, "b")}},
	"10 available, added by another team":                   {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a", available)}, Choices: choices{added(ops, "a")}},
	"11 available, added by a person":                       {Chain: enplace.NewChain("web", "ann"), Items: items{item(web, "b", available)}, Choices: choices{added(ann, "b")}},
	"12 added by a scope further out than the item's":       {Chain: enplace.NewChain("web", "ann"), Items: items{item(ann, "c", available)}, Choices: choices{added(org, "c"), added(web, "c")}},
	"13 off by a team":                                      {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a")}, Choices: choices{off(web, "a")}},
	"14 off by a team, added again by the person":           {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a")}, Choices: choices{off(web, "a"), added(ann, "a")}},
	"15 added by a team, off by the person":                 {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a", available)}, Choices: choices{added(web, "a"), off(ann, "a")}},
	"16 off for its own scope is no choice":                 {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a"), item(web, "b"), item(ann, "c")}, Choices: choices{off(org, "a"), off(web, "b"), off(ann, "c")}},
	"17 inherit is the absence of a choice":                 {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a"), item(org, "b", available)}, Choices: choices{off(web, "a"), inherit(ann, "a"), inherit(ann, "b")}},
	"18 disabled":                                           {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a", disabled), item(web, "b", disabled)}, Choices: choices{added(ann, "a"), added(ann, "b")}},
	"19 locked: nobody switches it off":                     {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a", locked)}, Choices: choices{off(web, "a"), off(ann, "a")}},
	"20 locked and available: nobody switches it on":        {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a", locked, available)}, Choices: choices{added(web, "a"), added(ann, "a")}},
	"21 locked and available, added by the organisation":    {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a", locked, available)}, Choices: choices{added(org, "a"), off(ann, "a")}},
	"22 a lock of a team is none":                           {Chain: enplace.NewChain("web", "ann"), Items: items{item(web, "b", locked)}, Choices: choices{off(ann, "b")}},
	"23 clash after a move: the nearer wins":                {Chain: enplace.NewChain("web", "ann"), Items: items{item(web, "a"), item(ann, "a", content("[tools]\na = \"2\"\n"))}},
	"24 clash of three":                                     {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a"), item(web, "a"), item(ann, "a")}},
	"25 clash with a locked one: that wins":                 {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a", locked), item(web, "a"), item(ann, "a")}},
	"26 locked and in no set: its key is nobody's":          {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a", locked, available), item(web, "a"), item(org, "b", locked, disabled), item(ann, "b")}},
	"27 a clash that a choice settles":                      {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a"), item(web, "a")}, Choices: choices{off(web, "a")}},
	"28 switched off by the person, whose key it is now":    {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a"), item(ann, "a")}, Choices: choices{off(ann, "a")}},
	"29 switched off by a team and used by a person":        {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a"), item(ann, "a")}, Choices: choices{off(web, "a")}},
	"30 a key of the team, switched off by the person":      {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a"), item(web, "a")}, Choices: choices{off(web, "a"), off(ann, "a")}},
	"31 the nearer one is in no set: the outer is used":     {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a"), item(web, "a", available), item(org, "b"), item(ann, "b", disabled)}},
	"32 added for one key, both get it, the nearer is used": {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a", available), item(web, "a", available)}, Choices: choices{added(ann, "a")}},
	"33 egress: none is strictest":                          {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a")}, Egress: egress{org: open, web: none, ann: allow("example.org")}},
	"34 egress: of scopes of the chain only":                {Chain: enplace.NewChain("web", ""), Items: items{item(org, "a")}, Egress: egress{org: open, ops: none, ann: none}},
	"35 egress: one allow-list":                             {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a")}, Egress: egress{web: allow("b.example.org", "A.example.org.", "a.example.org")}},
	"36 egress: what two lists both allow":                  {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a")}, Egress: egress{org: allow("*.example.org", "pypi.org"), web: allow("git.example.org", "*.cdn.example.org", "example.org", "npmjs.org"), ann: open}},
	"37 egress: two lists that share nothing":               {Chain: enplace.NewChain("web", ""), Items: items{item(org, "a")}, Egress: egress{org: allow("a.org"), web: allow("b.org")}},
	"38 egress: a policy that is not known":                 {Chain: enplace.NewChain("web", ""), Items: items{item(org, "a")}, Egress: egress{org: allow("a.org"), web: {Policy: "later"}}},
	"39 refreshed":                                          {Chain: enplace.NewChain("", ""), Items: items{item(org, "a")}, Refresh: 1},
	"40 the same items in another chain are the same set":   {Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a")}},
}

func resolve(in enplace.SetInput) enplace.Set {
	if in.Base == "" {
		in.Base, in.Arch, in.Mise = enplace.DigestOf([]byte("base")), "amd64", "2026.9.15"
	}
	return enplace.ResolveSet(in)
}

// tell writes a set as the golden file has it.
func tell(s enplace.Set) string {
	var b strings.Builder
	fmt.Fprintf(&b, "reads    %s\n", strings.Join(slices.Collect(func(yield func(string) bool) {
		for _, scope := range s.Chain {
			yield(string(scope))
		}
	}), ", "))
	for _, i := range s.Items {
		fmt.Fprintf(&b, "has      %s of %s\n", i.Key, i.Scope)
	}
	for _, l := range s.Left {
		fmt.Fprintf(&b, "left out %s of %s: %s\n", l.Key, l.Scope, l.Reason)
	}
	for _, c := range s.Clashes {
		fmt.Fprintf(&b, "clash    %s: of %s and not of %s: %s\n", c.Key, c.Used, c.Unused, c.Reason)
	}
	prepared, why := s.Prepared()
	fmt.Fprintf(&b, "egress   %s %s\nprepared %t %s\nhash     %s\n", s.Egress.Policy, strings.Join(s.Egress.Hosts, " "), prepared, why, s.Hash)
	return b.String()
}

func TestSets(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(chains)) {
		fmt.Fprintf(&got, "== %s\n%s\n", name, tell(resolve(chains[name])))
	}
	file := filepath.Join("testdata", "sets.golden")
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, section := range strings.Split(string(want), "\n== ") {
		if sections := strings.Split(got.String(), "\n== "); i >= len(sections) || sections[i] != section {
			t.Errorf("%s differs (a hash that changes makes every set anew; run with -update if that is meant):\nwant %s\ngot %s", file, section, sections[min(i, len(sections)-1)])
		}
	}
}

// The order in which items, choices and files come is nobody's statement.
func TestSetsHeedNoOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for name, in := range chains {
		want := tell(resolve(in))
		for range 20 {
			in.Items, in.Choices = slices.Clone(in.Items), slices.Clone(in.Choices)
			random.Shuffle(len(in.Items), func(i, j int) { in.Items[i], in.Items[j] = in.Items[j], in.Items[i] })
			random.Shuffle(len(in.Choices), func(i, j int) { in.Choices[i], in.Choices[j] = in.Choices[j], in.Choices[i] })
			for i := range in.Items {
				in.Items[i].Files = slices.Clone(in.Items[i].Files)
				slices.Reverse(in.Items[i].Files)
			}
			if got := tell(resolve(in)); got != want {
				t.Fatalf("%s: in another order\n%s", name, got)
			}
		}
	}
}

// Whatever is declared: a set has a key once, and each item of the chain is in it, left out or in a clash.
func TestSetsAccountForEveryItem(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(all ...enplace.Scope) enplace.Scope { return all[random.IntN(len(all))] }
	for range 2000 {
		in := enplace.SetInput{Chain: enplace.NewChain([]string{"", "web"}[random.IntN(2)], []string{"", "ann"}[random.IntN(2)]), Egress: egress{}}
		seen := map[string]bool{}
		for range random.IntN(10) {
			i := item(pick(org, web, ops, ann, bob), string(rune('a'+random.IntN(4))))
			i.Enabled, i.Locked = random.IntN(4) > 0, random.IntN(4) == 0
			i.Mode = []enplace.ItemMode{enplace.ItemAdded, enplace.ItemAvailable}[random.IntN(2)]
			if at := string(i.Scope) + i.Key; !seen[at] {
				seen[at] = true
				in.Items = append(in.Items, i)
			}
		}
		for range random.IntN(10) {
			c := added(pick(org, web, ops, ann, bob), string(rune('a'+random.IntN(4))))
			c.State = []enplace.ItemChoice{enplace.ChoiceAdded, enplace.ChoiceOff, enplace.ChoiceInherit}[random.IntN(3)]
			in.Choices = append(in.Choices, c)
		}
		s := resolve(in)
		keys := map[string]bool{}
		for _, i := range s.Items {
			if keys[i.Key] {
				t.Fatalf("%s twice in %s", i.Key, tell(s))
			}
			keys[i.Key] = true
		}
		for _, i := range in.Items {
			n := 0
			for _, has := range s.Items {
				n += count(has.Key == i.Key && has.Scope == i.Scope)
			}
			for _, l := range s.Left {
				n += count(l.Key == i.Key && l.Scope == i.Scope)
			}
			for _, c := range s.Clashes {
				n += count(c.Key == i.Key && c.Unused == i.Scope)
			}
			if n != count(in.Chain.Has(i.Scope)) {
				t.Fatalf("%s of %s is accounted for %d times in\n%s", i.Key, i.Scope, n, tell(s))
			}
			if i.Locked && i.Scope == org && keys[i.Key] != (i.Enabled && (i.Mode == enplace.ItemAdded || slices.Contains(in.Choices, added(org, i.Key)) && !slices.Contains(in.Choices, off(org, i.Key)))) {
				t.Fatalf("the locked %s is in the set or not, against what the organisation says:\n%+v\n%s", i.Key, in.Choices, tell(s))
			}
		}
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The hash names what an installation depends on: any change of it, and nothing else.
func TestHashOfASet(t *testing.T) {
	t.Parallel()
	plain := func() enplace.SetInput {
		return enplace.SetInput{Chain: enplace.NewChain("web", "ann"), Items: items{item(org, "a"), item(web, "b")}, Egress: egress{org: allow("example.org")},
			Base: enplace.DigestOf([]byte("base")), Arch: "amd64", Mise: "2026.9.15"}
	}
	want := resolve(plain()).Hash
	for name, change := range map[string]func(*enplace.SetInput){
		"a file":               func(in *enplace.SetInput) { in.Items[1].Files[1].Content += "\n" },
		"the name of a file":   func(in *enplace.SetInput) { in.Items[1].Files[1].Path = "setup.sh" },
		"a file more":          func(in *enplace.SetInput) { in.Items[1].Files = append(in.Items[1].Files, enplace.ItemFile{Path: "x"}) },
		"a key":                func(in *enplace.SetInput) { in.Items[1].Key = "c" },
		"the scope of an item": func(in *enplace.SetInput) { in.Items[1].Scope = ann },
		"an item more":         func(in *enplace.SetInput) { in.Items = append(in.Items, item(ann, "c")) },
		"an item less":         func(in *enplace.SetInput) { in.Items[1].Enabled = false },
		"the base":             func(in *enplace.SetInput) { in.Base = enplace.DigestOf(nil) },
		"the architecture":     func(in *enplace.SetInput) { in.Arch = "arm64" },
		"mise":                 func(in *enplace.SetInput) { in.Mise = "2026.9.16" },
		"the policy":           func(in *enplace.SetInput) { in.Egress[web] = none },
		"a host":               func(in *enplace.SetInput) { in.Egress[org] = allow("example.com") },
		"a refresh":            func(in *enplace.SetInput) { in.Refresh++ },
		"a file moved elsewhere": func(in *enplace.SetInput) {
			in.Items[1].Files[1].Content, in.Items[0].Files[1].Content = in.Items[0].Files[1].Content, in.Items[1].Files[1].Content
		},
	} {
		in := plain()
		change(&in)
		if resolve(in).Hash == want {
			t.Errorf("%s changes nothing", name)
		}
	}
	for name, change := range map[string]func(*enplace.SetInput){
		"the chain, when its scopes give nothing": func(in *enplace.SetInput) { in.Chain = enplace.NewChain("web", "") },
		"an item that is left out":                func(in *enplace.SetInput) { in.Items = append(in.Items, item(ann, "c", available)) },
		"a description and name":                  func(in *enplace.SetInput) { in.Items[0].Name, in.Items[0].Description = "x", "x" },
		"who says what a set has": func(in *enplace.SetInput) {
			in.Items[0].Mode = enplace.ItemAvailable
			in.Choices = choices{added(ann, "a")}
		},
		"a lock":                func(in *enplace.SetInput) { in.Items[0].Locked = true },
		"the writing of a host": func(in *enplace.SetInput) { in.Egress[org] = allow("Example.org.", "example.org") },
		"where the policy comes from": func(in *enplace.SetInput) {
			in.Egress = egress{ann: allow("example.org"), org: open, web: allow("example.org")}
		},
	} {
		in := plain()
		change(&in)
		if got := resolve(in); got.Hash != want {
			t.Errorf("%s changes the hash:\n%s", name, tell(got))
		}
	}
}

func TestKeyInUse(t *testing.T) {
	t.Parallel()
	teams := enplace.Membership{"web": {"ann", "bob"}, "ops": {"bob"}}
	cat, none := enplace.Scope("person:cat"), enplace.Scope("")
	for name, c := range map[string]struct {
		scope   enplace.Scope
		items   items
		choices choices
		want    enplace.Scope // of the item that has the key; none when it is free
	}{
		"nothing declared":                            {org, nil, nil, none},
		"another key":                                 {web, items{item(org, "b")}, nil, none},
		"its own":                                     {web, items{item(web, "a")}, nil, none},
		"the organisation's, for a team":              {web, items{item(org, "a")}, nil, org},
		"the organisation's, for a person":            {ann, items{item(org, "a")}, nil, org},
		"a team's, for the organisation":              {org, items{item(web, "a")}, nil, web},
		"a person's, for the organisation":            {org, items{item(cat, "a")}, nil, cat},
		"a person's, for their team":                  {web, items{item(ann, "a")}, nil, ann},
		"a person's, for another team":                {ops, items{item(ann, "a")}, nil, none},
		"a team's, for its person":                    {bob, items{item(ops, "a")}, nil, ops},
		"a team's, for another's person":              {ann, items{item(ops, "a")}, nil, none},
		"another team's":                              {web, items{item(ops, "a")}, nil, none},
		"another person's":                            {ann, items{item(bob, "a")}, nil, none},
		"of several, the outermost":                   {bob, items{item(web, "a"), item(ops, "a"), item(org, "a")}, nil, org},
		"of two teams, the first by name":             {bob, items{item(web, "a"), item(ops, "a")}, nil, ops},
		"available":                                   {web, items{item(org, "a", available)}, nil, org},
		"disabled":                                    {web, items{item(org, "a", disabled)}, nil, org},
		"switched off by the team":                    {web, items{item(org, "a")}, choices{off(web, "a")}, none},
		"switched off by another team":                {web, items{item(org, "a")}, choices{off(ops, "a")}, org},
		"inherited as if nothing were said":           {web, items{item(org, "a")}, choices{inherit(web, "a")}, org},
		"switched off and locked":                     {web, items{item(org, "a", locked)}, choices{off(web, "a")}, org},
		"switched off by the person":                  {ann, items{item(org, "a")}, choices{off(ann, "a")}, none},
		"a team's, switched off by the person":        {ann, items{item(web, "a")}, choices{off(ann, "a")}, none},
		"switched off by the person's one team":       {ann, items{item(org, "a")}, choices{off(web, "a")}, none},
		"switched off by one of the person's teams":   {bob, items{item(org, "a")}, choices{off(web, "a")}, org},
		"switched off by all of the person's teams":   {bob, items{item(org, "a")}, choices{off(web, "a"), off(ops, "a")}, none},
		"switched off by the team, added by a person": {ann, items{item(org, "a")}, choices{off(web, "a"), added(ann, "a")}, org},
		"switched off by a team that one is not in":   {cat, items{item(org, "a")}, choices{off(web, "a")}, org},
		"a team's lock is none":                       {ann, items{item(web, "a", locked)}, choices{off(ann, "a")}, none},
		"a nearer one, whose scope switched it off":   {org, items{item(web, "a")}, choices{off(web, "a")}, none},
		"a person's, whose team switched it off":      {org, items{item(ann, "a")}, choices{off(web, "a")}, none},
		"a nearer one beside a free one":              {web, items{item(org, "a"), item(ann, "a")}, choices{off(web, "a")}, ann},
	} {
		got, ok := enplace.KeyInUse(c.scope, "a", c.items, c.choices, teams)
		if got.Scope != c.want || ok != (c.want != none) {
			t.Errorf("%s: %q, %t; want %q", name, got.Scope, ok, c.want)
		}
		slices.Reverse(c.items)
		if again, _ := enplace.KeyInUse(c.scope, "a", c.items, c.choices, teams); again.Scope != got.Scope {
			t.Errorf("%s: %q in another order", name, again.Scope)
		}
	}
}

// A declaration that is let through repeats no key in any set that reads it.
func TestFreeKeysDoNotClash(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	teams := enplace.Membership{"web": {"ann", "bob"}, "ops": {"bob"}}
	everybody := []enplace.Chain{enplace.NewChain("", ""), enplace.NewChain("web", ""), enplace.NewChain("ops", ""), enplace.NewChain("web", "ann"), enplace.NewChain("web", "bob"), enplace.NewChain("ops", "bob"), enplace.NewChain("", "cat")}
	scopes := []enplace.Scope{org, web, ops, ann, bob, "person:cat"}
	free := 0
	for range 3000 {
		in := enplace.SetInput{}
		for range random.IntN(4) {
			scope := scopes[random.IntN(len(scopes))]
			if random.IntN(3) == 0 {
				in.Choices = append(in.Choices, off(scope, "a"))
			}
		}
		for range 3 {
			scope := scopes[random.IntN(len(scopes))]
			if slices.ContainsFunc(in.Items, func(i enplace.Item) bool { return i.Scope == scope }) {
				continue
			}
			if _, used := enplace.KeyInUse(scope, "a", in.Items, in.Choices, teams); used {
				continue
			}
			i := item(scope, "a")
			i.Locked = len(in.Items) == 0 && random.IntN(2) == 0 // a lock that came later takes keys that are used
			in.Items = append(in.Items, i)
			free++
		}
		for _, in.Chain = range everybody {
			if s := resolve(in); len(s.Clashes) > 0 {
				t.Fatalf("%+v\n%s", in.Choices, tell(s))
			}
		}
	}
	if free < 3000 {
		t.Errorf("%d declarations", free)
	}
}
