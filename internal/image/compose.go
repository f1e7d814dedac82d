package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/erofs/go-erofs"

	"enplace"
)

// What Compose refuses, with nothing written; packing everything anew works then.
var (
	// ErrConflict is for two parts that have different things at one path.
	ErrConflict = errors.New("two parts have different things at one path")
	// ErrTooManyParts is for an image that would refer to more than 48 others.
	ErrTooManyParts = errors.New("the parts lie in too many images")
)

// Part takes entries out of an image that the store holds.
type Part struct {
	Image enplace.Digest
	Keep  func(path string) bool // of every entry but the root; folders above a kept entry come with it. nil keeps all
}

// Compose makes an image of parts, lowest first, and of dir over them ("" for none), read as PackDir reads it. What the parts'
// files hold is not copied: the image refers to the images that have it, which Collect then keeps, and Verify and all that read
// the image verify. Copied are files of less than a block, which lie between other things, and files with extended attributes.
// Parts may be composed themselves: the result refers to whatever has the bytes, never to something that refers on.
//
// Parts are a union. Folders merge, with the mode and owner that the later part gives. Two files at one path are ErrConflict,
// unless they are equal and of at most 4 KiB, or the same file of the same image; so are two things of different kinds. Over
// them dir is an upper directory of overlayfs: its entries replace, its folders merge, and an opaque one hides what the parts
// have below it. A whiteout removes what the images of the parts have at its path, kept or not, and is spent; one of what they
// do not have stays, and hides what is below the image in a stack.
//
// The same parts and dir give the same digest: one whole part that dir changes nothing of gives its own. ErrNotFound for a part that is not there, ErrTooManyParts, and the errors of
// Verify and PackDir; the limits hold for all that the image shows, wherever it lies.
func (s *Store) Compose(ctx context.Context, parts []Part, dir string, o DirOptions) (Info, error) {
	c := &composer{store: s, devices: map[enplace.Digest]*device{}, nodes: map[string]*node{}, seen: map[string]bool{}}
	defer c.close()
	t := s.newTree(ctx)
	over := map[string]*node{}
	openOver := func(p string) (io.ReadCloser, error) {
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
	}
	if dir != "" {
		w, err := s.readDir(ctx, dir, o)
		if err != nil {
			return Info{}, err
		}
		defer w.close()
		over, openOver = w.tree.nodes, w.open
	}
	if dir != "" && len(parts) == 1 && parts[0].Keep == nil {
		same, err := s.unchanged(ctx, parts[0].Image, over)
		if err != nil {
			return Info{}, fmt.Errorf("composing an image: %w", err)
		}
		if same {
			return s.Stat(parts[0].Image)
		}
	}
	for _, p := range parts {
		if err := c.addPart(ctx, p); err != nil {
			return Info{}, fmt.Errorf("composing an image with parts of %s: %w", p.Image, err)
		}
	}
	t.open = func(p string) (io.ReadCloser, error) {
		if n := t.nodes[p]; n.device != nil {
			return io.NopCloser(io.NewSectionReader(n.device.file, n.offset, n.size)), nil
		}
		return openOver(p)
	}
	if err := c.fill(t, over); err != nil {
		return Info{}, fmt.Errorf("composing an image: %w", err)
	}
	if len(t.devices) > maxReferred {
		return Info{}, fmt.Errorf("composing an image: %w: %d, and the most is %d", ErrTooManyParts, len(t.devices), maxReferred)
	}
	return s.write(t)
}

// unchanged tells whether the entries over an image are but folders that are in it just so.
func (s *Store) unchanged(ctx context.Context, image enplace.Digest, over map[string]*node) (bool, error) {
	for _, n := range over {
		if !n.IsDir() || n.isOpaque() {
			return false, nil
		}
	}
	o, err := s.openVerified(ctx, image)
	if err != nil {
		return false, err
	}
	defer o.Close()
	r, err := newReader(o)
	if err != nil {
		return false, err
	}
	for p, n := range over {
		under, err := r.Lstat(p)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		st := under.Sys().(*Stat)
		if n.mode != under.Mode() || n.stat.UID != st.UID || n.stat.GID != st.GID || !maps.EqualFunc(n.stat.Xattrs, st.Xattrs, bytes.Equal) {
			return false, nil
		}
	}
	return true, nil
}

// composer gathers what the parts give. It has their images in use until it is closed, so that Collect removes none of them
// before the image that refers to them is in its place.
type composer struct {
	store   *Store
	used    []*mounted
	opened  []*opened
	devices map[enplace.Digest]*device
	nodes   map[string]*node // what the parts give together
	seen    map[string]bool  // all paths of the parts' images
}

func (c *composer) close() {
	for _, o := range c.opened {
		o.Close()
	}
	for _, m := range c.used {
		c.store.release(m)
	}
}

func (c *composer) addPart(ctx context.Context, p Part) error {
	c.used = append(c.used, c.store.take(p.Image))
	o, err := c.store.openVerified(ctx, p.Image)
	if err != nil {
		return err
	}
	c.opened = append(c.opened, o)
	r, err := newReader(o)
	if err != nil {
		return err
	}
	in := &part{composer: c, image: p.Image, opened: o, left: map[string]*node{}}
	return fs.WalkDir(r, ".", func(at string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		c.seen[at] = true
		keep := at == "." || p.Keep == nil || p.Keep(at)
		if !keep && !d.IsDir() {
			return nil
		}
		n, err := in.node(d)
		if err != nil {
			return err
		}
		if !keep {
			in.left[at] = n
			return nil
		}
		return in.add(at, n)
	})
}

