package enplacetest

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
)

// serverLog keeps a server's log, the last of it, and tells when the server is ready.
type serverLog struct {
	mu      sync.Mutex
	text    []byte
	line    []byte
	address string
	ready   chan string
}

const maxLog = 256 << 10

// expect gives a channel that gets the address once the server is ready.
func (l *serverLog) expect() <-chan string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready = make(chan string, 1)
	return l.ready
}

func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - maxLog; over > maxLog {
		l.text = bytes.Clone(l.text[over:])
	}
	l.line = append(l.line, p...)
	for {
		i := bytes.IndexByte(l.line, '\n')
		if i < 0 {
			return len(p), nil
		}
		l.event(l.line[:i])
		l.line = l.line[i+1:]
	}
}

func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// notable gives the log without what every run has: requests that were answered, and the record of changes.
func (l *serverLog) notable() string {
	var b strings.Builder
	for line := range strings.Lines(l.String()) {
		var e struct {
			Msg    string
			Status int
		}
		usual := json.Unmarshal([]byte(line), &e) == nil && (e.Msg == "request" && e.Status < 500 || e.Msg == "audit")
		if !usual {
			b.WriteString(line)
		}
	}
	return b.String()
}

// event takes a line of the server's log.
func (l *serverLog) event(line []byte) {
	var e struct{ Msg, Address string }
	if json.Unmarshal(line, &e) != nil {
		return
	}
	switch e.Msg {
	case "listening":
		l.address = e.Address
	case "ready":
		if l.ready != nil {
			l.ready <- l.address
			l.ready = nil
		}
	}
}
