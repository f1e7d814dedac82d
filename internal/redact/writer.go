package redact

import (
	"bytes"
	"io"
	"slices"
)

const (
	windowBytes  = 64 << 10 // of a line without an end, held before it is cut
	overlapBytes = 4 << 10  // kept back at a cut, more where a known value is longer
)

// Writer redacts a stream line by line: nothing of a line goes on before its end is there, so that a secret that comes in two
// writes is found. Of a line over 64 KiB the start goes on, cut where no secret stands. It serves one goroutine at a time.
type Writer struct {
	redactor *Redactor
	lines    func([]byte) []byte
	to       io.Writer
	line     []byte // the line so far
	out      []byte
	hiding   bool // the last cut went through a secret: what comes up to the next blank is hidden
	err      error
}

// Writer gives a writer that redacts what goes to w.
func (r *Redactor) Writer(w io.Writer) *Writer {
	return &Writer{redactor: r, lines: r.Lines(), to: w}
}

// Write takes p as a whole, or fails for good with the error of what is below.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		take := end + 1
		if end < 0 {
			take = len(p)
		}
		take = min(take, w.window()-len(w.line))
		w.line = append(w.line, p[:take]...)
		p = p[take:]
		switch {
		case take == end+1:
			w.endLine()
		case len(w.line) == w.window():
			w.cut()
		}
		if err := w.flush(windowBytes); err != nil {
			return 0, err
		}
	}
	if err := w.flush(0); err != nil {
		return 0, err
	}
	return n, nil
}

// Close passes on a last line without an end. What is below stays open.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if len(w.line) > 0 {
		w.endLine()
	}
	return w.flush(0)
}

// window is what a line may grow to before it is cut.
func (w *Writer) window() int { return max(windowBytes, 2*w.overlap()) }

func (w *Writer) overlap() int { return max(overlapBytes, w.redactor.longest) }

func (w *Writer) flush(over int) error {
	if len(w.out) <= over || w.err != nil {
		return w.err
	}
	_, w.err = w.to.Write(w.out)
	w.out = w.out[:0]
	return w.err
}

func (w *Writer) endLine() {
	line, newline := bytes.CutSuffix(w.line, []byte("\n"))
	w.out = append(w.out, w.lines(w.unhide(line))...)
	if newline {
		w.out = append(w.out, '\n')
	}
	w.line, w.hiding = w.line[:0], false
}

// cut passes on the start of the line, up to where the last secret that stands across begins.
func (w *Writer) cut() {
	line := w.unhide(w.line)
	at := max(0, len(line)-w.overlap())
	spans := w.redactor.find(line, nil)
	across := 0 // where the first secret that stands across ends
	for _, s := range slices.Backward(spans) {
		if s.anchor < at && s.to > at {
			at, across = s.anchor, s.to
		}
	}
	if at == 0 && across > 0 { // it fills the line
		at = across
		w.hiding = across == len(line)
	}
	spans = slices.DeleteFunc(spans, func(s span) bool { return s.to > at })
	w.out = append(w.out, hide(line[:at], spans)...)
	w.line = append(w.line[:0], line[at:]...)
}

// unhide drops what belongs to a secret whose start is gone already.
func (w *Writer) unhide(line []byte) []byte {
	if !w.hiding {
		return line
	}
	n := run(line, 0, word)
	w.hiding = n == len(line)
	return line[n:]
}
