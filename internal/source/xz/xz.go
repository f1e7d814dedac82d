// Package xz reads .xz files of strangers in bounded memory. The container is read here, and LZMA2 by
// github.com/ulikunitz/xz/lzma, because that module's own reader takes the size of the dictionary, up to 4 GiB, from the file
// without a way to limit it. Format: tukaani.org/xz/xz-file-format.txt, version 1.2; LZMA2 is the one filter it takes.
package xz

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

const (
	// MaxDict is the largest dictionary taken: that of `xz -9`.
	MaxDict = 64 << 20
	// maxBlocks bounds the dictionaries that one file can ask for, one after the other.
	maxBlocks = 4096
)

// What a sound file may be refused for.
var (
	ErrMemory = fmt.Errorf("xz: needs a dictionary of more than %d MiB, or more than %d of them", MaxDict>>20, maxBlocks)
	ErrFilter = errors.New("xz: uses a filter other than LZMA2")
)

var (
	magic       = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
	footerMagic = []byte{'Y', 'Z'}

	errDamaged = errors.New("xz: damaged")
)

// Reader reads all streams of a file, one after the other.
type Reader struct {
	in     *counter
	flags  [2]byte
	check  hash.Hash // nil for none
	block  io.Reader // nil between blocks
	start  int64     // where the block's data starts
	blocks int
	open   bool // inside a stream
	err    error
}

// NewReader reads the header of the first stream.
func NewReader(r io.Reader) (*Reader, error) {
	z := &Reader{in: &counter{r: bufio.NewReader(r)}}
	if err := z.header(); err != nil {
		return nil, cut(err)
	}
	return z, nil
}

