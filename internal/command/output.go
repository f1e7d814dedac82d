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

	mu        sync.Mutex
	kept      map[string]*strings.Builder
	rest      map[string][]byte // the start of a rune that a write cut
	truncated bool
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
		o.kept = map[string]*strings.Builder{"stdout": {}, "stderr": {}}
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
	kept := o.kept[stream]
	if room := enplace.MaxExecOutputBytes - kept.Len(); len(text) > room {
		text, o.truncated = strings.ToValidUTF8(text[:room], ""), true
	}
	kept.WriteString(text)
	return nil
}

func (o *output) text(stream string) string {
	if o.kept == nil {
		return ""
	}
	return o.kept[stream].String()
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
