// Package blob keeps the bytes of files under their digest. The contract is here, adapters stand below it, and every
// adapter runs blobtest. It is apart from image because blobs are many, small and read one at a time by the server, where
// images are few, large and mounted by the kernel.
package blob

import (
	"context"
	"errors"
	"io"
	"time"

	"enplace"
)

// ErrNotFound is what Open and Stat give for a digest that is not there.
var ErrNotFound = errors.New("no such blob")

// ErrDamaged is what Read gives when the bytes are not those of the digest. Putting the right bytes again mends the blob.
var ErrDamaged = errors.New("the blob is damaged")

// Info is a blob's name and size.
type Info struct {
	Digest enplace.Digest
	Bytes  int64
}

// Store keeps blobs. It is safe for concurrent use, also of one digest; what Put and Commit acknowledged survives a crash.
// A blob never changes: writing bytes that are there already is a success that writes nothing.
type Store interface {
	// Put writes what r gives, at most limit bytes: one more is an enplace.Error of kind too_large, and nothing is kept.
	Put(ctx context.Context, r io.Reader, limit int64) (Info, error)

	// Batch starts a group of blobs that become durable together, with one sync rather than one for each.
	Batch(ctx context.Context) (Batch, error)

	// Open gives a blob to read, or ErrNotFound. What was read is checked against the digest: at the end of a sequential read
	// of other bytes, Read gives ErrDamaged in place of the last of them, so that no reader takes them for whole.
	Open(ctx context.Context, d enplace.Digest) (Blob, error)

	// Stat gives the size, or ErrNotFound.
	Stat(ctx context.Context, d enplace.Digest) (Info, error)

	// Collect removes the blobs that keep refuses and that were last written before the time given, and reports how many and
	// how many bytes. A blob written again in the meantime counts as new.
	Collect(ctx context.Context, before time.Time, keep func(enplace.Digest) bool) (n int, bytes int64, err error)
}

// Batch is a group of blobs. Its methods may be called from one goroutine at a time.
type Batch interface {
	// Add writes what r gives, as Put does. The blob can be opened after Commit.
	Add(ctx context.Context, r io.Reader, limit int64) (Info, error)

	// Commit makes all of them durable and visible.
	Commit(ctx context.Context) error

	// Discard drops what was not committed, and must be called if Commit is not. After Commit it does nothing.
	Discard() error
}

// Blob is a blob being read.
type Blob interface {
	io.ReadSeekCloser
	io.ReaderAt
	Bytes() int64
}
