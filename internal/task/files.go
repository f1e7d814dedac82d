package task

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
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
	err = walk(ctx, w.Root, ".", p.Cursor, func(name string, fi fs.FileInfo) error {
		if len(out.Items) == p.Limit {
			out.Next = out.Items[p.Limit-1].Path
			return fs.SkipAll
		}
		out.Items = append(out.Items, workFile(w.Root, name, fi))
		return nil
	})
	return out, err
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
	return workFile(w.Root, name, fi), &workReader{Reader: io.LimitReader(f, fi.Size()), file: f, work: w}, nil
}

// Archive gives the working directory as an uncompressed tar. Links that lead out of it are left out.
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

// walk calls each for every entry that is no folder, in the order of its folders and names, after the cursor.
func walk(ctx context.Context, root *os.Root, dir, cursor string, each func(string, fs.FileInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil //nolint:nilerr // it was removed or replaced since it was listed
	}
	names, err := f.Readdirnames(-1)
	f.Close()
	if err != nil {
		return fmt.Errorf("listing a working directory: %w", err)
	}
	slices.Sort(names)
	for _, n := range names {
		name := path.Join(dir, n)
		fi, err := root.Lstat(name)
		if err != nil {
			continue
		}
		if fi.IsDir() {
			if cursor != "" && comparePaths(name, cursor) < 0 && !strings.HasPrefix(cursor, name+"/") {
				continue
			}
			err = walk(ctx, root, name, cursor, each)
		} else if cursor == "" || comparePaths(name, cursor) > 0 {
			err = each(name, fi)
		}
		if errors.Is(err, fs.SkipAll) && dir == "." {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// comparePaths orders paths as walk meets them: folder by folder.
func comparePaths(a, b string) int {
	for a != "" && b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, "/")
		y, b, _ = strings.Cut(b, "/")
		if x != y {
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(a, b)
}

func workFile(root *os.Root, name string, fi fs.FileInfo) enplace.WorkFile {
	w := enplace.WorkFile{Path: strings.ToValidUTF8(name, "\uFFFD"), Type: "other", Mode: fmt.Sprintf("%04o", fi.Mode().Perm()), ModifiedAt: fi.ModTime().UTC()}
	switch {
	case fi.Mode().IsRegular():
		w.Type, w.Size = "file", fi.Size()
	case fi.Mode()&fs.ModeSymlink != 0:
		target, _ := root.Readlink(name)
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
	tw := tar.NewWriter(out)
	err := walk(ctx, root, ".", "", func(name string, fi fs.FileInfo) error {
		if fi.Mode()&fs.ModeSymlink != 0 {
			target, err := root.Readlink(name)
			if err != nil || enplace.CheckLink(name, target) != nil {
				return nil //nolint:nilerr // left out, as the comment of Archive says
			}
			return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, ModTime: fi.ModTime()})
		}
		f, fi, err := openRegular(root, name)
		if err != nil {
			return nil //nolint:nilerr // no regular file, or gone meanwhile
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
	})
	if err != nil {
		return err
	}
	return tw.Close()
}
