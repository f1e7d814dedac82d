package source

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"enplace"
)

// maxZipDirectory bounds the memory that a zip's directory costs: about 250,000 real entries, and 700,000 made to harm.
const maxZipDirectory = 32 << 20

// The systems that an entry says it was made on (APPNOTE 4.4.2), and its flags (4.4.4).
const (
	madeOnDOS, madeOnUnix, madeOnNTFS, madeOnVFAT, madeOnMacOS = 0, 3, 10, 14, 19
	madeOnNTFSToo                                              = 11 // what Info-ZIP writes for it

	flagEncrypted, flagUTF8 = 0x1, 0x800
)

// zip imports the entries of a zip, in the order of its directory. Sizes in headers are not believed.
func (c *collector) zip(ctx context.Context, r io.ReaderAt, n int64) error {
	directory := &directoryReader{r: r, left: maxZipDirectory}
	z, err := zip.NewReader(directory, n)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // names are checked below, all by one rule
		if directory.left < 0 {
			return enplace.TooLargef("the zip lists too many entries; the limit is %d, so leave out what is never imported, such as node_modules and .venv", c.l.entries)
		}
		return damaged("zip", "", err)
	}
	directory.open = true
	if commitID.MatchString(z.Comment) { // git writes the commit there
		c.commit = z.Comment
	}
	for _, f := range z.File {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.zipEntry(ctx, f); err != nil {
			return damaged("zip", f.Name, err)
		}
	}
	return nil
}

func (c *collector) zipEntry(ctx context.Context, f *zip.File) error {
	raw, err := c.zipName(f)
	if err != nil {
		return err
	}
	system := f.CreatorVersion >> 8
	dos := system == madeOnDOS || system == madeOnNTFS || system == madeOnNTFSToo || system == madeOnVFAT
	mode := f.Mode()
	folder := strings.HasSuffix(raw, "/") || strings.HasSuffix(raw, `\`) || mode.IsDir()
	name, skip, err := c.name(raw, dos, folder)
	if err != nil || skip {
		return err
	}
	switch {
	case folder:
		return c.folder(name)
	case mode&fs.ModeSymlink == 0 && !mode.IsRegular():
		return c.special(name, "a device, named pipe or socket")
	case f.Flags&flagEncrypted != 0:
		return c.refuse(name, enplace.Invalidf("is encrypted; make the zip without a password").WithField(shown(name)))
	}
	content, err := f.Open()
	if errors.Is(err, zip.ErrAlgorithm) {
		return c.refuse(name, enplace.Invalidf("is packed by method %d, which is not supported; make the zip with the usual method, deflate", f.Method).WithField(shown(name)))
	}
	if err != nil {
		return err
	}
	defer content.Close()
	if mode&fs.ModeSymlink == 0 {
		return c.file(ctx, name, mode&0o111 != 0, content)
	}
	target, err := io.ReadAll(io.LimitReader(content, 4096)) // one more than a target may have
	if err != nil {
		return err
	}
	return c.link(name, string(target))
}

// zipName gives the name in UTF-8. Where nothing says that it is, it is that of the extra field, or UTF-8 if a Unix wrote it
// and it reads as such, or of the code page that DOS began with.
func (c *collector) zipName(f *zip.File) (string, error) {
	if f.Flags&flagUTF8 != 0 || isASCII(f.Name) {
		return f.Name, nil
	}
	if name, ok := unicodePath(f.Extra, f.Name); ok {
		return name, nil
	}
	system := f.CreatorVersion >> 8
	if (system == madeOnUnix || system == madeOnMacOS) && utf8.ValidString(f.Name) {
		return f.Name, nil
	}
	var b strings.Builder
	for i := range len(f.Name) {
		if ch := f.Name[i]; ch < 0x80 {
			b.WriteByte(ch)
		} else {
			b.WriteRune(codePage437[ch-0x80])
		}
	}
	c.renamed.add("read as code page 437, since the zip does not say that the name is UTF-8", b.String())
	return b.String(), nil
}

// unicodePath reads Info-ZIP's field with the name in UTF-8 (APPNOTE 4.6.9), which counts while it fits the name beside it.
func unicodePath(extra []byte, name string) (string, bool) {
	for len(extra) >= 4 {
		id, n := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		extra = extra[4:]
		if n > len(extra) {
			return "", false
		}
		field := extra[:n]
		extra = extra[n:]
		if id == 0x7075 && n > 5 && field[0] == 1 && binary.LittleEndian.Uint32(field[1:]) == crc32.ChecksumIEEE([]byte(name)) {
			return string(field[5:]), utf8.Valid(field[5:])
		}
	}
	return "", false
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// codePage437 is its upper half.
var codePage437 = []rune("ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0")

// directoryReader bounds what zip.NewReader reads, until open.
type directoryReader struct {
	r    io.ReaderAt
	left int64
	open bool
}

var errDirectory = errors.New("the zip's directory is too large")

func (d *directoryReader) ReadAt(p []byte, off int64) (int, error) {
	if !d.open {
		if d.left -= int64(len(p)); d.left < 0 {
			return 0, errDirectory
		}
	}
	return d.r.ReadAt(p, off)
}
