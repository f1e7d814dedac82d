package redact

const (
	leastPiece = 2 * shortest // of a spelling that is broken over lines: what is shorter could be a word
	maxOpen    = 64           // pieces that are looked after from one line to the next

	// maxDeadEnds is how often in a text a spelling may be followed over lines to nowhere, and is looked for inside of that again:
	// one that repeats itself could begin there, and a hostile text would have it begin everywhere.
	maxDeadEnds = 64
)

// followed is how far spellings were followed over lines; none is followed from inside of that.
type followed struct{ to, left int }

// add takes what follow gives.
func (f *followed) add(spans []span, to int, whole bool) []span {
	switch {
	case whole || f.left == 0:
		f.to = max(f.to, to)
	case to > 0:
		f.left--
	}
	return spans
}

// piece is a spelling of which so much stands at the end of a line.
type piece struct {
	*spelling
	done int
}

// openPieces are those at the end of the last line. A nil one looks after nothing.
type openPieces struct{ was, now []piece }

// goOn hides what a line continues of the pieces at the end of the one before.
func (o *openPieces) goOn(p []byte, spans []span) []span {
	if o == nil {
		return spans
	}
	o.was, o.now = o.now, o.was[:0]
	for _, open := range o.was {
		spans, _, _ = o.follow(open, p, run(p, 0, blank), spans)
	}
	return spans
}

// follow hides a spelling that is broken, from where it goes on: line by line, as far as it goes, when enough of it is there to
// know it by; it gives how far that is, and whether that is all, or all there can be. A piece at the end of p stays open, also one
// that is too short to be hidden.
func (o *openPieces) follow(v piece, p []byte, i int, spans []span) (hidden []span, to int, whole bool) {
	known := len(spans)
	for v.done < len(v.text) {
		n := common(p[i:], v.text[v.done:])
		next := lineEnd(p, i+n)
		if n == 0 || v.done+n < len(v.text) && next < 0 {
			break
		}
		spans = append(spans, span{i, i + n})
		to = i + n
		if v.done += n; v.done < len(v.text) && next == len(p) {
			o.keep(v)
			whole = o == nil // else the next line tells which of those that end here goes on
			break
		}
		i = next
	}
	if v.done < leastPiece {
		return spans[:known], 0, false
	}
	return spans, to, whole || v.done == len(v.text)
}

func (o *openPieces) keep(v piece) {
	if o != nil && len(o.now) < maxOpen {
		o.now = append(o.now, v)
	}
}

// endOf keeps what may begin with the last byte of a line, which find does not see: it looks at two bytes.
func (o *openPieces) endOf(p []byte, r *Redactor) {
	if o == nil || len(p) == 0 {
		return
	}
	for _, v := range r.values[p[len(p)-1]] {
		if v.breaks {
			o.keep(piece{v, 1})
		}
	}
}

// common gives how many bytes two texts begin with alike.
func common(p []byte, s string) int {
	n := min(len(p), len(s))
	for i := range n {
		if p[i] != s[i] {
			return i
		}
	}
	return n
}

// lineEnd gives where the next line begins, behind its indentation, when a line ends at i; the length of p at its end; and else -1.
// The end may be written as an escape.
func lineEnd(p []byte, i int) int {
	i = run(p, i, func(c byte) bool { return blank(c) || c == '\r' })
	switch {
	case i == len(p):
		return i
	case p[i] == '\n':
		return run(p, i+1, blank)
	case p[i] == '\\' && i+1 < len(p) && p[i+1] == 'n':
		return i + 2
	}
	return -1
}
