package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"enplace"
)

// output gathers the two streams of a command: whole, up to a limit for each, or live to whoever listens.
type output struct {
	each func(stream, data string) error
	fail context.CancelCauseFunc

	mu   sync.Mutex
	kept map[string]*ends
	rest map[string][]byte // the start of a rune that a write cut
}

// ends is a text of which, when it is longer than the limit, the first half and the last half of that are kept: the last lines of a
// long build say how it ended.
type ends struct {
	head, tail []byte
	at         int   // where the tail begins, which goes around once it is full
	total      int64 // bytes of the whole text
}

const half = enplace.MaxExecOutputBytes / 2

func (e *ends) add(text string) {
	e.total += int64(len(text))
	n := min(half-len(e.head), len(text))
	e.head = append(e.head, text[:n]...)
	for text = text[n:]; text != ""; text = text[n:] {
		if n = min(half-len(e.tail), len(text)); n > 0 {
			e.tail = append(e.tail, text[:n]...)
			continue
		}
		n = copy(e.tail[e.at:], text)
		e.at = (e.at + n) % half
	}
}

// cut reports whether some of the text is not kept.
func (e *ends) cut() bool { return e.total > int64(len(e.head)+len(e.tail)) }

// String gives the text, with a line in the middle that says how much is left out there.
func (e *ends) String() string {
	head, tail := string(e.head), string(e.tail[e.at:])+string(e.tail[:e.at])
	if !e.cut() {
		return head + tail
	}
	head = head[:len(head)-partialRune(e.head)]
	for !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	left := e.total - int64(len(head)+len(tail))
	if !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return fmt.Sprintf("%s[enplace] … %d bytes left out …\n%s", head, left, tail)
}

// stream is one of them.
type stream struct {
	out  *output
	name string
	copy io.Writer
}

func (e *stream) Write(p []byte) (int, error) {
	if e.copy != nil {
		if _, err := e.copy.Write(p); err != nil {
			return 0, fmt.Errorf("writing the log: %w", err)
		}
	}
	return len(p), e.out.add(e.name, p)
}

func (o *output) add(stream string, p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kept == nil {
		o.kept = map[string]*ends{"stdout": {}, "stderr": {}}
		o.rest = map[string][]byte{}
	}
	p = append(o.rest[stream], p...)
	cut := len(p) - partialRune(p)
	o.rest[stream] = slices.Clone(p[cut:])
	return o.emit(stream, p[:cut])
}

func (o *output) emit(stream string, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	text := strings.ToValidUTF8(string(p), "\uFFFD")
	if o.each != nil {
		err := o.each(stream, text)
		if err != nil {
			o.fail(err)
		}
		return err
	}
	o.kept[stream].add(text)
	return nil
}

// text gives what is kept of a stream, and the length of all of it where that is not all.
func (o *output) text(stream string) (text string, whole int64) {
	kept := o.kept[stream]
	if kept == nil {
		return "", 0
	}
	if kept.cut() {
		whole = kept.total
	}
	return kept.String(), whole
}

// finish gives out what a cut rune left.
func (o *output) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for stream, rest := range o.rest {
		_ = o.emit(stream, rest) // the command has ended: there is nothing left to stop
	}
}

// partialRune gives the length of an incomplete rune at the end of p.
func partialRune(p []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(p)); n++ {
		if b := p[len(p)-n]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(p[len(p)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
