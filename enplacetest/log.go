package enplacetest

import (
	"bytes"
	"encoding/json"
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
