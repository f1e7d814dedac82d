package transcript

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	windowBytes   = 64 << 10 // of one line, held before it is cut
	sequenceBytes = 4 << 10  // of one escape sequence; what is longer was none, or hides the rest of the log
)

// lines takes what a fold makes of a stream.
type lines interface {
	// line takes a whole line, without its newline.
	line(text []byte)
	// long takes the start of a line that has no end yet, and says how many bytes it took, at least one.
	long(text []byte) int
}

// fold turns a stream of terminal output into lines of text: valid UTF-8 without any control character but the tab. A line
// redrawn after a carriage return keeps its last state, a backspace takes back a character, escape sequences go. The result
// does not depend on how the stream was cut into writes.
type fold struct {
	text   []byte // the line so far
	rest   []byte // the first bytes of a character whose others are to come
	state  state
	params []byte // of the control sequence being read
	length int    // of the string sequence being read
	redraw bool   // a carriage return came: the next character starts the line anew
}

// state is where the fold stands in an escape sequence (ECMA-48).
type state int

const (
	ground       state = iota
	escape             // ESC
	intermediate       // ESC and an intermediate character, as when a character set is chosen
	control            // CSI: parameters, then a final character
	sequence           // OSC, DCS, SOS, PM, APC: text up to ST or BEL
)

const (
	bel = 0x07
	can = 0x18
	sub = 0x1a
	esc = 0x1b
	del = 0x7f
	st  = 0x9c
)

func (f *fold) write(p []byte, out lines) {
	if len(f.rest) > 0 {
		p = slices.Concat(f.rest, p)
		f.rest = f.rest[:0]
	}
	for len(p) > 0 {
		if n := f.plain(p, out); n > 0 {
			p = p[n:]
			continue
		}
		if !utf8.FullRune(p) {
			f.rest = append(f.rest, p...)
			return
		}
		r, n := utf8.DecodeRune(p)
		f.rune(r, out)
		p = p[n:]
	}
}

// close ends the stream: what stands without a newline becomes a line.
func (f *fold) close(out lines) {
	for range f.rest {
		f.rune(utf8.RuneError, out)
	}
	f.rest, f.state = nil, ground
	if len(f.text) > 0 {
		f.newline(out)
	}
}

// plain takes the run of printable ASCII that p begins with, which is nearly all of most logs, and gives its length.
func (f *fold) plain(p []byte, out lines) int {
	if f.state != ground || f.redraw {
		return 0
	}
	n := 0
	for n < len(p) && len(f.text)+n < windowBytes && p[n] >= ' ' && p[n] < del {
		n++
	}
	f.text = append(f.text, p[:n]...)
	f.overflow(out)
	return n
}

func (f *fold) rune(r rune, out lines) {
	switch f.state {
	case escape:
		f.inEscape(r, out)
	case intermediate:
		switch {
		case r >= 0x20 && r <= 0x2f:
		case r >= 0x30 && r < del:
			f.state = ground
		default:
			f.inGround(r, out)
		}
	case control:
		switch {
		case r >= 0x20 && r <= 0x3f && len(f.params) < sequenceBytes:
			f.params = append(f.params, byte(r))
		case r >= 0x40 && r < del:
			f.state = ground
			f.act(r)
		default:
			f.inGround(r, out)
		}
	case sequence:
		f.inText(r, out)
	default:
		f.inGround(r, out)
	}
}

func (f *fold) inEscape(r rune, out lines) {
	switch {
	case r == '[':
		f.state, f.params = control, f.params[:0]
	case r == ']' || r == 'P' || r == 'X' || r == '^' || r == '_':
		f.state, f.length = sequence, 0
	case r >= 0x20 && r <= 0x2f:
		f.state = intermediate
	case r >= 0x30 && r < del:
		f.state = ground
	default:
		f.inGround(r, out)
	}
}

// inText drops a string sequence. A newline ends it as well: an unfinished one must not swallow the rest of the log.
func (f *fold) inText(r rune, out lines) {
	f.length++
	switch {
	case r == bel || r == st || r == can || r == sub:
		f.state = ground
	case r == '\n' || r == esc || f.length > sequenceBytes:
		f.inGround(r, out)
	}
}

// inGround takes a character that belongs to no sequence, or that cut one short.
func (f *fold) inGround(r rune, out lines) {
	f.state = ground
	switch {
	case r == '\n':
		f.newline(out)
	case r == '\r':
		f.redraw = true
	case r == '\b':
		if !f.redraw {
			_, n := utf8.DecodeLastRune(f.text)
			f.text = f.text[:len(f.text)-n]
		}
	case r == esc:
		f.state = escape
	case r == 0x9b:
		f.state, f.params = control, f.params[:0]
	case r == 0x90 || r == 0x98 || r >= 0x9d && r <= 0x9f:
		f.state, f.length = sequence, 0
	case r == '\t':
		f.put(r, out)
	case r < ' ' || r >= del && r < 0xa0 || reorders(r):
	case r == '\u2028' || r == '\u2029': // a newline to some readers
		f.put(' ', out)
	default:
		f.put(r, out)
	}
}

// act obeys the two control sequences that progress lines are redrawn with: to the first column, and erase.
func (f *fold) act(final rune) {
	params := string(f.params)
	switch {
	case final == 'G' && (params == "" || params == "1"):
		f.redraw = true
	case final == 'K' && (params == "2" || f.redraw && (params == "" || params == "0")):
		f.text = f.text[:0]
	}
}

func (f *fold) put(r rune, out lines) {
	if f.redraw {
		f.text, f.redraw = f.text[:0], false
	}
	f.text = utf8.AppendRune(f.text, r)
	f.overflow(out)
}

func (f *fold) overflow(out lines) {
	if len(f.text) >= windowBytes {
		n := out.long(f.text)
		f.text = append(f.text[:0], f.text[n:]...)
	}
}

func (f *fold) newline(out lines) {
	out.line(f.text)
	f.text, f.redraw = f.text[:0], false
}

// reorders tells the characters that make text read in another order than it is written.
func reorders(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// printable makes one piece of text fit for a line: what fold does, with its lines joined by spaces.
func printable(s string) string {
	var all joined
	var f fold
	f.write([]byte(s), &all)
	f.close(&all)
	return strings.Join(all, " ")
}

type joined []string

func (j *joined) line(text []byte) { *j = append(*j, string(text)) }

func (j *joined) long(text []byte) int {
	j.line(text)
	return len(text)
}

// Plain gives terminal output as the text that a log would have of it: folded, its lines ended by newlines.
func Plain(p []byte) string {
	var all joined
	var f fold
	f.write(p, &all)
	f.close(&all)
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, "\n") + "\n"
}
