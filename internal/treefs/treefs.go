// Package treefs shows the entries of a tree, whose bytes are blobs, as a filesystem: what packs or reads a tree need not write
// it to the disk first.
package treefs

import (
	"context"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"enplace"
	"enplace/internal/blob"
	"enplace/internal/image"
)

type treeFS struct {
	ctx   context.Context
	blobs blob.Store
	nodes map[string]*treeNode
}

type treeNode struct {
	name     string
	mode     fs.FileMode
	entry    enplace.TreeEntry
	children []string // names, sorted; of a folder
}

// New gives the filesystem of the entries, as an fs.ReadLinkFS. A path in whiteouts becomes a character device 0:0, by which
// overlayfs hides what lies below it. It is safe for concurrent use.
func New(ctx context.Context, blobs blob.Store, entries []enplace.TreeEntry, whiteouts []string) fs.ReadLinkFS {
	t := &treeFS{ctx: ctx, blobs: blobs, nodes: map[string]*treeNode{".": {name: ".", mode: fs.ModeDir | 0o755}}}
	for _, e := range entries {
		mode := fs.FileMode(0o644)
		switch {
		case e.Type == enplace.EntryLink:
			mode = fs.ModeSymlink | 0o777
		case e.Executable:
			mode = 0o755
		}
		t.add(e.Path, &treeNode{name: path.Base(e.Path), mode: mode, entry: e})
	}
	for _, p := range whiteouts {
		t.add(p, &treeNode{name: path.Base(p), mode: fs.ModeDevice | fs.ModeCharDevice})
	}
	for _, n := range t.nodes {
		slices.Sort(n.children)
	}
	return t
}

func (t *treeFS) add(p string, n *treeNode) {
	t.nodes[p] = n
	for {
		dir := path.Dir(p)
		parent, ok := t.nodes[dir]
		if !ok {
			parent = &treeNode{name: path.Base(dir), mode: fs.ModeDir | 0o755}
			t.nodes[dir] = parent
		}
		parent.children = append(parent.children, path.Base(p))
		if ok {
			return
		}
		p = dir
	}
}

// Open opens a node. The content of a file is opened at its first Read, so that packing holds few files open.
func (t *treeFS) Open(name string) (fs.File, error) {
	n, ok := t.nodes[name]
	if !ok || !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &treeFile{fs: t, path: name, node: n}, nil
}

// ReadLink gives the target of a link.
func (t *treeFS) ReadLink(name string) (string, error) {
	n, ok := t.nodes[name]
	if !ok || n.mode&fs.ModeSymlink == 0 {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return n.entry.Target, nil
}

// Lstat describes a node; links are never followed here.
func (t *treeFS) Lstat(name string) (fs.FileInfo, error) {
	n, ok := t.nodes[name]
	if !ok {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
	}
	return n, nil
}

type treeFile struct {
	fs      *treeFS
	path    string
	node    *treeNode
	content blob.Blob
	read    int
}

func (f *treeFile) Stat() (fs.FileInfo, error) { return f.node, nil }

func (f *treeFile) Read(p []byte) (int, error) {
	if !f.node.mode.IsRegular() {
		return 0, &fs.PathError{Op: "read", Path: f.path, Err: fs.ErrInvalid}
	}
	if f.content == nil {
		b, err := f.fs.blobs.Open(f.fs.ctx, f.node.entry.Digest)
		if err != nil {
			return 0, &fs.PathError{Op: "open", Path: f.path, Err: err}
		}
		f.content = b
	}
	return f.content.Read(p)
}

func (f *treeFile) Close() error {
	if f.content == nil {
		return nil
	}
	return f.content.Close()
}

func (f *treeFile) ReadDir(n int) ([]fs.DirEntry, error) {
	names := f.node.children[f.read:]
	if n > 0 && len(names) == 0 {
		return nil, io.EOF
	}
	if n > 0 {
		names = names[:min(n, len(names))]
	}
	f.read += len(names)
	out := make([]fs.DirEntry, 0, len(names))
	for _, name := range names {
		out = append(out, fs.FileInfoToDirEntry(f.fs.nodes[strings.TrimPrefix(path.Join(f.path, name), "./")]))
	}
	return out, nil
}

// A node is its own FileInfo.
func (n *treeNode) Name() string       { return n.name }
func (n *treeNode) Size() int64        { return n.entry.Size }
func (n *treeNode) Mode() fs.FileMode  { return n.mode }
func (n *treeNode) ModTime() time.Time { return time.Time{} }
func (n *treeNode) IsDir() bool        { return n.mode.IsDir() }
func (n *treeNode) Sys() any           { return &image.Stat{Link: n.entry.Target} }

// Sink keeps what an import brings as blobs of a batch; it is a source.Sink.
type Sink struct{ Batch blob.Batch }

// Add keeps one content.
func (k Sink) Add(ctx context.Context, r io.Reader, limit int64) (enplace.Digest, int64, error) {
	info, err := k.Batch.Add(ctx, r, limit)
	return info.Digest, info.Bytes, err
}
