package base

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// lines writes whole lines of progress, from several goroutines. A nil writer drops them.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func newLines(w io.Writer) *lines {
	if w == nil {
		w = io.Discard
	}
	return &lines{w: w}
}

func (l *lines) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.w, format+"\n", args...) // progress that nobody can see stops nothing
}

// splitter cuts what a program writes into lines, hands each to line, and keeps the last few for an error's message.
type splitter struct {
	line func(string)
	part []byte
	tail []string
}

const (
	maxLine = 4096
	maxTail = 20
)

func (s *splitter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 {
			if len(s.part) < maxLine {
				s.part = append(s.part, rest...)
			}
			break
		}
		s.emit(string(append(s.part, rest[:i]...)))
		s.part, rest = s.part[:0], rest[i+1:]
	}
	return len(p), nil
}

func (s *splitter) emit(line string) {
	if line == "" {
		return
	}
	if len(s.tail) == maxTail {
		s.tail = append(s.tail[:0], s.tail[1:]...)
	}
	s.tail = append(s.tail, line)
	s.line(line)
}
