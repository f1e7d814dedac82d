package task

import (
	"archive/tar"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/sandbox"
)

// The working directory is hostile: its names, links, types and sizes are what the task made them, and a running task goes
// on changing them. So everything is opened below one root by handle, no link is followed, and only what is a regular file
// after it was opened is read.

// ListFiles gives the files and links in the working directory, folder by folder.
func (s *Service) ListFiles(ctx context.Context, c enplace.Caller, id string, p enplace.Page) (enplace.List[enplace.WorkFile], error) {
	out := enplace.List[enplace.WorkFile]{Items: []enplace.WorkFile{}}
	w, err := s.work(ctx, c, id)
	if err != nil {
		return out, err
	}
	defer w.Close()
	if p.Limit <= 0 || p.Limit > enplace.MaxListedEntries {
		p.Limit = enplace.MaxListedEntries
	}
	after, err := readCursor(p.Cursor)
	if err != nil {
		return out, err
	}
	walk, err := newWalker(ctx, w.Root)
	if err != nil {
		return out, fmt.Errorf("listing a working directory: %w", err)
	}
	defer walk.close()
	last := ""
	err = walk.sorted(".", after, func(parent *os.File, name string) error {
		if len(out.Items) == p.Limit {
			out.Next = writeCursor(last)
			return fs.SkipAll
		}
		fi, target, err := lstat(parent, name)
		if err != nil {
			return nil //nolint:nilerr // removed since it was listed
		}
		last, out.Items = name, append(out.Items, workFile(name, target, fi))
		return nil
	})
	if errors.Is(err, fs.SkipAll) {
		err = nil
	}
	return out, err
}

// A cursor is the last path of a page in another writing: names may be no text, and what is shown of such a name is not where it was.
func writeCursor(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

func readCursor(cursor string) (string, error) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) > maxWorkPath {
		return "", enplace.Errorf(enplace.KindMalformed, "is not the next of a page of this list").WithField("cursor")
	}
	return string(b), nil
}

// OpenFile opens one regular file of the working directory.
func (s *Service) OpenFile(ctx context.Context, c enplace.Caller, id, name string) (enplace.WorkFile, io.ReadCloser, error) {
	w, err := s.work(ctx, c, id)
	if err != nil {
		return enplace.WorkFile{}, nil, err
	}
	f, fi, err := openRegular(w.Root, name)
	if err != nil {
		w.Close()
		return enplace.WorkFile{}, nil, err
	}
	return workFile(name, "", fi), &workReader{Reader: io.LimitReader(f, fi.Size()), file: f, work: w}, nil
}

// Archive gives the working directory as an uncompressed tar. Left out are links that lead out of it, what is
// neither file nor link, and what lies deeper than a path can say.
func (s *Service) Archive(ctx context.Context, c enplace.Caller, id string) (io.ReadCloser, error) {
	w, err := s.work(ctx, c, id)
	if err != nil {
		return nil, err
	}
	r, pipe := io.Pipe()
	go func() {
		defer w.Close()
		pipe.CloseWithError(archive(ctx, w.Root, pipe))
	}()
	return r, nil
}

// work opens the working directory of a task that runs or has ended.
func (s *Service) work(ctx context.Context, c enplace.Caller, id string) (*sandbox.Work, error) {
	rec, err := s.load(ctx, c, access.Read, id)
	if err != nil {
		return nil, err
	}
	if rec.Purged {
		return nil, purged(rec)
	}
	if !rec.Status.Ended() {
		if _, err := s.await(ctx, id); err != nil {
			return nil, err
		}
	}
	w, err := s.cfg.Runtime.Work(ctx, id)
	if errors.Is(err, sandbox.ErrNotFound) {
		return nil, enplace.NotFoundf("the task has no working directory: it ended before it had one")
	}
	return w, err
}

func workFile(name, target string, fi fs.FileInfo) enplace.WorkFile {
	w := enplace.WorkFile{Path: strings.ToValidUTF8(name, "\uFFFD"), Type: "other", Mode: fmt.Sprintf("%04o", fi.Mode().Perm()), ModifiedAt: fi.ModTime().UTC()}
	switch {
	case fi.Mode().IsRegular():
		w.Type, w.Size = "file", fi.Size()
	case fi.Mode()&fs.ModeSymlink != 0:
		w.Type, w.Target = "link", strings.ToValidUTF8(target, "\uFFFD")
	}
	return w
}

// openRegular opens a file, follows no link at its end, waits for no pipe, and gives it only if it is regular.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	missing := enplace.NotFoundf("the task left no file %s", strings.ToValidUTF8(name, "\uFFFD")).WithFix("list its files")
	if !fs.ValidPath(name) || name == "." {
		return nil, nil, missing
	}
	if fi, err := root.Lstat(name); err != nil {
		return nil, nil, missing
	} else if !fi.Mode().IsRegular() {
		return nil, nil, enplace.Invalidf("%s is not a regular file, so it cannot be downloaded", name).WithField("path")
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, missing
	}
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, nil, missing
	}
	return f, fi, nil
}

type workReader struct {
	io.Reader
	file *os.File
	work *sandbox.Work
}

func (r *workReader) Close() error {
	return errors.Join(r.file.Close(), r.work.Close())
}

func archive(ctx context.Context, root *os.Root, out io.Writer) error {
	walk, err := newWalker(ctx, root)
	if err != nil {
		return fmt.Errorf("archiving a working directory: %w", err)
	}
	defer walk.close()
	tw := tar.NewWriter(out)
	if err := walk.unsorted(func(parent *os.File, name string) error { return archiveEntry(tw, parent, name) }); err != nil {
		return err
	}
	return tw.Close()
}

// archiveEntry adds a file or a link. What is neither, or gone meanwhile, is left out, as are links that lead out.
func archiveEntry(tw *tar.Writer, parent *os.File, name string) error {
	f, fi, err := openEntry(parent, name)
	if err != nil {
		fi, target, err := lstat(parent, name)
		if err != nil || fi.Mode()&fs.ModeSymlink == 0 || enplace.CheckLink(name, target) != nil {
			return nil //nolint:nilerr // as said
		}
		return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, ModTime: fi.ModTime()})
	}
	defer f.Close()
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: fi.Size(), Mode: int64(fi.Mode().Perm()), ModTime: fi.ModTime()}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.CopyN(tw, f, fi.Size()); err != nil {
		return fmt.Errorf("%s changed while it was archived: %w", name, err)
	}
	return nil
}
