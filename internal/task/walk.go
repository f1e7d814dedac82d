package task

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"enplace"
)

// What a listing looks at before it gives up: a folder can have a hundred million names of one file, and the memory is the server's.
const (
	maxWalkEntries = 1 << 20
	maxWalkBytes   = 64 << 20 // of names
)

// maxWorkPath is the longest path that Linux takes. What lies deeper can be made, by going there step by step, but not named.
const maxWorkPath = 4095

// walker goes through a working directory by handle. A folder is opened by one call however deep it is, which takes no link for a
// folder in any part of its path, and is closed before one below it is opened.
type walker struct {
	root           *os.File
	ctx            context.Context
	entries, bytes int // that a listing may still look at
}

func newWalker(ctx context.Context, root *os.Root) (*walker, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	return &walker{root: f, ctx: ctx, entries: maxWalkEntries, bytes: maxWalkBytes}, nil
}

func (w *walker) close() { _ = w.root.Close() }

// open opens a folder; nil is one that was removed or replaced since it was seen, or that is too deep to be named.
func (w *walker) open(dir string) *os.File {
	fd, err := unix.Openat2(int(w.root.Fd()), dir, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), dir)
}

// sorted calls each for every entry that is no folder, in the order of its folders and names, after the cursor. An entry belongs to
// the open folder that is given along.
func (w *walker) sorted(dir, cursor string, each func(parent *os.File, name string) error) error {
	f := w.open(dir)
	if f == nil {
		return nil
	}
	defer func() { f.Close() }()
	found, err := w.names(f)
	if err != nil {
		return err
	}
	defer w.forget(found)
	for _, e := range found {
		name := path.Join(dir, e.name)
		switch {
		case w.ctx.Err() != nil:
			return w.ctx.Err()
		case len(name) > maxWorkPath:
		case !e.folder && (cursor == "" || comparePaths(name, cursor) > 0):
			if f == nil {
				if f = w.open(dir); f == nil {
					return nil
				}
			}
			err = each(f, name)
		case e.folder && (cursor == "" || comparePaths(name, cursor) > 0 || strings.HasPrefix(cursor, name+"/")):
			f.Close() // none is held for each level: there may be two thousand
			f = nil
			err = w.sorted(name, cursor, each)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type walkEntry struct {
	name   string
	folder bool
}

// names reads a folder, in the order of its names.
func (w *walker) names(f *os.File) ([]walkEntry, error) {
	var found []walkEntry
	for {
		part, err := f.Readdirnames(4096)
		for _, name := range part {
			found = append(found, walkEntry{name, isFolder(f, name)})
			w.entries--
			w.bytes -= len(name)
		}
		switch {
		case w.entries < 0 || w.bytes < 0:
			return nil, enplace.TooLargef("the working directory has too many entries to list them").
				WithFix("download it: GET /v1/tasks/{id}/archive").WithFix("have the task remove what nobody needs")
		case errors.Is(err, io.EOF):
			slices.SortFunc(found, func(a, b walkEntry) int { return cmp.Compare(a.name, b.name) })
			return found, nil
		case err != nil:
			return nil, err
		case w.ctx.Err() != nil:
			return nil, w.ctx.Err()
		}
	}
}

// forget gives back the bytes of a folder's names, which are held no longer. The entries stay counted: looking at them takes time.
func (w *walker) forget(found []walkEntry) {
	for _, e := range found {
		w.bytes += len(e.name)
	}
}

// unsorted calls each for every entry that is no folder, as the folders have them: a tree of any size takes the memory of the
// paths of its folders that are still to be read.
func (w *walker) unsorted(each func(parent *os.File, name string) error) error {
	pending := 0
	for todo := []string{"."}; len(todo) > 0; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		pending -= len(dir)
		f := w.open(dir)
		if f == nil {
			continue
		}
		err := w.readFolder(f, func(name string, folder bool) error {
			name = path.Join(dir, name)
			switch {
			case len(name) > maxWorkPath:
				return nil
			case !folder:
				return each(f, name)
			}
			todo = append(todo, name)
			if pending += len(name); pending > maxWalkBytes {
				return enplace.TooLargef("the working directory has too many folders to be archived")
			}
			return nil
		})
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) readFolder(f *os.File, each func(name string, folder bool) error) error {
	for {
		part, err := f.Readdirnames(1024)
		for _, name := range part {
			if err := w.ctx.Err(); err != nil {
				return err
			}
			if err := each(name, isFolder(f, name)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func isFolder(parent *os.File, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(int(parent.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// lstat looks at an entry of an open folder, and follows no link.
func lstat(parent *os.File, name string) (fs.FileInfo, string, error) {
	fd, err := unix.Openat(int(parent.Fd()), path.Base(name), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || fi.Mode()&fs.ModeSymlink == 0 {
		return fi, "", err
	}
	target := make([]byte, maxWorkPath+1)
	n, err := unix.Readlinkat(fd, "", target)
	return fi, string(target[:max(n, 0)]), err
}

// openEntry opens a regular file of an open folder, and nothing else: it follows no link and waits for no pipe.
func openEntry(parent *os.File, name string) (*os.File, fs.FileInfo, error) {
	fd, err := unix.Openat(int(parent.Fd()), path.Base(name), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, fi, nil
}

var errNotRegular = errors.New("no regular file")

// comparePaths orders paths as sorted meets them: folder by folder.
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
