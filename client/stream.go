package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// open gives the body of an answer that is not JSON; k has its path and query.
func (c *Client) open(ctx context.Context, k call) (io.ReadCloser, error) {
	k.method, k.header = http.MethodGet, http.Header{"Accept": {"*/*"}}
	resp, err := c.do(ctx, k)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// decode reads a JSON answer.
func (c *Client) decode(body io.Reader, out any) error {
	if err := json.NewDecoder(body).Decode(out); err != nil {
		return c.unreachable(fmt.Errorf("reading the answer: %w", err))
	}
	return nil
}

// sizeOf finds the size of content that net/http does not know of by itself, so that the server can refuse it unread.
func sizeOf(r io.Reader) int64 {
	f, ok := r.(*os.File)
	if !ok {
		return 0
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0
	}
	return info.Size() - at
}

// errEnded says that the stream's end event came.
var errEnded = errors.New("ended")

// follow writes a log to w as it grows and gives the status that ended it. A stream that is cut is taken up again where it
// was cut; three cuts without a line between them are an error. k has its path and query.
func (c *Client) follow(ctx context.Context, k call, w io.Writer) (string, error) {
	f := follower{w: w}
	k.method = http.MethodGet
	for cuts := 0; ; cuts++ {
		k.header = http.Header{"Accept": {"text/event-stream"}}
		if f.id != "" {
			k.header.Set("Last-Event-ID", f.id)
		}
		before := f.id
		resp, err := c.do(ctx, k)
		if err != nil {
			return "", err
		}
		err = f.read(resp.Body)
		_ = resp.Body.Close()
		if f.id != before {
			cuts = 0
		}
		var failed *writeError
		switch {
		case errors.Is(err, errEnded):
			return f.status, nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case errors.As(err, &failed):
			return "", failed.err
		case cuts >= 2:
			return "", c.unreachable(err)
		}
	}
}

// writeError is an error of the caller's writer.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }

// follower reads server-sent events (the HTML standard, 9.2.6, as far as the server uses it).
type follower struct {
	w      io.Writer
	id     string // of the last event that was written
	status string
}

func (f *follower) read(body io.Reader) error {
	r := bufio.NewReaderSize(body, 64<<10)
	var id, event string
	var data []string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "\n":
			if err := f.event(id, event, data); err != nil {
				return err
			}
			event, data = "", data[:0]
		case name == "id":
			id = value
		case name == "event":
			event = value
		case name == "data":
			data = append(data, value)
		}
	}
}

func (f *follower) event(id, event string, data []string) error {
	switch {
	case event == "end":
		var end struct {
			Status string `json:"status"`
		}
		_ = json.Unmarshal([]byte(strings.Join(data, "")), &end)
		f.status = end.Status
		return errEnded
	case event != "" || len(data) == 0:
		return nil // something of a later server
	}
	for _, line := range data {
		if _, err := io.WriteString(f.w, line+"\n"); err != nil {
			return &writeError{err}
		}
	}
	f.id = id
	return nil
}

// streamExec runs a command and calls each with every event of its stream, until each says that it was the last one. An error of
// each, or the end of ctx, kills the command.
func streamExec[E any](ctx context.Context, c *Client, path string, in any, each func(E) (ended bool, err error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	resp, err := c.do(ctx, call{
		method: http.MethodPost, path: path, body: bytes.NewReader(b),
		header: http.Header{"Accept": {"application/x-ndjson"}, "Content-Type": {"application/json"}},
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); ; {
		var e E
		if err := dec.Decode(&e); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return c.unreachable(fmt.Errorf("the command's output was cut: %w", err))
		}
		if ended, err := each(e); ended || err != nil {
			return err
		}
	}
}
