package provision

import (
	"context"
	"errors"
)

// Apply brings a set onto a box: runtimes first, then each item's other tools, then its setup.sh, item by item in the set's
// order; later items run even when an earlier one failed. It reads back what is there, writes the shims' index, and gives how
// each item stands. The error is only for a box that stopped or a context that ended; an item's failure is in the Result.
func Apply(ctx context.Context, box Box, job Job) (Result, error) {
	return Result{}, errors.ErrUnsupported
}

// Verify looks whether what a bundle or an earlier Apply gave is really there, without the network: every declared tool's
// folder and commands exist and are executable, versions as recorded. An item that is not whole comes back as pending with a
// note. It writes the index.
func Verify(ctx context.Context, box Box, job Job) (Result, error) {
	return Result{}, errors.ErrUnsupported
}
