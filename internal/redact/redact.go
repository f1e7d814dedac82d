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
	starts [1 << 10]uint64  // a bit for every two bytes that a rule or a value begins with
	rules  [256][]*rule     // by first byte
	values [256][]*spelling // by first byte, longest first
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
		first := v.text[0]
		r.values[first] = append(r.values[first], &v)
		r.begin(first, v.text[1])
		if v.breaks {
			r.begin(first, '\n')
			r.begin(first, '\r')
		}
	}
	for _, vs := range r.values {
		slices.SortFunc(vs, func(a, b *spelling) int { return cmp.Compare(len(b.text), len(a.text)) })
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
func (r *Redactor) Bytes(p []byte) []byte { return r.bytes(p, nil) }

// bytes is Bytes for a part of a text: with what was open before it, and then is at its end.
func (r *Redactor) bytes(p []byte, open *openPieces) []byte {
	var room [16]span
	spans := r.find(p, open.goOn(p, room[:0]), open)
	if len(spans) == 0 {
		return p
	}
	return hide(p, spans)
}

// find appends the stretches of p to hide, ordered and apart from each other. Inside what a rule hides no other rule is
// tried, lest a hostile line cost more than its length; a known value may begin there and reach beyond.
func (r *Redactor) find(p []byte, spans []span, open *openPieces) []span {
	quiet := 0
	broken := followed{left: maxDeadEnds}
	var pair uint16 // the byte before and this one
	for next, c := range p {
		pair = pair<<8 | uint16(c)
		if r.starts[pair>>6]&(1<<(pair&63)) == 0 || next == 0 {
			continue
		}
		i := next - 1
		if len(r.values[p[i]]) > 0 {
			spans = r.valueAt(p, i, spans, &broken, open)
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
	open.endOf(p, r)
	return merge(spans)
}

// valueAt appends the value that begins at i: the longest one there, or what there is of those that are broken.
func (r *Redactor) valueAt(p []byte, i int, spans []span, broken *followed, open *openPieces) []span {
	inside := i < broken.to
	for _, v := range r.values[p[i]] {
		if len(v.text) <= len(p)-i && string(p[i:i+len(v.text)]) == v.text {
			return append(spans, span{i, i + len(v.text)})
		}
		if v.breaks && !inside {
			spans = broken.add(open.follow(piece{v, 0}, p, i, spans))
		}
	}
	return spans
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
