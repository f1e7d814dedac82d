package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"enplace"
	"enplace/internal/store"
)

// maxStoredAnswer bounds what is kept of an answer. A larger one is sent and not kept.
const maxStoredAnswer = 4 << 20

// once answers a request that carries an Idempotency-Key: the first time by the handler, later from what is stored. The
// answer is stored before it is sent, so that no crash makes a client's retry a second run of what it saw succeed.
func (s *Server) once(ex *exchange, r *http.Request, values []string, h http.HandlerFunc) {
	key, hash, err := s.claim(ex, r, values)
	if err != nil {
		s.fail(ex, r, err)
		return
	}
	caller := ex.caller.KeyID
	stored, err := s.cfg.Idempotency.BeginRequest(r.Context(), caller, key, hash, s.cfg.Now())
	switch {
	case errors.Is(err, store.ErrConflict):
		err = enplace.Conflictf("the request with this key is still running").WithField("Idempotency-Key").WithFix("try again in a moment")
	case errors.Is(err, store.ErrExists):
		err = enplace.Invalidf("another request has used this key").WithField("Idempotency-Key").WithFix("make a new key for each request")
	case err != nil:
		err = fmt.Errorf("claiming an idempotency key: %w", err)
	case stored != nil:
		replay(ex, stored)
		return
	default:
		s.runHeld(ex, r, key, h)
		return
	}
	s.fail(ex, r, err)
}

// claim checks the key and hashes the request. A JSON body is read for it and given back; of a streamed one, and of a secret,
// the length counts.
func (s *Server) claim(ex *exchange, r *http.Request, values []string) (key, hash string, err error) {
	key = values[0]
	malformed := func(format string, args ...any) (string, string, error) {
		return "", "", enplace.Errorf(enplace.KindMalformed, format, args...).WithField("Idempotency-Key")
	}
	switch {
	case len(values) > 1 || len(key) == 0 || len(key) > 255 || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }):
		return malformed("one key is needed, of 1 to 255 printable ASCII characters")
	case ex.rule.secret:
		return malformed("the answer to this request is shown once and never stored; send it without a key")
	case wantsLines(r.Header.Get("Accept")):
		return malformed("a stream cannot be given again; send the request without a key, or without Accept: %s", ndjson)
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n%s\n%d\n", r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.ContentLength)
	if !ex.rule.raw && !ex.rule.sealed && ex.body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return "", "", err
		}
		sum.Write(b)
		r.Body = io.NopCloser(bytes.NewReader(b))
	}
	return key, hex.EncodeToString(sum.Sum(nil)), nil
}

// runHeld runs the handler with its answer held back, stores the answer, and sends it.
func (s *Server) runHeld(ex *exchange, r *http.Request, key string, h http.HandlerFunc) {
	ex.held = &bytes.Buffer{}
	finish := func(keep *store.Response) {
		// The client may have left: what happened is stored all the same.
		if err := s.cfg.Idempotency.FinishRequest(context.WithoutCancel(r.Context()), ex.caller.KeyID, key, keep); err != nil {
			s.cfg.Logger.ErrorContext(r.Context(), "idempotency answer not stored", "request", ex.id, "err", err)
		}
	}
	returned := false
	defer func() {
		if !returned { // it panicked
			finish(nil)
		}
	}()
	h(ex, r)
	returned = true
	finish(storable(ex, r))
	held := ex.held
	ex.held = nil
	ex.WriteHeader(ex.status)
	_, _ = ex.Write(held.Bytes())
}

// storable gives the answer to keep, or nil when the request may be made again: after a failure of ours, for lack of room,
// or when the client left before it was done.
func storable(ex *exchange, r *http.Request) *store.Response {
	if ex.status == 0 {
		ex.status = http.StatusOK
	}
	gone := r.Context().Err() != nil && ex.status >= 400
	if ex.status >= 500 || ex.status == http.StatusTooManyRequests || gone || ex.held.Len() > maxStoredAnswer {
		return nil
	}
	keep := &store.Response{Status: ex.status, Header: map[string]string{}, Body: ex.held.Bytes()}
	for _, name := range []string{"Content-Type", "Location", "ETag"} {
		if v := ex.Header().Get(name); v != "" {
			keep.Header[name] = v
		}
	}
	return keep
}

func replay(ex *exchange, stored *store.Response) {
	for name, value := range stored.Header {
		ex.Header().Set(name, value)
	}
	ex.Header().Set("Idempotency-Replayed", "true")
	ex.WriteHeader(stored.Status)
	_, _ = ex.Write(stored.Body)
}