// part is an image that entries are taken out of.
type part struct {
	composer *composer
	image    enplace.Digest
	opened   *opened
	left     map[string]*node // folders that nothing was kept of so far
}

// add adds an entry, with the folders above it.
func (in *part) add(at string, n *node) error {
	above := path.Dir(at)
	if folder := in.left[above]; folder != nil {
		delete(in.left, above)
		if err := in.add(above, folder); err != nil {
			return err
		}
	}
	c := in.composer
	switch before := c.nodes[at]; {
	case before == nil:
	case before.IsDir() && n.IsDir():
		n.mergeOver(before)
	default:
		same, err := same(before, n)
		if err != nil {
			return err
		}
		if !same {
			return fmt.Errorf("%w: %q", ErrConflict, at)
		}
	}
	c.nodes[at] = n
	return nil
}

// Layouts of an inode whose data are blocks of their own.
const (
	layoutPlain  = 0
	layoutChunks = 4
)

// node reads an entry, and where its bytes lie.
func (in *part) node(d fs.DirEntry) (*node, error) {
	info, err := d.Info()
	if err != nil {
		return nil, err
	}
	fi := info.(*fileInfo)
	n := &node{mode: fi.mode, stat: *fi.stat}
	if !n.mode.IsRegular() || fi.Size() == 0 {
		return n, nil
	}
	n.size = fi.Size()
	raw, ok := fi.FileInfo.Sys().(*erofs.Stat)
	ranges, has := fi.FileInfo.(interface{ DataRange() []erofs.DataRange })
	if !ok || !has {
		return nil, fmt.Errorf("the EROFS reader gives a %T", fi.FileInfo)
	}
	lies := ranges.DataRange()
	if len(lies) != 1 || lies[0].Offset < 0 { // our images have each file in one piece
		return nil, damaged(in.image).WithCause(fmt.Errorf("%q lies in %d pieces", d.Name(), len(lies)))
	}
	n.offset = lies[0].Offset
	n.device, err = in.device(lies[0].Device)
	// The writer puts the number of the first block behind the attributes, and the kernel looks for it at a multiple of 8 bytes.
	n.refer = (raw.InodeLayout == layoutPlain || raw.InodeLayout == layoutChunks) && len(n.stat.Xattrs) == 0
	return n, err
}

// device gives what stands for the image that has a file's bytes, by the number that the part's image knows it by; 0 is itself.
func (in *part) device(number uint16) (*device, error) {
	digest, f := in.image, in.opened.file
	if number > 0 {
		if int(number) > len(in.opened.devices) {
			return nil, damaged(in.image).WithCause(fmt.Errorf("a file lies in device %d", number))
		}
		digest, f = in.opened.refers[number-1], in.opened.devices[number-1]
	}
	if d := in.composer.devices[digest]; d != nil {
		return d, nil
	}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	d := &device{image: digest, file: f, blocks: uint64(st.Size()+blockSize-1) / blockSize}
	in.composer.devices[digest] = d
	return d, nil
}

// same tells whether it makes no difference which of two entries stands at a path. Contents are compared only where that is
// about as cheap as finding out that they are the same.
func same(a, b *node) (bool, error) {
	if a.mode != b.mode || a.size != b.size || a.stat.UID != b.stat.UID || a.stat.GID != b.stat.GID ||
		a.stat.Rdev != b.stat.Rdev || a.stat.Link != b.stat.Link || !maps.EqualFunc(a.stat.Xattrs, b.stat.Xattrs, bytes.Equal) {
		return false, nil
	}
	if a.device == b.device && a.offset == b.offset {
		return true, nil
	}
	if a.size > blockSize {
		return false, nil
	}
	one, other := make([]byte, a.size), make([]byte, b.size)
	if _, err := a.device.file.ReadAt(one, a.offset); err != nil {
		return false, err
	}
	_, err := b.device.file.ReadAt(other, b.offset)
	return bytes.Equal(one, other), err
}

// fill puts what the parts give into a tree, and the entries of a directory over it.
func (c *composer) fill(t *tree, over map[string]*node) error {
	paths := slices.Concat(slices.Collect(maps.Keys(c.nodes)), slices.Collect(maps.Keys(over)))
	if len(paths) == 0 {
		return t.add(".", &node{mode: fs.ModeDir | 0o755})
	}
	slices.SortFunc(paths, rootFirst)
	hidden := map[string]bool{} // what the parts have below these is not seen
	for _, p := range slices.Compact(paths) {
		n, under := over[p], c.nodes[p]
		switch {
		case n == nil && p != "." && hidden[path.Dir(p)]:
			hidden[p] = true
			continue
		case n == nil:
			n = under
		case n.isWhiteout() && c.seen[p]:
			hidden[p] = true
			continue
		case !n.IsDir() || n.isOpaque():
			hidden[p] = true
		case under != nil && under.IsDir():
			n.mergeOver(under)
		}
		n.children = nil // those it had where it comes from
		if err := t.add(p, n); err != nil {
			return err
		}
	}
	return nil
}

// rootFirst orders paths so that a folder comes before what is in it.
func rootFirst(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == ".":
		return -1
	case b == ".":
		return 1
	}
	return strings.Compare(a, b)
}
