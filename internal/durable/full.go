package durable

import (
	"errors"
	"syscall"

	"enplace"
)

// Full gives an error for people where err says that the disk is full, and every other error as it is.
func Full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return FullError(err)
	}
	return err
}

// IsFull reports whether an error is one of Full or FullError.
func IsFull(err error) bool { return errors.Is(err, errFull) }

// errFull marks the errors of a full disk, whatever said so.
var errFull = errors.New("disk full")

// full is the cause of such an error.
type full struct{ cause error }

func (f full) Error() string   { return f.cause.Error() }
func (f full) Unwrap() []error { return []error{errFull, f.cause} }

// FullError is that error, for whoever knows by other means that the disk is full.
func FullError(cause error) *enplace.Error {
	return enplace.Errorf(enplace.KindUnavailable, "the disk of the server is full; nothing was saved").
		WithFix("make room on the file system of the data directory, then try again").WithCause(full{cause})
}
