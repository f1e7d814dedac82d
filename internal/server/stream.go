package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"enplace"
)

const (
	ndjson      = "application/x-ndjson"
	eventStream = "text/event-stream"
	plainText   = "text/plain; charset=utf-8"
	// heartbeat keeps proxies from taking a quiet stream for a dead one.
	heartbeat = 15 * time.Second
)

func wantsLines(accept string) bool { return strings.Contains(accept, ndjson) }

// stream gives an answer that is written by hand. An error before the first byte is a problem as any other; a later one cuts
// the connection, so that what was sent cannot be taken for all of it.
func (s *Server) stream(write func(w http.ResponseWriter, r *http.Request) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		if err := write(w, r); err != nil {
			s.fail(exchangeOf(r.Context()), r, err)
		}
	}}
}

// LogParams ask for a log.
type LogParams struct {
	Follow bool   `query:"follow" doc:"Stay, and send text as it comes, until the log ends"`
	Accept string `header:"Accept" hidden:"true"` // OpenAPI names what is accepted by the types of the answer
	From   string `header:"Last-Event-ID" doc:"With server-sent events: go on behind this one"`
}

// logReader is a log that can be read or followed; *transcript.Reader is one.
type logReader interface {
	io.ReadCloser
	Follow(ctx context.Context, each func(text string) error) error
}

// sendLog sends a log as it is now, or follows it to its end, whose status it asks for.
func (s *Server) sendLog(in LogParams, log logReader, status func(context.Context) (string, error)) *huma.StreamResponse {
	return s.stream(func(w http.ResponseWriter, r *http.Request) error {
		defer log.Close()
		ctx, cancel := s.untilStop(r.Context())
		defer cancel()
		switch {
		case r.Method == http.MethodHead: // nothing to follow for
			w.Header().Set("Content-Type", plainText)
			return nil
		case strings.Contains(in.Accept, eventStream):
			return sendEvents(ctx, w, in.From, log, status)
		case in.Follow:
			w.Header().Set("Content-Type", plainText)
			w.WriteHeader(http.StatusOK)
			return log.Follow(ctx, func(text string) error { return flushed(w, text) })
		}
		w.Header().Set("Content-Type", plainText)
		if _, err := io.Copy(w, log); err != nil {
			return fmt.Errorf("sending a log: %w", err)
		}
		return nil
	})
}

// flushed writes text and sends it off.
func flushed(w http.ResponseWriter, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// sendEvents follows a log as server-sent events.
func sendEvents(ctx context.Context, w http.ResponseWriter, from string, log logReader, status func(context.Context) (string, error)) error {
	skip, err := strconv.ParseInt(from, 10, 64)
	if from != "" && (err != nil || skip < 0) {
		return enplace.Errorf(enplace.KindMalformed, "is not the id of an event of this log").WithField("Last-Event-ID")
	}
	w.Header().Set("Content-Type", eventStream)
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	if err := flushed(w, ""); err != nil {
		return err
	}
	lines := eventWriter{w: w, skip: skip}
	if err := followBeating(ctx, log, lines.text, func() error { return flushed(w, ": \n\n") }); err != nil {
		return err
	}
	if err := lines.flush(); err != nil {
		return err
	}
	ended, err := status(ctx)
	if err != nil {
		return err
	}
	data, err := json.Marshal(map[string]string{"status": ended})
	if err != nil {
		return err
	}
	return flushed(w, "event: end\ndata: "+string(data)+"\n\n")
}

// followBeating follows a log in the calling goroutine's stead, so that it can beat while the log is quiet.
func followBeating(ctx context.Context, log logReader, each func(string) error, beat func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	texts := make(chan string)
	done := make(chan error, 1)
	go func() {
		done <- log.Follow(ctx, func(text string) error {
			select {
			case texts <- text:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	var failed error
	for {
		select {
		case text := <-texts:
			failed = each(text)
		case <-ticker.C:
			failed = beat()
		case err := <-done:
			return errors.Join(failed, err)
		}
		if failed != nil {
			cancel()
			<-done //nolint:errcheck // the log's reader is closed behind us, and why it ended does not count any more
			return failed
		}
	}
}

// eventWriter turns text into one event per line. Its ids count the bytes of the log up to the end of the line.
type eventWriter struct {
	w    http.ResponseWriter
	at   int64 // bytes of the log seen
	skip int64 // bytes that the client has
	part string
}

func (e *eventWriter) text(text string) error {
	var out strings.Builder
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole {
			e.part += line
			break
		}
		e.event(&out, e.part+line, 1)
		e.part, text = "", rest
	}
	if out.Len() == 0 {
		return nil
	}
	return flushed(e.w, out.String())
}

// flush sends a last line that has no end.
func (e *eventWriter) flush() error {
	if e.part == "" {
		return nil
	}
	var out strings.Builder
	e.event(&out, e.part, 0)
	e.part = ""
	return flushed(e.w, out.String())
}

func (e *eventWriter) event(out *strings.Builder, line string, end int64) {
	e.at += int64(len(line)) + end
	if e.at <= e.skip {
		return
	}
	fmt.Fprintf(out, "id: %d\n", e.at)
	// A carriage return ends a line of the protocol; a log's line must not be able to write fields of its own.
	for part := range strings.SplitSeq(line, "\r") {
		out.WriteString("data: " + part + "\n")
	}
	out.WriteByte('\n')
}
