package base

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"

	"enplace"
	"enplace/internal/source/xz"
)

// unpackTarball unpacks a tar file of the operator's, plain or compressed.
func unpackTarball(ctx context.Context, root *rootfs, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return enplace.Invalidf("%s cannot be read", file).WithField("base.source").WithCause(err)
	}
	defer f.Close()
	stream, done, err := decompress(f)
	if err == nil {
		defer done()
		err = eachEntry(ctx, stream, root.apply)
	}
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return enplace.Invalidf("%s cannot be unpacked: %v", file, err).WithField("base.source").WithCause(err)
	}
	return nil
}

// decompress tells the compression by the first bytes, not by the name.
func decompress(r io.Reader) (io.Reader, func(), error) {
	in := bufio.NewReaderSize(r, 1<<20)
	magic, err := in.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		return z, func() {}, err
	case bytes.HasPrefix(magic, []byte("\xfd7zXZ\x00")):
		z, err := xz.NewReader(in)
		return z, func() {}, err
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return in, func() {}, nil
}

// eachEntry calls apply for each entry of a tar stream. What a stream may unpack to is bounded here as well: the content of
// an entry that apply does not read passes through all the same.
func eachEntry(ctx context.Context, stream io.Reader, apply func(*tar.Header, io.Reader) error) error {
	limited := &boundedReader{r: stream, ctx: ctx, left: 2 * maxRootBytes}
	tr := tar.NewReader(limited)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, limited) // what follows the end counts for the checksum
			return err
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // apply refuses what climbs, by name
			return err
		}
		if err := apply(h, tr); err != nil {
			return err
		}
	}
}

// boundedReader stops at the end of a context and past a number of bytes.
type boundedReader struct {
	r    io.Reader
	ctx  context.Context
	left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.left < 0 {
		return 0, errors.New("the archive unpacks to too much")
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}

// The names that an OCI layer uses for what it removes (image-spec, layer.md).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// layer unpacks one layer over those below. A whiteout removes what lower layers brought and never what its own did, in
// whichever order the two come.
type layer struct {
	root *rootfs
	own  map[string]bool // paths of this layer, with the folders above them
}

func (l *layer) apply(h *tar.Header, content io.Reader) error {
	name, err := local(h.Name)
	if err != nil {
		return err
	}
	dir, base := path.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	switch {
	case base == opaque:
		return l.empty(dir)
	case strings.HasPrefix(base, whiteout):
		gone := strings.TrimPrefix(base, whiteout)
		if gone == "" || gone == "." || gone == ".." {
			return fmt.Errorf("%q is no whiteout", h.Name)
		}
		if gone = path.Join(dir, gone); l.own[gone] {
			return nil
		}
		return l.root.remove(gone)
	}
	for p := name; p != "" && !l.own[p]; {
		l.own[p] = true
		if p = path.Dir(p); p == "." {
			break
		}
	}
	return l.root.apply(h, content)
}

// empty removes from a folder what this layer did not bring.
func (l *layer) empty(dir string) error {
	names, err := l.root.names(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		p := path.Join(dir, n)
		if l.own[p] {
			if err := l.empty(p); err != nil {
				return err
			}
			continue
		}
		if err := l.root.remove(p); err != nil {
			return err
		}
	}
	return nil
}
