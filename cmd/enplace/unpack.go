package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"enplace"
)

// unpacked says what unpack wrote.
type unpacked struct {
	files   int
	bytes   int64
	skipped []string // with the reason behind each
}

// unpack writes the files of a tar below dir. The tar is hostile: a task made every name, link and size in it. Nothing is
// written outside dir, or through a link, be it the tar's or one that was there before; links are made last, and only those
// that cannot lead out. More than limit bytes are an error.
func unpack(r io.Reader, dir string, limit int64) (unpacked, error) {
	var got unpacked
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return got, enplace.Invalidf("cannot make the folder %s", dir).WithCause(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return got, enplace.Invalidf("cannot open the folder %s", dir).WithCause(err)
	}
	defer root.Close()
	var links []*tar.Header
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		switch {
		case err == io.EOF:
			return got, makeLinks(root, links, &got)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return got, enplace.Errorf(enplace.KindUpstream, "the download was cut, or is no tar").WithCause(err).WithFix("try again: enplace task archive TASK --extract DIR")
		case !filepath.IsLocal(h.Name) || path.Clean(h.Name) != h.Name:
			got.skipped = append(got.skipped, h.Name+": its name leads elsewhere")
		case h.Typeflag == tar.TypeSymlink:
			links = append(links, h)
		case h.Typeflag == tar.TypeReg:
			if h.Size > limit-got.bytes {
				return got, enplace.TooLargef("the task left more than the %s that its disk holds, so there is a file with holes in it", size(limit)).
					WithFix("download single files: enplace task get TASK PATH")
			}
			if err := unpackFile(root, tr, h); err != nil {
				return got, fmt.Errorf("unpacking %s: %w", printable(h.Name), err)
			}
			got.files++
			got.bytes += h.Size
		default:
			got.skipped = append(got.skipped, h.Name+": no regular file")
		}
	}
}

func unpackFile(root *os.Root, content io.Reader, h *tar.Header) error {
	if err := makeWay(root, h.Name); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if h.Mode&0o100 != 0 {
		mode = 0o755
	}
	f, err := root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, content, h.Size)
	return errors.Join(err, f.Close())
}

// makeWay makes the folders above a name and removes what is in its place. A link on the way is an error: it would lead the
// file to where it does not belong.
func makeWay(root *os.Root, name string) error {
	for i, r := range name {
		if r != '/' {
			continue
		}
		dir := name[:i]
		fi, err := root.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			err = root.Mkdir(dir, 0o755)
		} else if err == nil && !fi.IsDir() {
			err = fmt.Errorf("%s is in the way and is no folder", printable(dir))
		}
		if err != nil {
			return err
		}
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func makeLinks(root *os.Root, links []*tar.Header, got *unpacked) error {
	for _, h := range links {
		if enplace.CheckLink(h.Name, h.Linkname) != nil {
			got.skipped = append(got.skipped, h.Name+": a link that leads out")
			continue
		}
		if err := makeWay(root, h.Name); err != nil {
			return fmt.Errorf("unpacking %s: %w", printable(h.Name), err)
		}
		if err := root.Symlink(h.Linkname, h.Name); err != nil {
			return fmt.Errorf("unpacking %s: %w", printable(h.Name), err)
		}
		got.files++
	}
	return nil
}
