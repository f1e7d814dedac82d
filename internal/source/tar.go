package source

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"regexp"

	"enplace"
)

// maxTrailer bounds what is read behind the end of a tar to have the checksum around it verified. Real archives are padded
// to a few MiB at most.
const maxTrailer = 16 << 20

var commitID = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// tar imports the entries of a tar.
func (c *collector) tar(ctx context.Context, r io.Reader, format string) error {
	end := &endWatch{r: r}
	tr := tar.NewReader(end)
	last := ""
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // names are checked below, all by one rule
			return damaged(format, last, err)
		}
		last = h.Name
		if err := c.tarEntry(ctx, h, tr); err != nil {
			return damaged(format, last, err)
		}
	}
	if end.eof && end.zeros < tarBlock {
		return damaged(format, last, io.ErrUnexpectedEOF)
	}
	if _, err := io.CopyN(io.Discard, end, maxTrailer); err != nil && !errors.Is(err, io.EOF) {
		return damaged(format, last, err)
	}
	return nil
}

func (c *collector) tarEntry(ctx context.Context, h *tar.Header, r io.Reader) error {
	switch h.Typeflag {
	case tar.TypeXGlobalHeader: // git writes the commit there
		if id := h.PAXRecords["comment"]; commitID.MatchString(id) {
			c.commit = id
		}
		return nil
	case 'V', 'D': // GNU: a volume's label, the listing of a dumped folder
		return nil
	}
	name, skip, err := c.name(h.Name, false, h.Typeflag == tar.TypeDir)
	if err != nil || skip {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		return c.file(ctx, name, h.Mode&0o111 != 0, r)
	case tar.TypeDir:
		return c.folder(name)
	case tar.TypeSymlink:
		return c.link(name, h.Linkname)
	case tar.TypeLink:
		return c.hardLink(name, h.Linkname)
	case tar.TypeChar, tar.TypeBlock:
		return c.special(name, "a device")
	case tar.TypeFifo:
		return c.special(name, "a named pipe")
	}
	return c.special(name, "of a kind that is no file, folder or link")
}

func (c *collector) special(name, what string) error {
	return c.refuse(name, enplace.Invalidf("is %s; leave it out of the archive", what).WithField(shown(name)))
}

// endWatch tells an archive that ends with its end marker, which is zero blocks, from one that was cut between two entries.
type endWatch struct {
	r     io.Reader
	zeros int
	eof   bool
}

func (e *endWatch) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	e.eof = e.eof || n == 0 && err == io.EOF
	i := n
	for i > 0 && p[i-1] == 0 {
		i--
	}
	if i > 0 {
		e.zeros = 0
	}
	e.zeros += n - i
	return n, err
}
