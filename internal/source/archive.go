package source

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"enplace"
	"enplace/internal/source/xz"
)

const formats = "zip, tar, tar.gz, tar.bz2, tar.xz or tar.zst"

func archive(ctx context.Context, r io.Reader, sink Sink, scratch string, l limits) (Result, error) {
	sent := &meter{ctx: ctx, r: r, keep: true, max: l.archiveBytes, over: func() error {
		return enplace.TooLargef("the archive is larger than %s; leave out what a build makes or downloads by itself", size(l.archiveBytes))
	}}
	in := bufio.NewReaderSize(sent, 64<<10)
	head, err := in.Peek(tarBlock)
	if err != nil && !errors.Is(err, io.EOF) {
		return Result{}, sent.explain(err)
	}
	c := newCollector(sink, l)
	if isZip(head) {
		err = readZip(ctx, c, in, scratch)
	} else {
		err = readTar(ctx, c, in, head)
	}
	if err != nil {
		return Result{}, sent.explain(err)
	}
	return c.finish(true)
}

func isZip(head []byte) bool {
	return bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte("PK\x05\x06")) || bytes.HasPrefix(head, []byte("PK\x07\x08PK\x03\x04"))
}

// readTar unpacks what lies around a tar, if anything does, and imports it.
func readTar(ctx context.Context, c *collector, in io.Reader, head []byte) error {
	format, plain, done, err := decompress(in, head)
	if err != nil {
		return damaged(format, "", err)
	}
	defer done()
	unpacked := &meter{ctx: ctx, r: plain, max: c.l.scannedBytes, over: func() error {
		return enplace.TooLargef("the archive unpacks to more than %s; leave out what is never imported, such as node_modules and .venv", size(c.l.scannedBytes))
	}}
	br := bufio.NewReaderSize(unpacked, 64<<10)
	first, err := br.Peek(tarBlock)
	if err != nil && !errors.Is(err, io.EOF) {
		return unpacked.explain(damaged(format, "", err))
	}
	if !isTar(first) {
		if format == "tar" {
			return enplace.Invalidf("this is no archive of a known format; send %s", formats)
		}
		return enplace.Invalidf("this is a %s file without a tar inside; send %s", strings.TrimPrefix(format, "tar."), formats)
	}
	return unpacked.explain(c.tar(ctx, br, format))
}

// decompress finds out the format by the first bytes. Windows and dictionaries are bounded, so that a header cannot ask for
// more memory than that.
func decompress(in io.Reader, head []byte) (format string, plain io.Reader, done func(), err error) {
	done = func() {}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		format = "tar.gz"
		plain, err = gzip.NewReader(in)
	case bytes.HasPrefix(head, []byte("BZh")):
		format, plain = "tar.bz2", bzip2.NewReader(in)
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		format = "tar.xz"
		plain, err = xz.NewReader(in)
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(head) > 4 && head[0]&0xf0 == 0x50 && bytes.HasPrefix(head[1:], []byte{0x2a, 0x4d, 0x18}):
		format = "tar.zst"
		var z *zstd.Decoder
		z, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(128<<20))
		if err == nil {
			plain, done = z, z.Close
		}
	default:
		format, plain = "tar", in
	}
	return format, plain, done, err
}

const tarBlock = 512

// isTar checks the sum of the first header, which tars had before they had a magic number. A tar may also be empty.
func isTar(b []byte) bool {
	if len(b) < tarBlock {
		return false
	}
	if len(bytes.TrimLeft(b, "\x00")) == 0 {
		return true
	}
	want, err := strconv.ParseInt(strings.Trim(string(b[148:156]), " \x00"), 8, 64)
	if err != nil {
		return false
	}
	unsigned, signed := int64(8*' '), int64(8*' ')
	for i, v := range b {
		if i < 148 || i >= 156 {
			unsigned += int64(v)
			signed += int64(int8(v))
		}
	}
	return want == unsigned || want == signed
}

// readZip keeps a nameless copy, since a zip has its directory at its end.
func readZip(ctx context.Context, c *collector, in io.Reader, scratch string) error {
	f, err := os.CreateTemp(scratch, "import-*")
	if err != nil {
		return fmt.Errorf("making a scratch file: %w", err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return fmt.Errorf("unlinking the scratch file: %w", err)
	}
	n, err := io.Copy(f, in)
	if err != nil {
		return fmt.Errorf("copying the archive: %w", err)
	}
	return c.zip(ctx, f, n)
}

// damaged says that an archive cannot be read on, behind the entry named last.
func damaged(format, after string, err error) error {
	switch {
	case isOwn(err):
		return err
	case errors.Is(err, xz.ErrMemory), errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return enplace.Invalidf("the %s archive needs more memory than an import gets; make it with the usual settings of the tool", format).WithCause(err)
	case errors.Is(err, xz.ErrFilter):
		return enplace.Invalidf("the %s archive uses a filter for programs; make it with the usual settings of xz", format).WithCause(err)
	}
	at := "at its start"
	if after != "" {
		at = "at or behind " + strconv.Quote(shown(after))
	}
	return enplace.Invalidf("the %s archive is damaged or cut short %s; make it again and send it again", format, at).WithCause(err)
}

// meter passes on at most max bytes and remembers why it stopped, since the readers above it turn errors into their own.
type meter struct {
	ctx  context.Context
	r    io.Reader
	n    int64
	max  int64
	over func() error
	keep bool // errors of r are not of what it carries, and stop the meter too
	err  error
}

func (m *meter) Read(p []byte) (int, error) {
	if m.err == nil {
		m.err = m.ctx.Err()
	}
	if m.err != nil {
		return 0, m.err
	}
	n, err := m.r.Read(p)
	if m.n += int64(n); m.n > m.max {
		m.err = m.over()
		return 0, m.err
	}
	if m.keep && err != nil && err != io.EOF {
		m.err = fmt.Errorf("reading the archive: %w", err)
	}
	return n, err
}

// explain gives the error that stopped the meter, if one did, in place of what became of it above.
func (m *meter) explain(err error) error {
	if err != nil && m.err != nil {
		return m.err
	}
	return err
}

// size gives whole MiB where it can; limits are.
func size(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
