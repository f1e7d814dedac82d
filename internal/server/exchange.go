package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"enplace"
)

// exchange is one request on its way through the server. It is the http.ResponseWriter of every handler.
type exchange struct {
	http.ResponseWriter
	id     string
	rule   rule
	caller enplace.Caller
	body   *body
	status int
	bytes  int64
	cause  error         // of the problem that it was answered with
	held   *bytes.Buffer // when set, the answer is kept here and not sent yet
	stall  time.Duration
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// WriteHeader notes the status.
func (ex *exchange) WriteHeader(status int) {
	if ex.status == 0 {
		ex.status = status
	}
	if ex.held == nil {
		ex.ResponseWriter.WriteHeader(status)
	}
}

// Write counts what is sent.
func (ex *exchange) Write(p []byte) (int, error) {
	if ex.status == 0 {
		ex.status = http.StatusOK
	}
	if ex.held != nil {
		return ex.held.Write(p)
	}
	ex.expectRead()
	n, err := ex.ResponseWriter.Write(p)
	ex.bytes += int64(n)
	return n, err
}

// expectRead has what is written next fail when the client reads nothing of it for too long: it would be held on to for as long as
// the client likes.
func (ex *exchange) expectRead() {
	_ = http.NewResponseController(ex.ResponseWriter).SetWriteDeadline(time.Now().Add(ex.stall))
}

// sentAtOnce is what a client has the stall timeout to read of, so that slow ones are told from those that have stopped.
const sentAtOnce = 256 << 10

// ReadFrom lets files go out by sendfile, which looks through one io.LimitedReader and no more.
func (ex *exchange) ReadFrom(r io.Reader) (int64, error) {
	if ex.held != nil {
		return io.Copy(struct{ io.Writer }{ex}, r)
	}
	if ex.status == 0 {
		ex.status = http.StatusOK
	}
	whole, ok := r.(*io.LimitedReader)
	if !ok {
		whole = &io.LimitedReader{R: r, N: math.MaxInt64}
	}
	var sent int64
	for whole.N > 0 {
		part := &io.LimitedReader{R: whole.R, N: min(whole.N, sentAtOnce)}
		asked := part.N
		ex.expectRead()
		n, err := io.Copy(ex.ResponseWriter, part)
		whole.N -= n
		sent += n
		ex.bytes += n
		if err != nil || n < asked {
			return sent, err
		}
	}
	return sent, nil
}

// Unwrap is for http.ResponseController.
func (ex *exchange) Unwrap() http.ResponseWriter { return ex.ResponseWriter }

// ServeHTTP answers a request, whatever happens on the way.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ex := &exchange{ResponseWriter: w, id: enplace.NewID("req", s.cfg.Now()), stall: s.cfg.StallTimeout}
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, ex))
	defer s.finish(ex, r, time.Now())
	ex.expectRead() // or the deadline would be that of the request before

	h := w.Header()
	h.Set("X-Request-Id", ex.id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Referrer-Policy", "no-referrer")
	if len(r.TransferEncoding) > 0 {
		// It may have had a length too, which net/http has dropped. A proxy in front that went by the length would take what follows
		// for a request that it has checked, so nothing may follow (RFC 9112, 6.1).
		h.Set("Connection", "close")
	}
	if err := checkTarget(r); err != nil {
		s.fail(ex, r, err)
		return
	}
	s.mux.ServeHTTP(ex, r)
}

// checkTarget refuses what the mux would clean up and redirect: a client that asked for a/../b is told so.
func checkTarget(r *http.Request) error {
	p := r.URL.EscapedPath()
	if !strings.HasPrefix(p, "/") {
		return enplace.Errorf(enplace.KindMalformed, "the request has no path")
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(p[1:], "/"), "/") {
		if part == "." || part == ".." || part == "" && p != "/" {
			return enplace.Errorf(enplace.KindMalformed, "the path has an empty, . or .. component").WithField("path")
		}
	}
	return nil
}

