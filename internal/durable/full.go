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

// FullError is that error, for whoever knows by other means that the disk is full.
func FullError(cause error) *enplace.Error {
	return enplace.Errorf(enplace.KindUnavailable, "the disk of the server is full; nothing was saved").
		WithFix("make room on the file system of the data directory, then try again").WithCause(cause)
}
