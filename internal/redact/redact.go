// Package redact takes secrets out of logs before they are stored: values that are known to be secret, in the spellings that
// tools print them in, and what looks like a credential wherever it comes from. It is one pass over the bytes without regular
// expressions, so that no input makes it slow and ordinary output costs next to nothing. It guards against accidents; a
// program that means to print a secret in disguise can.
package redact

import (
	"cmp"
	"slices"
)

// mark stands in the place of a secret.
const mark = "[redacted]"

// Redactor finds secrets. It is safe for concurrent use.
type Redactor struct {
	starts [1 << 10]uint64 // a bit for every two bytes that a rule or a value begins with
	rules  [256][]*rule    // by first byte
	values [256][]string   // by first byte, longest first
}

// span is a stretch to hide.
type span struct{ from, to int }

// New makes a redactor that hides the given values beside what the rules find. Values shorter than six bytes are ignored: they
// would hide ordinary words. Of a value with several lines each line is hidden, too.
func New(values ...string) *Redactor {
	r := &Redactor{}
	for i := range rules {
		rule := &rules[i]
		for _, first := range bothCases(rule.anchor[0], rule.fold) {
			r.rules[first] = append(r.rules[first], rule)
			for _, second := range bothCases(rule.anchor[1], rule.fold) {
				r.begin(first, second)
			}
		}
	}
	for _, v := range spellings(values) {
		r.values[v[0]] = append(r.values[v[0]], v)
		r.begin(v[0], v[1])
	}
	for _, vs := range r.values {
		slices.SortFunc(vs, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	}
	return r
}

func (r *Redactor) begin(first, second byte) {
	i := int(first)<<8 | int(second)
	r.starts[i>>6] |= 1 << (i & 63)
}

func bothCases(c byte, fold bool) []byte {
	if fold && c >= 'a' && c <= 'z' {
		return []byte{c, c - 'a' + 'A'}
	}
	return []byte{c}
}

// Bytes gives p with each secret replaced by "[redacted]". Where there is none it gives p itself, and allocates nothing.
func (r *Redactor) Bytes(p []byte) []byte {
	var room [16]span
	spans := r.find(p, room[:0])
	if len(spans) == 0 {
		return p
	}
	return hide(p, spans)
}

// find appends the stretches of p to hide, ordered and apart from each other. Inside what a rule hides no other rule is
// tried, lest a hostile line cost more than its length; a known value may begin there and reach beyond.
func (r *Redactor) find(p []byte, spans []span) []span {
	quiet := 0
	var pair uint16 // the byte before and this one
	for next, c := range p {
		pair = pair<<8 | uint16(c)
		if r.starts[pair>>6]&(1<<(pair&63)) == 0 || next == 0 {
			continue
		}
		i := next - 1
		for _, v := range r.values[p[i]] {
			if len(v) <= len(p)-i && string(p[i:i+len(v)]) == v {
				spans = append(spans, span{i, i + len(v)})
				break
			}
		}
		if i < quiet {
			continue
		}
		for _, rule := range r.rules[p[i]] {
			if !rule.begins(p[i:]) {
				continue
			}
			if from, to := rule.match(p, i, i+len(rule.anchor)); to > from {
				spans = append(spans, span{from, to})
				if !rule.within {
					quiet = to
				}
			}
			break
		}
	}
	return merge(spans)
}

func merge(spans []span) []span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		if s.from > last.to {
			out = append(out, s)
			continue
		}
		last.to = max(last.to, s.to)
	}
	return out
}

func hide(p []byte, spans []span) []byte {
	out := make([]byte, 0, len(p)+len(mark))
	at := 0
	for _, s := range spans {
		out = append(out, p[at:s.from]...)
		out = append(out, mark...)
		at = s.to
	}
	return append(out, p[at:]...)
}
