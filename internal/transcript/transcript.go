// Package transcript keeps what a build or a task prints: a text file that grows, is folded and redacted before it is
// written, is bounded (the first half and the last half stay), and can be followed while it grows. Its lines are hostile: no
// control code of theirs reaches a reader.
package transcript

import (
	"context"
	"io"
)

// Writer is the log being written. It is safe for concurrent use.
type Writer struct{}

// Reader reads a log, while it grows or after.
type Reader struct{}

// Create makes the log file; what stood there is replaced. redact, when not nil, is given whole lines.
func Create(path string, limit int64, redact func([]byte) []byte) (*Writer, error) { panic("todo") }

func (w *Writer) Write(p []byte) (int, error) { panic("todo") }

// Stream gives a writer for one stream of output, folded apart from others so that two streams never cut each other's lines.
func (w *Writer) Stream() io.WriteCloser { panic("todo") }

// Note writes a line of our own, which no output can forge.
func (w *Writer) Note(format string, args ...any) { panic("todo") }

// Close ends the log: followers reach its end.
func (w *Writer) Close() error { panic("todo") }

// Open opens a log at its start. A log that this process is writing can be followed.
func Open(path string) (*Reader, error) { panic("todo") }

// Read reads what is there now, then io.EOF.
func (r *Reader) Read(p []byte) (int, error) { panic("todo") }

// Follow calls each with every piece of text from the reader's place on, and returns when the log has ended.
func (r *Reader) Follow(ctx context.Context, each func(text string) error) error { panic("todo") }

func (r *Reader) Close() error { panic("todo") }