// Read gives io.EOF when the last stream has ended and all its checks held.
func (z *Reader) Read(p []byte) (int, error) {
	for z.err == nil {
		if z.block == nil {
			z.err = z.next()
			continue
		}
		n, err := z.block.Read(p)
		if z.check != nil {
			z.check.Write(p[:n])
		}
		switch err {
		case nil:
		case io.EOF:
			z.block = nil
			z.err = z.endBlock()
		default:
			z.err = cut(err)
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
	}
	return 0, z.err
}

// next starts the next block, or reads the index and starts the next stream. It gives io.EOF at the end of the file.
func (z *Reader) next() error {
	if !z.open {
		return z.nextStream()
	}
	head := z.in.n
	size, err := z.in.ReadByte()
	if err != nil {
		return cut(err)
	}
	if size == 0 {
		z.open = false
		return cut(z.endStream(head))
	}
	buf := make([]byte, (int(size)+1)*4)
	buf[0] = size
	if _, err := io.ReadFull(z.in, buf[1:]); err != nil {
		return cut(err)
	}
	dict, err := blockDict(buf)
	if err != nil {
		return err
	}
	if z.blocks++; z.blocks > maxBlocks {
		return ErrMemory
	}
	if z.check != nil {
		z.check.Reset()
	}
	z.start = z.in.n
	z.block, err = lzma.Reader2Config{DictCap: dict}.NewReader2(z.in)
	return cut(err)
}

// blockDict checks a block's header and gives the size of its dictionary.
func blockDict(b []byte) (int, error) {
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.ChecksumIEEE(body) != sum {
		return 0, errDamaged
	}
	flags := body[1]
	if flags&0x3c != 0 {
		return 0, errDamaged
	}
	if flags&3 != 0 {
		return 0, ErrFilter
	}
	r := bytes.NewReader(body[2:])
	for _, bit := range []byte{0x40, 0x80} { // the sizes of the block, packed and unpacked
		if flags&bit != 0 {
			if _, err := binary.ReadUvarint(r); err != nil {
				return 0, errDamaged
			}
		}
	}
	var filter [3]byte
	if _, err := io.ReadFull(r, filter[:]); err != nil {
		return 0, errDamaged
	}
	if filter[0] != 0x21 || filter[1] != 1 {
		return 0, ErrFilter
	}
	dict, err := lzma.DecodeDictCap(filter[2])
	if err != nil {
		return 0, errDamaged
	}
	if dict > MaxDict {
		return 0, ErrMemory
	}
	return max(int(dict), lzma.MinDictCap), nil
}

// endBlock reads the padding and compares the check.
func (z *Reader) endBlock() error {
	if err := z.padding(z.in.n - z.start); err != nil {
		return err
	}
	want := make([]byte, checkSize(z.flags[1]))
	if _, err := io.ReadFull(z.in, want); err != nil {
		return cut(err)
	}
	if z.check == nil {
		return nil
	}
	got := z.check.Sum(nil)
	if z.flags[1] != 10 { // CRCs are stored with their lowest byte first
		for i, j := 0, len(got)-1; i < j; i, j = i+1, j-1 {
			got[i], got[j] = got[j], got[i]
		}
	}
	if !bytes.Equal(got, want) {
		return errDamaged
	}
	return nil
}

// endStream reads the index, which began at the offset start, and the footer. The index repeats what the blocks said, so
// that only its own sum is checked.
func (z *Reader) endStream(start int64) error {
	sum := crc32.NewIEEE()
	sum.Write([]byte{0})
	z.in.sum = sum
	records, err := binary.ReadUvarint(z.in)
	if err != nil {
		return err
	}
	if records > maxBlocks {
		return ErrMemory
	}
	for range records * 2 {
		if _, err := binary.ReadUvarint(z.in); err != nil {
			return err
		}
	}
	if err := z.padding(z.in.n - start); err != nil {
		return err
	}
	z.in.sum = nil
	var tail [16]byte // the index's sum; the footer's sum, backward size, flags, magic
	if _, err := io.ReadFull(z.in, tail[:]); err != nil {
		return err
	}
	footer := tail[4:]
	if binary.LittleEndian.Uint32(tail[:]) != sum.Sum32() || binary.LittleEndian.Uint32(footer) != crc32.ChecksumIEEE(footer[4:10]) ||
		!bytes.Equal(footer[8:10], z.flags[:]) || !bytes.Equal(footer[10:], footerMagic) {
		return errDamaged
	}
	return nil
}

// nextStream skips padding between streams and reads the next header, or gives io.EOF.
func (z *Reader) nextStream() error {
	for {
		b, err := z.in.r.Peek(4)
		switch {
		case len(b) == 0 && err == io.EOF:
			return io.EOF
		case err != nil:
			return cut(err)
		case !bytes.Equal(b, []byte{0, 0, 0, 0}):
			return cut(z.header())
		}
		if _, err := z.in.r.Discard(4); err != nil {
			return cut(err)
		}
	}
}

func (z *Reader) header() error {
	var b [12]byte
	if _, err := io.ReadFull(z.in, b[:]); err != nil {
		return err
	}
	if !bytes.Equal(b[:6], magic) || b[6] != 0 || b[7] > 15 || binary.LittleEndian.Uint32(b[8:]) != crc32.ChecksumIEEE(b[6:8]) {
		return errDamaged
	}
	copy(z.flags[:], b[6:8])
	switch z.flags[1] {
	case 1:
		z.check = crc32.NewIEEE()
	case 4:
		z.check = crc64.New(crc64.MakeTable(crc64.ECMA))
	case 10:
		z.check = sha256.New()
	default: // none, or one that the format allows to leave unchecked
		z.check = nil
	}
	z.open = true
	return nil
}

// padding reads the zero bytes that fill n up to a multiple of four.
func (z *Reader) padding(n int64) error {
	for ; n%4 != 0; n++ {
		b, err := z.in.ReadByte()
		if err != nil {
			return cut(err)
		}
		if b != 0 {
			return errDamaged
		}
	}
	return nil
}

// checkSize is the size of a check by its id (section 2.1.1.2 of the format).
func checkSize(id byte) int {
	return []int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}[id]
}

// cut makes an end in the middle of something the error that it is.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// counter counts what is taken from r, and sums it while sum is set.
type counter struct {
	r   *bufio.Reader
	n   int64
	sum hash.Hash32
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.sum != nil {
		c.sum.Write(p[:n])
	}
	return n, err
}

func (c *counter) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
		if c.sum != nil {
			c.sum.Write([]byte{b})
		}
	}
	return b, err
}
