package enplace

import (
	"errors"
	"fmt"
)

// Kind is the closed list of what can go wrong. One table in the server maps each to an HTTP status, one in the
// command line maps each to an exit code, and the client rebuilds it, so a check works on both sides of the wire.
type Kind string

// The kinds of error.
const (
	KindMalformed       Kind = "malformed"       // the request cannot be read: wrong JSON, unknown field, bad parameter
	KindInvalid         Kind = "invalid"         // it was read, and what it says cannot be accepted
	KindUnauthenticated Kind = "unauthenticated" // no key, or one that is not known
	KindForbidden       Kind = "forbidden"       // a known key that may not do this to something it may know of
	KindNotFound        Kind = "not_found"       // nothing of that name, or nothing the caller may know of
	KindConflict        Kind = "conflict"        // the state of the thing does not allow it now
	KindTooLarge        Kind = "too_large"       // over a limit on size or number
	KindBusy            Kind = "busy"            // no room at the moment; try again
	KindUpstream        Kind = "upstream"        // a registry or another server did not answer, or answered nonsense
	KindUnavailable     Kind = "unavailable"     // this host lacks something; `enplace doctor` says what
	KindInternal        Kind = "internal"        // our fault; logged under a reference
)

// Error is the one error that is shown to people. Anything else is internal: logged, and shown as a reference.
type Error struct {
	Kind    Kind
	Message string   // what is wrong and what to do; one or two sentences
	Field   string   // the field, file or parameter at fault; empty when there is none
	Fixes   []string // commands or steps that mend it, most likely first
	Err     error    // the cause; logged, never shown to the caller
}

// Error gives the message, with the cause behind it when there is one.
func (e *Error) Error() string {
	msg := e.Message
	if e.Field != "" {
		msg = e.Field + ": " + msg
	}
	if e.Err != nil {
		return msg + ": " + e.Err.Error()
	}
	return msg
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// WithFix adds a step that mends the error and returns e.
func (e *Error) WithFix(format string, args ...any) *Error {
	e.Fixes = append(e.Fixes, fmt.Sprintf(format, args...))
	return e
}

// WithField names the field, file or parameter at fault and returns e.
func (e *Error) WithField(field string) *Error {
	e.Field = field
	return e
}

// WithCause keeps the cause, for the log only, and returns e.
func (e *Error) WithCause(err error) *Error {
	e.Err = err
	return e
}

// Errorf makes an Error of a kind.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Invalidf is Errorf(KindInvalid).
func Invalidf(format string, args ...any) *Error { return Errorf(KindInvalid, format, args...) }

// NotFoundf is Errorf(KindNotFound).
func NotFoundf(format string, args ...any) *Error { return Errorf(KindNotFound, format, args...) }

// Conflictf is Errorf(KindConflict).
func Conflictf(format string, args ...any) *Error { return Errorf(KindConflict, format, args...) }

// TooLargef is Errorf(KindTooLarge).
func TooLargef(format string, args ...any) *Error { return Errorf(KindTooLarge, format, args...) }

// KindOf gives the kind of the first Error in err's chain, KindInternal when there is none, and "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindInternal
}
