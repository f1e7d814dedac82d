package pkgindex

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// npmRange is a range of node-semver: one of the sets must hold, and of a set each comparator. Masterminds/semver compares
// versions here but does not read ranges: its rules for spaces, for partial versions and for pre-releases are not npm's.
type npmRange [][]npmComparator

type npmComparator struct {
	op string // <, <=, >, >=, =
	v  *semver.Version
}

const npmPartial = `v?(\d{1,16}|[xX*])(?:\.(\d{1,16}|[xX*])(?:\.(\d{1,16}|[xX*])(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?)?)?`

var (
	npmHyphen   = regexp.MustCompile(`^` + npmPartial + `\s+-\s+` + npmPartial + `$`)
	npmToken    = regexp.MustCompile(`^(>=|<=|>|<|=|~>|~|\^|)` + npmPartial + `$`)
	npmOpSpaces = regexp.MustCompile(`(>=|<=|~>|[><=~^])\s+`)
)

// partial is a version with its last numbers left open: n of them are there.
type partial struct {
	num [3]uint64
	n   int
	pre string
}

func toPartial(m []string) partial {
	var p partial
	for _, s := range m[:3] {
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return p
		}
		p.num[p.n] = v
		p.n++
	}
	p.pre = m[3]
	return p
}

// at gives the version with zeros for what is open.
func (p partial) at() *semver.Version { return semver.New(p.num[0], p.num[1], p.num[2], p.pre, "") }

// next gives the lowest version above all that share the first n numbers.
func (p partial) next(n int) *semver.Version {
	var num [3]uint64
	copy(num[:], p.num[:n])
	num[n-1]++
	return semver.New(num[0], num[1], num[2], "0", "")
}

// parseNPMRange reads a range, and reports false for what is none, such as a tag.
func parseNPMRange(s string) (npmRange, bool) {
	var r npmRange
	for set := range strings.SplitSeq(s, "||") {
		set = strings.TrimSpace(set)
		if m := npmHyphen.FindStringSubmatch(set); m != nil {
			r = append(r, append(comparators(">=", toPartial(m[1:5])), comparators("<=", toPartial(m[5:9]))...))
			continue
		}
		cs := []npmComparator{}
		for _, token := range strings.Fields(npmOpSpaces.ReplaceAllString(set, "$1")) {
			m := npmToken.FindStringSubmatch(token)
			if m == nil {
				return nil, false
			}
			cs = append(cs, comparators(m[1], toPartial(m[2:6]))...)
		}
		r = append(r, cs)
	}
	return r, true
}

// comparators spells an operator out (node-semver, "Advanced Range Syntax").
func comparators(op string, p partial) []npmComparator {
	if p.n == 0 {
		if op == "<" || op == ">" {
			return []npmComparator{{"<", semver.New(0, 0, 0, "0", "")}}
		}
		return nil
	}
	from := npmComparator{">=", p.at()}
	below := func(n int) npmComparator { return npmComparator{"<", p.next(n)} }
	switch op {
	case "~", "~>":
		return []npmComparator{from, below(min(p.n, 2))}
	case "^":
		n := 1
		for n < p.n && p.num[n-1] == 0 {
			n++
		}
		return []npmComparator{from, below(n)}
	case ">=":
		return []npmComparator{from}
	}
	if p.n == 3 {
		if op == "" {
			op = "="
		}
		return []npmComparator{{op, p.at()}}
	}
	switch op {
	case ">":
		next := p.next(p.n)
		return []npmComparator{{">=", semver.New(next.Major(), next.Minor(), next.Patch(), "", "")}}
	case "<":
		return []npmComparator{{"<", semver.New(p.num[0], p.num[1], p.num[2], "0", "")}}
	case "<=":
		return []npmComparator{below(p.n)}
	}
	return []npmComparator{from, below(p.n)} // = and nothing
}

func (r npmRange) holds(v *semver.Version) bool {
	for _, set := range r {
		if holdsAll(set, v) {
			return true
		}
	}
	return false
}

// holdsAll lets a pre-release in only where the set names one of the same three numbers.
func holdsAll(set []npmComparator, v *semver.Version) bool {
	named := v.Prerelease() == ""
	for _, c := range set {
		if !c.holds(v) {
			return false
		}
		named = named || c.v.Prerelease() != "" && c.v.Major() == v.Major() && c.v.Minor() == v.Minor() && c.v.Patch() == v.Patch()
	}
	return named
}

func (c npmComparator) holds(v *semver.Version) bool {
	order := v.Compare(c.v)
	switch c.op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	}
	return order == 0
}