// finish recovers from a panic, and writes the request's line of the log and its metrics. It is deferred.
func (s *Server) finish(ex *exchange, r *http.Request, start time.Time) {
	v := recover()
	ex.expectRead()                      // what net/http has not sent yet
	aborted := v == http.ErrAbortHandler //nolint:errorlint // what was panicked with is that very value
	if v != nil && !aborted {
		if ex.held != nil {
			ex.held, ex.status = nil, 0
		}
		err := fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		if ex.status == 0 {
			s.fail(ex, r, err)
		} else {
			ex.cause, aborted = err, true
		}
	}
	route := r.Pattern
	if route == "" || route == "/" {
		route = "unmatched"
	}
	if r.Context().Err() != nil && ex.cause != nil && errors.Is(ex.cause, context.Canceled) {
		ex.status = statusGone
	}
	if ex.status == 0 {
		ex.status = http.StatusOK
		if aborted {
			ex.status = statusGone
		}
	}
	elapsed := time.Since(start)
	s.metrics.observe(r.Method, route, ex.status, elapsed)
	s.log(ex, r, route, elapsed)
	if aborted {
		panic(http.ErrAbortHandler)
	}
}

// log writes one line. Neither the query nor any body is in it: they may hold secrets.
func (s *Server) log(ex *exchange, r *http.Request, route string, elapsed time.Duration) {
	level := slog.LevelInfo
	switch {
	case ex.rule.open && (ex.status < 400 || notYet(ex.cause)):
		level = slog.LevelDebug // watchers ask every few seconds, or ten times in one
	case ex.cause != nil && ex.status == http.StatusInternalServerError:
		level = slog.LevelError
	case ex.cause != nil && ex.status > http.StatusInternalServerError:
		level = slog.LevelWarn // a caller can bring it about, by the address of a registry or a repository
	}
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs,
		slog.String("method", r.Method), slog.String("route", route), slog.Int("status", ex.status),
		slog.Duration("elapsed", elapsed), slog.Int64("bytes", ex.bytes), slog.String("request", ex.id), slog.String("remote", r.RemoteAddr))
	if ex.caller.Kind != "" {
		attrs = append(attrs, slog.String("caller", ex.caller.Name()), slog.String("key", ex.caller.KeyID))
	}
	if ex.cause != nil {
		attrs = append(attrs, slog.String("err", ex.cause.Error()))
	}
	s.cfg.Logger.LogAttrs(r.Context(), level, "request", attrs...)
}

// notYet reports whether an error only says that the server is starting: nothing failed underneath.
func notYet(err error) bool {
	e, ok := errors.AsType[*enplace.Error](err)
	return ok && e.Kind == enplace.KindUnavailable && e.Err == nil
}

// stallTimeout is how long a body may stop arriving, and a client may read nothing, unless the configuration says otherwise.
const stallTimeout = time.Minute

// body is a request's body under its limit. A client may send slowly, but not stop.
type body struct {
	io.ReadCloser
	control *http.ResponseController
	failed  atomic.Pointer[error]
}

func (b *body) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(stallTimeout))
	_ = b.control.SetWriteDeadline(time.Now().Add(stallTimeout)) // of 100 Continue
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		// Left in place, the deadline would end the request's context while the answer is being made.
		_ = b.control.SetReadDeadline(time.Time{})
		if err != io.EOF {
			b.failed.CompareAndSwap(nil, &err)
		}
	}
	return n, err
}

// content gives the body to read.
func (ex *exchange) content() io.Reader {
	if ex.body == nil {
		return http.NoBody
	}
	return ex.body
}

// failure gives the error that ended the body, if one did. It takes a nil body.
func (b *body) failure() error {
	if b == nil {
		return nil
	}
	if err := b.failed.Load(); err != nil {
		return *err
	}
	return nil
}
