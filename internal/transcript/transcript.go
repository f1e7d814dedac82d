// Package transcript keeps what a build or a task prints: a text file that grows, is folded and redacted before it is
// written, is bounded (the first half and the last half stay), and can be followed while it grows. Its lines are hostile: no
// control code of theirs reaches a reader, and none of them can pass for a line of ours. Whoever shows a log may therefore
// print it as it is; only HTML remains to be escaped.
package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"
)

// MinLimit is the least that a log may be bounded to.
const MinLimit = 4 << 10

const (
	maxLine = 8 << 10      // bytes of a line; a longer one is broken
	ours    = "[enplace] " // begins the lines that we write ourselves
	more    = "…"          // stands where a line was broken, at both ends
	seam    = 8 << 10      // the end of a window that is kept back, lest a secret be cut in two
)

// ErrClosed answers a write to a log or a stream that has ended.
var ErrClosed = errors.New("the log has ended")

// Writer is the log being written. It is safe for concurrent use; readers, however slow, never hold it up.
type Writer struct {
	mu      sync.Mutex
	tape    *tape
	redact  func([]byte) []byte
	max     int // bytes of a line
	main    *stream
	streams map[*stream]struct{}
	batch   []byte // lines on their way to the tape
	closed  bool
}

// Create makes the log file, of at most limit bytes (MinLimit or more) and a line that says what was left out; what stood at
// the path is replaced. redact, when not nil, is given whole lines in their order, one call at a time; of a line over 64 KiB
// it is given overlapping parts. A path that this process is writing already is an error.
func Create(path string, limit int64, redact func([]byte) []byte) (*Writer, error) {
	if limit < MinLimit {
		return nil, fmt.Errorf("creating log %s: a limit of %d bytes is below %d", path, limit, MinLimit)
	}
	t, err := createTape(path, limit)
	if err != nil {
		return nil, fmt.Errorf("creating log: %w", err)
	}
	if redact == nil {
		redact = func(p []byte) []byte { return p }
	}
	w := &Writer{tape: t, redact: redact, max: int(min(maxLine, limit/16)), streams: map[*stream]struct{}{}}
	w.main = &stream{w: w}
	w.streams[w.main] = struct{}{}
	return w, nil
}

// Write adds output to the writer's own stream. It reaches readers line by line. The error is ErrClosed, or the disk's.
func (w *Writer) Write(p []byte) (int, error) { return w.main.Write(p) }

// Stream gives a writer for one stream of output, folded apart from others so that two streams never cut each other's lines.
// Closing it gives its last line to readers, also one without a newline.
func (w *Writer) Stream() io.WriteCloser {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &stream{w: w}
	if w.closed {
		s.closed = true
		return s
	}
	w.streams[s] = struct{}{}
	return s
}

// Note writes a line of our own, which no output can forge: it begins with "[enplace] ", and a line of output that does so
// too gets a backslash before it. On a log that has ended it does nothing; an error of the disk comes back from Close.
func (w *Writer) Note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	text := w.redact([]byte(printable(fmt.Sprintf(format, args...))))
	w.breakLine(append([]byte(ours), text...), false, false)
	_ = w.flush() // the tape keeps its first error for Close
}

// Close ends every stream and the log: it is synced to the disk, then followers reach its end. Closing twice is no error.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	for s := range w.streams {
		s.end()
	}
	err := w.flush()
	return errors.Join(err, w.tape.close())
}

// flush gives the finished lines to the tape.
func (w *Writer) flush() error {
	if len(w.batch) == 0 {
		return nil
	}
	err := w.tape.append(w.batch)
	w.batch = w.batch[:0]
	return err
}

