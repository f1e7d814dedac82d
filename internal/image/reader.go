package image

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/erofs/go-erofs"
	"golang.org/x/sys/unix"

	"enplace"
)

// FS opens an image for reading without mounting it, after verifying it as Acquire does. FileInfo.Sys is a *Stat and links
// are read with fs.ReadLink; Open follows links, as seen from the image's root. The closer is closed last.
func (s *Store) FS(ctx context.Context, d enplace.Digest) (fs.FS, io.Closer, error) {
	o, err := s.openVerified(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	r, err := newReader(o)
	if err != nil {
		o.Close()
		return nil, nil, fmt.Errorf("reading image %s: %w", d, err)
	}
	return r, o, nil
}

// reader is go-erofs's, with our *Stat.
type reader struct {
	img interface {
		fs.ReadDirFS
		fs.StatFS
		fs.ReadLinkFS
	}
}

func newReader(o *opened) (*reader, error) {
	var devices []io.ReaderAt
	for _, f := range o.devices {
		devices = append(devices, f)
	}
	img, err := erofs.Open(zeroTail{o.file}, erofs.WithExtraDevices(devices...))
	if err != nil {
		return nil, err
	}
	r := &reader{}
	var ok bool
	if r.img, ok = img.(interface {
		fs.ReadDirFS
		fs.StatFS
		fs.ReadLinkFS
	}); !ok {
		return nil, fmt.Errorf("the EROFS reader %T cannot list folders or read links", img)
	}
	return r, nil
}

// zeroTail reads as if zeros followed the file. go-erofs reads an inode with 32 bytes of what is behind it, and a short one
// may be the last thing in the file.
type zeroTail struct{ f *os.File }

func (z zeroTail) ReadAt(p []byte, off int64) (int, error) {
	n, err := z.f.ReadAt(p, off)
	if n > 0 && err == io.EOF {
		clear(p[n:])
		return len(p), nil
	}
	return n, err
}

func (r *reader) Open(name string) (fs.File, error) {
	f, err := r.img.Open(name)
	if err != nil {
		return nil, err
	}
	if d, ok := f.(fs.ReadDirFile); ok {
		return &openDirectory{ReadDirFile: d, reader: r, path: name}, nil
	}
	return &openFile{File: f, reader: r, path: name}, nil
}

func (r *reader) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := r.img.ReadDir(name)
	return r.wrap(name, entries), err
}

func (r *reader) wrap(dir string, entries []fs.DirEntry) []fs.DirEntry {
	for i, e := range entries {
		entries[i] = &dirEntry{DirEntry: e, reader: r, path: join(dir, e.Name())}
	}
	return entries
}

func (r *reader) Stat(name string) (fs.FileInfo, error) {
	fi, err := r.img.Stat(name)
	if err != nil {
		return nil, err
	}
	return r.info(name, fi)
}

func (r *reader) Lstat(name string) (fs.FileInfo, error) {
	fi, err := r.img.Lstat(name)
	if err != nil {
		return nil, err
	}
	return r.info(name, fi)
}

func (r *reader) ReadLink(name string) (string, error) { return r.img.ReadLink(name) }

func (r *reader) info(name string, fi fs.FileInfo) (fs.FileInfo, error) {
	raw, ok := fi.Sys().(*erofs.Stat)
	if !ok {
		return nil, fmt.Errorf("the EROFS reader gives a %T", fi.Sys())
	}
	st := &Stat{UID: raw.UID, GID: raw.GID, Rdev: newDecodeDev(raw.Rdev)}
	if fi.Mode()&fs.ModeSymlink != 0 {
		link, err := r.img.ReadLink(name)
		if err != nil {
			return nil, err
		}
		st.Link = link
	}
	if len(raw.Xattrs) > 0 {
		st.Xattrs = make(map[string][]byte, len(raw.Xattrs))
		for k, v := range raw.Xattrs {
			st.Xattrs[k] = []byte(v)
		}
	}
	return &fileInfo{FileInfo: fi, mode: raw.Mode, stat: st}, nil
}

// newDecodeDev undoes newEncodeDev.
func newDecodeDev(dev uint32) uint64 {
	return unix.Mkdev(dev>>8&0xfff, dev&0xff|dev>>12&^uint32(0xff))
}

// fileInfo has the mode of its own because go-erofs's gives the bits of the disk, where setuid and the like stand elsewhere.
type fileInfo struct {
	fs.FileInfo
	mode fs.FileMode
	stat *Stat
}

func (fi *fileInfo) Mode() fs.FileMode { return fi.mode }
func (fi *fileInfo) Sys() any          { return fi.stat }

type dirEntry struct {
	fs.DirEntry
	reader *reader
	path   string
}

func (e *dirEntry) Info() (fs.FileInfo, error) {
	fi, err := e.DirEntry.Info()
	if err != nil {
		return nil, err
	}
	return e.reader.info(e.path, fi)
}

type openFile struct {
	fs.File
	reader *reader
	path   string
}

func (f *openFile) Stat() (fs.FileInfo, error) {
	fi, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return f.reader.info(f.path, fi)
}

type openDirectory struct {
	fs.ReadDirFile
	reader *reader
	path   string
}

func (d *openDirectory) Stat() (fs.FileInfo, error) {
	fi, err := d.ReadDirFile.Stat()
	if err != nil {
		return nil, err
	}
	return d.reader.info(d.path, fi)
}

func (d *openDirectory) ReadDir(n int) ([]fs.DirEntry, error) {
	entries, err := d.ReadDirFile.ReadDir(n)
	return d.reader.wrap(d.path, entries), err
}

func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
