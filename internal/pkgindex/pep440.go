package pkgindex

import (
	"cmp"
	"regexp"
	"strings"
)

// pyVersion is a version by PEP 440, in a form that compares. The rules are written out here because the one Go library for
// them gets specifiers wrong: it admits pre-releases where they are not asked for, and lacks ===.
type pyVersion struct {
	epoch   string // numbers are digits without leading zeros: they may be longer than any integer
	release []string
	pre     string // a, b, rc, or ""
	preN    string
	post    string // "" for none
	dev     string // "" for none
	local   []string
}

var pyVersionForm = regexp.MustCompile(`^v?(?:(\d+)!)?(\d+(?:\.\d+)*)` +
	`(?:[-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?(\d*))?` +
	`(?:-(\d+)|[-_.]?(post|rev|r)[-_.]?(\d*))?` +
	`(?:[-_.]?(dev)[-_.]?(\d*))?` +
	`(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?$`)

var prePhases = map[string]string{"alpha": "a", "a": "a", "beta": "b", "b": "b", "c": "rc", "rc": "rc", "pre": "rc", "preview": "rc"}

func parsePyVersion(s string) (pyVersion, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	if len(s) > 256 {
		return pyVersion{}, false
	}
	m := pyVersionForm.FindStringSubmatch(s)
	if m == nil {
		return pyVersion{}, false
	}
	v := pyVersion{epoch: digits(m[1]), pre: prePhases[m[3]]}
	for part := range strings.SplitSeq(m[2], ".") {
		v.release = append(v.release, digits(part))
	}
	if v.pre != "" {
		v.preN = digits(m[4])
	}
	if m[5] != "" || m[6] != "" {
		v.post = digits(m[5] + m[7])
	}
	if m[8] != "" {
		v.dev = digits(m[9])
	}
	if m[10] != "" {
		v.local = strings.FieldsFunc(m[10], func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	}
	return v, true
}

// digits gives a number without leading zeros; none is 0.
func digits(s string) string {
	if s = strings.TrimLeft(s, "0"); s == "" {
		return "0"
	}
	return s
}

func compareDigits(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

func (v pyVersion) preRelease() bool { return v.pre != "" || v.dev != "" }

// part gives the i-th number of the release, of which there are as many zeros as one likes.
func (v pyVersion) part(i int) string {
	if i < len(v.release) {
		return v.release[i]
	}
	return "0"
}

func (v pyVersion) compareRelease(o pyVersion) int {
	if c := compareDigits(v.epoch, o.epoch); c != 0 {
		return c
	}
	for i := range max(len(v.release), len(o.release)) {
		if c := compareDigits(v.part(i), o.part(i)); c != 0 {
			return c
		}
	}
	return 0
}

// public leaves the local part out.
func (v pyVersion) public() pyVersion { v.local = nil; return v }

// compare orders as PEP 440 does: 1.dev1 < 1a1.dev1 < 1a1 < 1rc1 < 1 < 1+local < 1.post1.dev1 < 1.post1.
func (v pyVersion) compare(o pyVersion) int {
	if c := v.compareRelease(o); c != 0 {
		return c
	}
	if c := cmp.Compare(v.phase(), o.phase()); c != 0 {
		return c
	}
	return cmp.Or(
		compareDigits(v.preN, o.preN),
		compareDigits(v.post, o.post), // none is the empty string, the lowest
		compareDev(v.dev, o.dev),
		compareLocal(v.local, o.local))
}

// phase ranks a bare development release below the pre-releases, and those below the rest.
func (v pyVersion) phase() int {
	switch {
	case v.pre == "" && v.post == "" && v.dev != "":
		return 0
	case v.pre != "":
		return strings.Index("abr", v.pre[:1]) + 1
	}
	return 4
}

func compareDev(a, b string) int {
	if (a == "") != (b == "") {
		if a == "" {
			return 1
		}
		return -1
	}
	return compareDigits(a, b)
}

func compareLocal(a, b []string) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		nx, ny := strings.Trim(x, "0123456789") == "", strings.Trim(y, "0123456789") == ""
		c := cmp.Compare(x, y)
		switch {
		case nx && ny:
			c = compareDigits(digits(x), digits(y))
		case nx:
			c = 1
		case ny:
			c = -1
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// pySpec is a set of clauses that all must hold.
type pySpec []pyClause

type pyClause struct {
	op       string
	text     string
	version  pyVersion
	wildcard bool
}

var pyClauseForm = regexp.MustCompile(`^(===|==|~=|!=|<=|>=|<|>)\s*(.+)$`)

// parsePySpec reads a specifier set. Legacy forms that tools ignore are not read.
func parsePySpec(s string) (pySpec, bool) {
	var spec pySpec
	for text := range strings.SplitSeq(s, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		m := pyClauseForm.FindStringSubmatch(text)
		if m == nil {
			return nil, false
		}
		c := pyClause{op: m[1], text: strings.TrimSpace(m[2])}
		if c.op == "===" {
			spec = append(spec, c)
			continue
		}
		number, wildcard := strings.CutSuffix(c.text, ".*")
		var ok bool
		if c.version, ok = parsePyVersion(number); !ok || wildcard && c.op != "==" && c.op != "!=" {
			return nil, false
		}
		if c.wildcard = wildcard; c.op == "~=" && len(c.version.release) < 2 || wildcard && (c.version.dev != "" || c.version.local != nil) {
			return nil, false
		}
		spec = append(spec, c)
	}
	return spec, true
}

// namesPreRelease reports whether a clause asks for a pre-release, which lets them in.
func (s pySpec) namesPreRelease() bool {
	for _, c := range s {
		if c.op != "!=" && c.op != "===" && c.version.preRelease() || c.op == "===" {
			return true
		}
	}
	return false
}

// pins reports whether the set names one version, which lets a withdrawn one in.
func (s pySpec) pins() bool {
	for _, c := range s {
		if c.op == "===" || c.op == "==" && !c.wildcard {
			return true
		}
	}
	return false
}

// local reports whether a clause names a local version such as 2.6.0+cpu.
func (s pySpec) local() bool {
	for _, c := range s {
		if c.version.local != nil {
			return true
		}
	}
	return false
}

// holds reports whether v, written as raw, is in the set; whether pre-releases are wanted is another question.
func (s pySpec) holds(v pyVersion, raw string) bool {
	for _, c := range s {
		if !c.holds(v, raw) {
			return false
		}
	}
	return true
}

func (c pyClause) holds(v pyVersion, raw string) bool {
	order := v.public().compare(c.version)
	switch c.op {
	case "===":
		return strings.EqualFold(c.text, raw)
	case "==":
		return c.equal(v)
	case "!=":
		return !c.equal(v)
	case "<=":
		return order <= 0
	case ">=":
		return order >= 0
	case "<": // not a pre-release of the version itself
		return v.compare(c.version) < 0 && (c.version.preRelease() || !v.preRelease() || v.compareRelease(c.version) != 0)
	case ">": // nor a post-release or local version of it
		return v.compare(c.version) > 0 && (c.version.post != "" || v.post == "" || v.compareRelease(c.version) != 0) &&
			(v.local == nil || v.compareRelease(c.version) != 0)
	}
	prefix := pyClause{version: pyVersion{epoch: c.version.epoch, release: c.version.release[:len(c.version.release)-1]}, wildcard: true}
	return order >= 0 && prefix.equal(v) // ~=
}

func (c pyClause) equal(v pyVersion) bool {
	if !c.wildcard {
		if c.version.local == nil {
			v = v.public()
		}
		return v.compare(c.version) == 0
	}
	if v.epoch != c.version.epoch {
		return false
	}
	for i, n := range c.version.release {
		if v.part(i) != n {
			return false
		}
	}
	return c.version.pre == "" && c.version.post == "" ||
		v.pre == c.version.pre && v.preN == c.version.preN && (c.version.post == "" || v.post == c.version.post)
}