// breakLine adds a line to the batch, in pieces when it is long. continued and unfinished say that it is itself a piece.
func (w *Writer) breakLine(text []byte, continued, unfinished bool) {
	for {
		n := len(text)
		if n > w.max {
			n = w.max
			for n > 1 && !utf8.RuneStart(text[n]) {
				n--
			}
		}
		if continued {
			w.batch = append(w.batch, more...)
		}
		w.batch = append(w.batch, text[:n]...)
		text = text[n:]
		if len(text) > 0 || unfinished {
			w.batch = append(w.batch, more...)
		}
		w.batch = append(w.batch, '\n')
		if len(text) == 0 {
			return
		}
		continued = true
	}
}

// stream is one stream of output. The writer's lock guards it.
type stream struct {
	w         *Writer
	fold      fold
	closed    bool
	continued bool  // the start of this line has been written
	skipping  bool  // the rest of this line is left out
	skipped   int64 // bytes
}

// Write takes output; see Writer.Write.
func (s *stream) Write(p []byte) (int, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.closed {
		return 0, ErrClosed
	}
	for part := range slices.Chunk(p, windowBytes) { // bounds what is held before it goes to the disk
		s.fold.write(part, s)
		if err := s.w.flush(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close gives the last line to readers. Closing twice is no error.
func (s *stream) Close() error {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.closed {
		return nil
	}
	s.end()
	return s.w.flush()
}

func (s *stream) end() {
	if s.closed {
		return
	}
	s.fold.close(s)
	if s.continued { // the line was cut, and nothing came after
		s.line(nil)
	}
	s.closed = true
	delete(s.w.streams, s)
}

// line implements lines.
func (s *stream) line(text []byte) {
	if s.skipping {
		s.skipped += int64(len(text))
		text = fmt.Appendf(nil, " %d bytes of this line left out ", s.skipped)
	} else {
		text = s.w.redact(text)
	}
	if !s.continued {
		text = disown(text)
	}
	s.w.breakLine(text, s.continued, false)
	s.continued, s.skipping, s.skipped = false, false, 0
}

// long implements lines. The window is cut where redaction of its two sides gives what redaction of the whole gives: no
// secret lies across. Where no such place is found the whole is redacted, and the rest of the line left out.
func (s *stream) long(window []byte) int {
	if s.skipping {
		s.skipped += int64(len(window))
		return len(window)
	}
	whole := bytes.Clone(s.w.redact(bytes.Clone(window)))
	for cut := len(window) - seam; cut > len(window)/2; cut -= seam {
		for !utf8.RuneStart(window[cut]) {
			cut--
		}
		left := bytes.Clone(s.w.redact(bytes.Clone(window[:cut])))
		right := s.w.redact(bytes.Clone(window[cut:]))
		if len(left)+len(right) == len(whole) && bytes.HasPrefix(whole, left) && bytes.HasSuffix(whole, right) {
			s.piece(left)
			return cut
		}
	}
	s.piece(whole)
	s.skipping = true
	return len(window)
}

func (s *stream) piece(text []byte) {
	if !s.continued {
		text = disown(text)
	}
	s.w.breakLine(text, s.continued, true)
	s.continued = true
}

// disown puts a backslash into a line of output that looks like one of ours, also behind spaces and characters that show
// nothing.
func disown(text []byte) []byte {
	rest := bytes.TrimLeftFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || r == '\u2800' ||
			unicode.In(r, unicode.Cf, unicode.Mn, unicode.Me, unicode.Other_Default_Ignorable_Code_Point)
	})
	if !bytes.HasPrefix(rest, []byte(ours[:len(ours)-1])) {
		return text
	}
	at := len(text) - len(rest)
	return bytes.Join([][]byte{text[:at], rest}, []byte(`\`))
}

// Open opens a log at its start. A log that this process is writing can be followed; one that an earlier process left
// unfinished is settled first, and ends where that process did. The error is fs.ErrNotExist where there is none.
func Open(path string) (*Reader, error) {
	t, err := openTape(path)
	if err != nil {
		return nil, fmt.Errorf("opening log: %w", err)
	}
	return &Reader{tape: t}, nil
}
