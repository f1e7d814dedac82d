package enplace_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"enplace"
)

func TestStrictest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   []enplace.Egress
		want enplace.Egress
	}{
		{nil, open},
		{[]enplace.Egress{open, open}, open},
		{[]enplace.Egress{{Policy: enplace.EgressOpen, Hosts: []string{"x"}}}, open},
		{[]enplace.Egress{none, open, allow("a.org")}, none},
		{[]enplace.Egress{{}, allow("a.org")}, none},
		{[]enplace.Egress{allow("a.org"), {}}, none},
		{[]enplace.Egress{allow()}, allow()},
		{[]enplace.Egress{allow([]string{}...), allow("a.org")}, allow()},
		{[]enplace.Egress{allow("b.org", "a.org", "B.org.", "a.org")}, allow("a.org", "b.org")},
		{[]enplace.Egress{allow("*.a.org", "x.a.org", "*.b.a.org", "a.org")}, allow("*.a.org", "a.org")},
		{[]enplace.Egress{allow("a.org"), allow("a.org")}, allow("a.org")},
		{[]enplace.Egress{allow("a.org"), allow("b.org")}, allow()},
		{[]enplace.Egress{allow("x.a.org"), allow("*.a.org")}, allow("x.a.org")},
		{[]enplace.Egress{allow("a.org"), allow("*.a.org")}, allow()}, // a wildcard is for what is below
		{[]enplace.Egress{allow("*.a.org"), allow("*.a.org")}, allow("*.a.org")},
		{[]enplace.Egress{allow("*.a.org"), allow("*.b.a.org")}, allow("*.b.a.org")},
		{[]enplace.Egress{allow("*.A.org."), allow("*.b.a.ORG")}, allow("*.b.a.org")},
		{[]enplace.Egress{allow("*.a.org"), allow("*.ba.org", "xa.org")}, allow()}, // ends alike, and lies elsewhere
		{[]enplace.Egress{allow("*.org"), allow("*.a.org", "b.org"), allow("x.a.org", "b.org", "c.org")}, allow("b.org", "x.a.org")},
		{[]enplace.Egress{allow("10.0.0.1"), allow("10.0.0.1", "::1")}, allow("10.0.0.1")},
	} {
		for _, of := range [][]enplace.Egress{c.of, reversed(c.of)} {
			if got := enplace.Strictest(of...); got.Policy != c.want.Policy || !slices.Equal(got.Hosts, c.want.Hosts) || got.Hosts != nil && len(got.Hosts) == 0 {
				t.Errorf("of %v: %v; want %v", of, got, c.want)
			}
		}
	}
}

// The strictest of some policies lets a host through exactly when each of them does.
func TestStrictestAllowsWhatAllAllow(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	labels := []string{"a", "B", "c.d", "d", "org"}
	host := func() string {
		var parts []string
		for range 1 + random.IntN(4) {
			parts = append(parts, labels[random.IntN(len(labels))])
		}
		return strings.Join(parts, ".") + strings.Repeat(".", random.IntN(2))
	}
	for range 3000 {
		var policies []enplace.Egress
		for range 1 + random.IntN(3) {
			p := allow()
			for range random.IntN(6) {
				p.Hosts = append(p.Hosts, strings.Repeat("*.", random.IntN(2))+host())
			}
			policies = append(policies, p)
		}
		strictest := enplace.Strictest(policies...)
		for range 20 {
			h := host()
			all := !slices.ContainsFunc(policies, func(p enplace.Egress) bool { return !p.Allows(h) })
			if strictest.Allows(h) != all {
				t.Fatalf("%v of %v: %q is let through: %t; by all of them: %t", strictest, policies, h, strictest.Allows(h), all)
			}
		}
	}
}

func reversed(of []enplace.Egress) []enplace.Egress {
	r := slices.Clone(of)
	slices.Reverse(r)
	return r
}
