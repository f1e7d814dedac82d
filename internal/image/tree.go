package image

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"strings"
	"time"

	"github.com/erofs/go-erofs"
	"golang.org/x/sys/unix"

	"enplace"
)

// epoch is the time of every entry. It is fixed, so that the same tree gives the same bytes whenever it was made, and it is
// the earliest that zip tools take.
var epoch = time.Date(1980, 1, 2, 0, 0, 0, 0, time.UTC)

const (
	maxPath  = 4095  // longer ones cannot be named to the kernel, and bound how deep a tree is
	maxName  = 255   // as everywhere in Linux
	maxXattr = 65535 // bytes of a value that EROFS can count; all of an entry together have at most twice as many
)

// tree is what goes into an image: all entries, and a way to open the regular files. The entries are gathered before
// anything is written because the writer needs them sorted, with directories' link counts.
//
// It is an fs.FS for the writer alone: files open at their first Read and close at their end, since the writer asks for
// all of them before it reads any.
type tree struct {
	ctx      context.Context
	open     func(path string) (io.ReadCloser, error)
	maxBytes int64
	maxFiles int

	nodes   map[string]*node
	bytes   int64
	devices []*device // that files are referred to in, in no order
}

func (s *Store) newTree(ctx context.Context) *tree {
	return &tree{ctx: ctx, maxBytes: s.MaxBytes, maxFiles: s.MaxFiles, nodes: map[string]*node{}}
}

// node is an entry; it is its own fs.FileInfo and fs.DirEntry.
type node struct {
	name     string
	mode     fs.FileMode
	size     int64
	stat     Stat
	children []fs.DirEntry // without files that are referred to

	// Of a file of an image: where its bytes are, and whether they are to be referred to, not copied.
	device *device
	offset int64
	refer  bool
}

func (n *node) Name() string               { return n.name }
func (n *node) Mode() fs.FileMode          { return n.mode }
func (n *node) Type() fs.FileMode          { return n.mode.Type() }
func (n *node) IsDir() bool                { return n.mode.IsDir() }
func (n *node) Size() int64                { return n.size }
func (n *node) ModTime() time.Time         { return epoch }
func (n *node) Info() (fs.FileInfo, error) { return n, nil }

func (n *node) Sys() any {
	st := &erofs.Stat{UID: n.stat.UID, GID: n.stat.GID, Mtime: uint64(epoch.Unix()), Nlink: 1, Rdev: newEncodeDev(n.stat.Rdev)}
	if len(n.stat.Xattrs) > 0 {
		st.Xattrs = make(map[string]string, len(n.stat.Xattrs))
		for k, v := range n.stat.Xattrs {
			st.Xattrs[k] = string(v)
		}
	}
	return st
}

// DataRange tells the writer where a file lies in the device that it is reading.
func (n *node) DataRange() []erofs.DataRange {
	return []erofs.DataRange{{Offset: n.offset, Size: n.size}}
}

func (n *node) isWhiteout() bool {
	return n.mode.Type() == fs.ModeDevice|fs.ModeCharDevice && n.stat.Rdev == 0
}

func (n *node) isOpaque() bool { return string(n.stat.Xattrs[xattrOpaque]) == "y" }

// mergeOver makes a folder what is seen of it over another: opaque towards all that is below both, if one of them is.
func (n *node) mergeOver(under *node) {
	if n.isOpaque() || !under.isOpaque() {
		return
	}
	n.stat.Xattrs = maps.Clone(n.stat.Xattrs)
	if n.stat.Xattrs == nil {
		n.stat.Xattrs = map[string][]byte{}
	}
	n.stat.Xattrs[xattrOpaque] = []byte("y")
}

// newEncodeDev gives a device number in the 32 bits that the kernel reads from an inode.
func newEncodeDev(dev uint64) uint32 {
	major, minor := unix.Major(dev), unix.Minor(dev)
	return minor&0xff | major<<8 | (minor&^0xff)<<12
}

// links is the link count of a directory.
func (n *node) links() uint32 {
	links := uint32(2)
	for _, c := range n.children {
		if c.IsDir() {
			links++
		}
	}
	return links
}

