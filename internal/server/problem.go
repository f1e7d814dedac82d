package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"enplace"
)

// statusOf is the one table of kind and HTTP status.
var statusOf = map[enplace.Kind]int{
	enplace.KindMalformed:       http.StatusBadRequest,
	enplace.KindInvalid:         http.StatusUnprocessableEntity,
	enplace.KindUnauthenticated: http.StatusUnauthorized,
	enplace.KindForbidden:       http.StatusForbidden,
	enplace.KindNotFound:        http.StatusNotFound,
	enplace.KindConflict:        http.StatusConflict,
	enplace.KindTooLarge:        http.StatusRequestEntityTooLarge,
	enplace.KindBusy:            http.StatusTooManyRequests,
	enplace.KindUpstream:        http.StatusBadGateway,
	enplace.KindUnavailable:     http.StatusServiceUnavailable,
	enplace.KindInternal:        http.StatusInternalServerError,
}

// statusGone is what the log says when the client left before its answer.
const statusGone = 499

// problem is an error on its way out. It is a huma.StatusError, and names its content type and headers.
type problem struct {
	enplace.Problem
	header http.Header
}

func (p *problem) Error() string             { return p.Detail }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) ContentType(string) string { return "application/problem+json" }
func (p *problem) GetHeaders() http.Header   { return p.header }

// problemOf makes the problem of an error, and keeps its cause for the log.
func problemOf(ctx context.Context, err error) *problem {
	ex := exchangeOf(ctx)
	ex.cause = err
	e := shown(ctx, ex, err)
	kind := e.Kind
	status, ok := statusOf[kind]
	if !ok {
		status, kind = http.StatusInternalServerError, enplace.KindInternal
	}
	p := &problem{header: http.Header{}}
	p.Problem = enplace.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: e.Message, Kind: kind, Field: e.Field, Fixes: e.Fixes, Instance: "urn:enplace:request:" + ex.id,
	}
	switch kind {
	case enplace.KindInternal:
		p.Detail = "something failed inside the server; its log says what, under " + ex.id
		p.Field, p.Fixes = "", nil
	case enplace.KindUnauthenticated:
		p.header.Set("WWW-Authenticate", `Bearer realm="enplace"`)
	case enplace.KindBusy, enplace.KindUnavailable:
		p.header.Set("Retry-After", "2")
	}
	return p
}

// shown finds what a person is told of an error.
func shown(ctx context.Context, ex *exchange, err error) *enplace.Error {
	var e *enplace.Error
	known := errors.As(err, &e)
	var over *http.MaxBytesError
	read := ex.body.failure()
	switch {
	case known && e.Kind == enplace.KindTooLarge:
		return e
	case errors.As(read, &over), errors.As(err, &over):
		return tooLarge(ex.rule)
	case errors.Is(read, os.ErrDeadlineExceeded):
		return enplace.Errorf(enplace.KindMalformed, "the body stopped arriving for %s", stallTimeout).WithField("body")
	case errors.Is(context.Cause(ctx), errStopping), errors.Is(err, errStopping):
		return enplace.Errorf(enplace.KindUnavailable, "the server is stopping").WithFix("try again when it is back")
	case read != nil:
		return enplace.Errorf(enplace.KindMalformed, "the body ended before it was complete").WithField("body").WithCause(read)
	case known:
		return e
	}
	return enplace.Errorf(enplace.KindInternal, "internal").WithCause(err)
}

// tooLarge names the limit on a route's body.
func tooLarge(r rule) *enplace.Error {
	return enplace.TooLargef("the body is over the limit of %s for %s (%d bytes)", size(r.limit), r.of, r.limit).WithField("body")
}

// size writes a number of bytes for people.
func size(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// fail answers with a problem outside of huma. Where an answer has begun, the connection is cut instead, so that the client
// cannot take it for complete.
func (s *Server) fail(ex *exchange, r *http.Request, err error) {
	if ex.status != 0 {
		ex.cause = err
		panic(http.ErrAbortHandler)
	}
	s.send(ex, problemOf(r.Context(), err))
}

func (s *Server) send(ex *exchange, p *problem) {
	for name, values := range p.header {
		ex.Header()[name] = values
	}
	ex.Header().Set("Content-Type", p.ContentType(""))
	ex.WriteHeader(p.Status)
	_ = json.NewEncoder(ex).Encode(p.Problem)
}
