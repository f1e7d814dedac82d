package source

import (
	"context"
	"io"

	"enplace"
)

func archive(ctx context.Context, r io.Reader, sink Sink, scratch string, l limits) (Result, error) {
	return Result{}, enplace.Invalidf("not yet")
}