// add adds an entry after its folder. The root is "." and comes first.
func (t *tree) add(p string, n *node) error {
	if err := t.check(p, n); err != nil {
		return err
	}
	n.name = path.Base(p)
	if p != "." {
		parent := t.nodes[path.Dir(p)]
		if parent == nil || !parent.IsDir() {
			return enplace.Invalidf("%q is not in a folder of the tree; it cannot be packed", p)
		}
		if n.refer {
			t.addReferred(p, n)
		} else {
			parent.children = append(parent.children, n)
		}
	}
	t.nodes[p] = n
	return nil
}

func (t *tree) addReferred(p string, n *node) {
	d := n.device
	if len(d.files) == 0 {
		t.devices = append(t.devices, d)
	}
	d.files = append(d.files, referredFile{n, p})
	d.referred += (n.size + blockSize - 1) / blockSize * blockSize
}

func (t *tree) check(p string, n *node) error {
	name := path.Base(p)
	switch {
	case len(p) > maxPath:
		return enplace.Invalidf("the path %.60q… is longer than %d bytes and cannot be packed; shorten or remove it", p, maxPath)
	case len(name) > maxName, strings.ContainsRune(name, 0):
		return enplace.Invalidf("the name %.60q… has more than %d bytes or holds a zero byte; rename it", name, maxName)
	case n.mode&fs.ModeSymlink != 0 && (n.stat.Link == "" || len(n.stat.Link) > maxPath):
		return enplace.Invalidf("the link %q has an empty target or one of more than %d bytes; remove it", p, maxPath)
	}
	xattrs := 0
	for k, v := range n.stat.Xattrs {
		xattrs += len(k) + len(v)
		if len(k) > maxName || len(v) > maxXattr || xattrs > 2*maxXattr {
			return enplace.Invalidf("the extended attribute %.60q of %.200q is too large to be packed; remove it", k, p)
		}
	}
	t.bytes += int64(xattrs)
	if len(t.nodes) > t.maxFiles { // the root does not count
		return enplace.TooLargef("there are more than %d files and folders to pack; remove what is not needed", t.maxFiles)
	}
	if n.size < 0 || n.size > t.maxBytes-t.bytes {
		return tooLarge(t.maxBytes)
	}
	t.bytes += n.size
	return nil
}

func tooLarge(limit int64) *enplace.Error {
	return enplace.TooLargef("the image would be larger than %d bytes, links to one file and holes counted in full; remove what is not needed", limit)
}

func (t *tree) Open(name string) (fs.File, error) {
	n, err := t.lookup(name)
	if err != nil {
		return nil, err
	}
	return &lazyFile{tree: t, path: name, node: n, left: n.size}, nil
}

func (t *tree) Stat(name string) (fs.FileInfo, error) { return t.lookup(name) }

func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := t.lookup(name)
	if err != nil {
		return nil, err
	}
	return n.children, nil
}

// ReadLink gives the target of a link; the writer asks for it under this name.
func (t *tree) ReadLink(name string) (string, error) {
	n, err := t.lookup(name)
	if err != nil {
		return "", err
	}
	return n.stat.Link, nil
}

func (t *tree) Lstat(name string) (fs.FileInfo, error) { return t.lookup(name) }

func (t *tree) lookup(name string) (*node, error) {
	if n := t.nodes[name]; n != nil {
		return n, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// lazyFile opens at the first Read and gives exactly the bytes that were announced: the writer has laid the image out by
// then, so a file that shrank is an error, and what it grew by is left out.
type lazyFile struct {
	tree *tree
	path string
	node *node
	left int64
	src  io.ReadCloser
}

func (f *lazyFile) Stat() (fs.FileInfo, error) { return f.node, nil }

func (f *lazyFile) Read(p []byte) (int, error) {
	if err := f.tree.ctx.Err(); err != nil {
		return 0, err
	}
	if f.left == 0 {
		return 0, io.EOF
	}
	if f.src == nil {
		src, err := f.tree.open(f.path)
		if err != nil {
			return 0, err
		}
		f.src = src
	}
	n, err := f.src.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
		if f.left > 0 {
			err = &fs.PathError{Op: "read", Path: f.path, Err: errors.New("the file became shorter while it was packed")}
		}
	}
	return n, err
}

func (f *lazyFile) Close() error {
	if f.src == nil {
		return nil
	}
	err := f.src.Close()
	f.src = nil
	return err
}
