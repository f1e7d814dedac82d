package image

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/erofs/go-erofs"

	"enplace"
	"enplace/internal/durable"
)

// Pack makes an image of src and gives its name. FileInfo.Sys may be a *Stat; without one an entry belongs to root, and a
// link is read through fs.ReadLinkFS. Times are not kept and the order of src does not count, so the same tree gives the
// same digest; packing one that is there already changes nothing. Sockets are left out. When Pack returns, the image
// survives a crash.
//
// Over MaxBytes or MaxFiles the error is an enplace.Error of kind too_large; a name that no image can hold is of kind
// invalid, and a full disk of kind unavailable.
func (s *Store) Pack(ctx context.Context, src fs.FS) (Info, error) {
	t := s.newTree(ctx)
	t.open = func(p string) (io.ReadCloser, error) { return src.Open(p) }
	err := fs.WalkDir(src, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		return t.addFrom(src, p, d)
	})
	if err != nil {
		return Info{}, fmt.Errorf("packing image: %w", err)
	}
	return s.write(t)
}

func (t *tree) addFrom(src fs.FS, p string, d fs.DirEntry) error {
	fi, err := d.Info()
	if err != nil {
		return err
	}
	n := &node{mode: fi.Mode()}
	st, ok := fi.Sys().(*Stat)
	if ok {
		n.stat = *st
	}
	switch n.mode.Type() {
	case 0:
		n.size = fi.Size()
	case fs.ModeSymlink:
		if n.stat.Link == "" {
			if n.stat.Link, err = fs.ReadLink(src, p); err != nil {
				return err
			}
		}
	case fs.ModeDir:
		// A file system that knows only files makes its folders up, by the custom of io/fs as 0555 and with nothing behind
		// them. In a stack such a folder would take everybody's right to write from the one below.
		if fi.Sys() == nil && n.mode.Perm() == 0o555 {
			n.mode = fs.ModeDir | 0o755
		}
	case fs.ModeSocket, fs.ModeIrregular:
		return nil
	}
	return t.add(p, n)
}

// write writes a tree as an image and puts it in its place.
func (s *Store) write(t *tree) (Info, error) {
	tmp, err := os.CreateTemp(s.tmp, "pack-")
	if err != nil {
		return Info{}, fmt.Errorf("packing image: %w", err)
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if err := t.writeTo(tmp); err != nil {
		return Info{}, fmt.Errorf("packing image: %w", durable.Full(err))
	}
	d, err := digestOf(t.ctx, tmp) // only now: the writer comes back to the first block at the end
	if err != nil {
		return Info{}, fmt.Errorf("packing image: %w", err)
	}
	if s.Verify(t.ctx, d) == nil {
		// It may be there only just, by another Pack whose name for it is not on the disk yet.
		if err := durable.SyncFolder(s.images); err != nil {
			return Info{}, fmt.Errorf("packing image: %w", err)
		}
		return s.Stat(d)
	}
	if err := t.ctx.Err(); err != nil {
		return Info{}, err
	}
	if err := tmp.Sync(); err != nil {
		return Info{}, fmt.Errorf("packing image: %w", durable.Full(err))
	}
	return s.commit(d, tmp)
}

// commit gives a finished file its name. It replaces a damaged one.
func (s *Store) commit(d enplace.Digest, tmp *os.File) (Info, error) {
	id, err := identify(tmp)
	if err != nil {
		return Info{}, err
	}
	h, err := readHeader(tmp)
	if err != nil {
		return Info{}, fmt.Errorf("packing image: %w", err)
	}
	s.mu.Lock()
	err = os.Rename(tmp.Name(), s.path(d))
	if err == nil {
		s.verified[d] = id
		s.refers[d] = h.images()
	}
	s.mu.Unlock()
	if err != nil {
		return Info{}, fmt.Errorf("packing image: %w", err)
	}
	if err := durable.SyncFolder(s.images); err != nil {
		return Info{}, fmt.Errorf("packing image: %w", err)
	}
	return infoOf(d, tmp)
}

func (t *tree) writeTo(f *os.File) error {
	out := &limitedFile{f: f, w: bufio.NewWriterSize(f, 1<<20), limit: t.maxBytes}
	w := erofs.Create(out, erofs.WithBuildTime(uint64(epoch.Unix()), 0))
	slices.SortFunc(t.devices, func(a, b *device) int { return strings.Compare(string(a.image), string(b.image)) })
	for _, d := range t.devices {
		out.limit -= d.referred
		if err := w.CopyFrom(d, erofs.MetadataOnly()); err != nil {
			return err
		}
	}
	if err := w.CopyFrom(t); err != nil {
		return err
	}
	for p, n := range t.nodes {
		if n.IsDir() { // CopyFrom says 2 for each; find(1) counts on it
			if err := w.SetNlink(p, n.links()); err != nil {
				return err
			}
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := out.w.Flush(); err != nil {
		return err
	}
	return writeTable(f, t.devices)
}

// limitedFile buffers the writer's many small writes and refuses the byte after the limit.
type limitedFile struct {
	f     *os.File
	w     *bufio.Writer
	at    int64
	limit int64
}

func (l *limitedFile) Write(p []byte) (int, error) {
	if int64(len(p)) > l.limit-l.at {
		return 0, tooLarge(l.limit)
	}
	n, err := l.w.Write(p)
	l.at += int64(n)
	return n, err
}

func (l *limitedFile) Seek(offset int64, whence int) (int64, error) {
	if err := l.w.Flush(); err != nil {
		return 0, err
	}
	at, err := l.f.Seek(offset, whence)
	l.at = at
	return at, err
}
