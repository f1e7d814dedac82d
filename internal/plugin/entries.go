package plugin

import (
	"cmp"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"

	"enplace"
)

// Open opens the content of a file of a tree by its digest.
type Open func(enplace.Digest) (io.ReadCloser, error)

// FromEntries shows what an import brought as a filesystem for Read. unwrapped is the single top folder that the import took
// off (enplace.ImportReport.Unwrapped): where it was environments/ itself, as in an archive of nothing else, it is put back.
// The entries are without clashes, as an import leaves them. A file is opened at its first Read.
func FromEntries(entries []enplace.TreeEntry, unwrapped string, open Open) fs.FS {
	t := &tree{open: open, nodes: map[string]*node{".": {name: ".", mode: fs.ModeDir | 0o755}}}
	for _, e := range entries {
		n := &node{entry: e, mode: 0o644}
		if e.Type == enplace.EntryLink {
			n.mode = fs.ModeSymlink | 0o777
		}
		name := e.Path
		if unwrapped == enplace.ItemsFolder {
			name = path.Join(enplace.ItemsFolder, name)
		}
		t.add(name, n)
	}
	for _, n := range t.nodes {
		slices.SortFunc(n.children, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	}
	return t
}

// tree is a read-only filesystem of an import's entries. It is safe for concurrent use.
type tree struct {
	open  Open
	nodes map[string]*node
}

type node struct {
	name     string
	mode     fs.FileMode
	entry    enplace.TreeEntry
	children []fs.DirEntry
}

// add puts a node at its path, with the folders above it.
func (t *tree) add(name string, n *node) {
	for {
		n.name = path.Base(name)
		t.nodes[name] = n
		dir := path.Dir(name)
		parent, ok := t.nodes[dir]
		if !ok {
			parent = &node{mode: fs.ModeDir | 0o755}
		}
		parent.children = append(parent.children, fs.FileInfoToDirEntry(n))
		if ok {
			return
		}
		name, n = dir, parent
	}
}

func (t *tree) node(op, name string) (*node, error) {
	n, ok := t.nodes[name]
	if !ok || !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return n, nil
}

// Open opens a file or folder. Links are not followed.
func (t *tree) Open(name string) (fs.File, error) {
	n, err := t.node("open", name)
	if err != nil {
		return nil, err
	}
	if n.mode&fs.ModeSymlink != 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return &file{node: n, open: t.open}, nil
}

// Lstat describes a node.
func (t *tree) Lstat(name string) (fs.FileInfo, error) {
	n, err := t.node("lstat", name)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// ReadLink gives the target of a link.
func (t *tree) ReadLink(name string) (string, error) {
	n, err := t.node("readlink", name)
	if err == nil && n.mode&fs.ModeSymlink == 0 {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		return "", err
	}
	return n.entry.Target, nil
}

func (n *node) Name() string       { return n.name }
func (n *node) Size() int64        { return n.entry.Size }
func (n *node) Mode() fs.FileMode  { return n.mode }
func (n *node) ModTime() time.Time { return time.Time{} }
func (n *node) IsDir() bool        { return n.mode.IsDir() }
func (n *node) Sys() any           { return nil }

// file is an open node.
type file struct {
	node    *node
	open    Open
	content io.ReadCloser
	at      int // in the children
}

func (f *file) Stat() (fs.FileInfo, error) { return f.node, nil }

func (f *file) Read(p []byte) (int, error) {
	if f.node.IsDir() {
		return 0, &fs.PathError{Op: "read", Path: f.node.name, Err: fs.ErrInvalid}
	}
	if f.content == nil {
		content, err := f.open(f.node.entry.Digest)
		if err != nil {
			return 0, err
		}
		f.content = content
	}
	return f.content.Read(p)
}

func (f *file) Close() error {
	if f.content == nil {
		return nil
	}
	return f.content.Close()
}

// ReadDir gives the next n entries of a folder, or all that are left.
func (f *file) ReadDir(n int) ([]fs.DirEntry, error) {
	if !f.node.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: f.node.name, Err: fs.ErrInvalid}
	}
	rest := f.node.children[f.at:]
	if n > 0 {
		if len(rest) == 0 {
			return nil, io.EOF
		}
		rest = rest[:min(n, len(rest))]
	}
	f.at += len(rest)
	return slices.Clone(rest), nil
}
