package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// DirOptions say how PackDir reads a directory. The zero value takes everything as it is.
type DirOptions struct {
	// Exclude leaves out a path, and with a folder all below it. Paths are relative to the directory, with slashes.
	Exclude func(path string) bool

	// IDBase is where the ids of a user namespace begin on the host: [IDBase, IDBase+65536) become 0 to 65535, and anything
	// else becomes 65534. With 0, ids stay as they are.
	IDBase uint32
}

// PackDir makes an image of a directory of the host, such as the upper directory of an overlay: whiteouts (character
// devices 0:0) and opaque directories are kept and work again in a stack. Kept as well are owners, modes, links, FIFOs and
// the extended attributes user.*, security.capability and trusted.overlay.opaque. Left out are sockets, other devices, ACLs,
// what is mounted below, and overlayfs's notes on where a file came from. Each name of a file becomes a file of its own, and
// holes become zeros; both count in full.
//
// The content may be hostile and may change meanwhile: no link is followed, and nothing but regular files is opened.
// Errors are those of Pack.
func (s *Store) PackDir(ctx context.Context, dir string, o DirOptions) (Info, error) {
	w, err := s.readDir(ctx, dir, o)
	if err != nil {
		return Info{}, err
	}
	defer w.close()
	return s.write(w.tree)
}

// readDir gathers what is in a directory. The walker is to be closed when the files were read.
func (s *Store) readDir(ctx context.Context, dir string, o DirOptions) (*walker, error) {
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", dir, err)
	}
	w := &walker{tree: s.newTree(ctx), root: root, options: o}
	w.tree.open = w.open
	if err := w.walk(); err != nil {
		w.close()
		return nil, fmt.Errorf("packing %s: %w", dir, err)
	}
	return w, nil
}

// walker gathers a tree by handle: every path is opened below the root with openat2, which refuses links in any part of it,
// so one descriptor at a time is enough however deep the tree is.
type walker struct {
	tree    *tree
	root    int
	options DirOptions
}

func (w *walker) close() { unix.Close(w.root) }

// beneath opens p below the root. O_NONBLOCK is for whatever took the place of a file: opening a FIFO would wait for ever.
func (w *walker) beneath(p string, flags uint64) (*os.File, error) {
	how := &unix.OpenHow{
		Flags:   flags | unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOATIME,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	fd, err := unix.Openat2(w.root, p, how)
	if errors.Is(err, unix.EPERM) { // O_NOATIME is the owner's alone
		how.Flags &^= unix.O_NOATIME
		fd, err = unix.Openat2(w.root, p, how)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: p, Err: err}
	}
	return os.NewFile(uintptr(fd), p), nil
}

// open opens a regular file that was seen before; anything else that stands there now is an error.
func (w *walker) open(p string) (io.ReadCloser, error) {
	f, err := w.beneath(p, 0)
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: p, Err: errors.New("the file was replaced while it was packed")}
	}
	return f, nil
}

func (w *walker) walk() error {
	if err := w.addRoot(); err != nil {
		return err
	}
	for todo := []string{"."}; len(todo) > 0; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		below, err := w.list(dir)
		if err != nil {
			return err
		}
		todo = append(todo, below...)
	}
	return nil
}

// list adds what is in a folder and gives the folders among it.
func (w *walker) list(dir string) (below []string, err error) {
	f, err := w.beneath(dir, unix.O_DIRECTORY)
	if errors.Is(err, unix.EXDEV) { // something is mounted there
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(4096) // in parts, so that the limit on entries is met before memory ends
		for _, name := range names {
			p := path.Join(dir, name)
			if w.options.Exclude != nil && w.options.Exclude(p) {
				continue
			}
			isDir, err := w.addEntry(f, p, name)
			if err != nil {
				return nil, err
			}
			if isDir {
				below = append(below, p)
			}
		}
		if err == io.EOF {
			return below, w.tree.ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
}

func (w *walker) addRoot() error {
	var st unix.Stat_t
	if err := unix.Fstat(w.root, &st); err != nil {
		return err
	}
	n := w.node(&st)
	if err := w.readXattrs(n, fmt.Sprintf("/proc/self/fd/%d/.", w.root)); err != nil {
		return err
	}
	return w.tree.add(".", n)
}

func (w *walker) addEntry(dir *os.File, p, name string) (isDir bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, &fs.PathError{Op: "stat", Path: p, Err: err}
	}
	n := w.node(&st)
	switch n.mode.Type() {
	case fs.ModeSocket, fs.ModeIrregular, fs.ModeDevice:
		return false, nil
	case fs.ModeDevice | fs.ModeCharDevice:
		if st.Rdev != 0 {
			return false, nil
		}
	case fs.ModeSymlink:
		if n.stat.Link, err = readlinkat(int(dir.Fd()), name); err != nil {
			return false, &fs.PathError{Op: "readlink", Path: p, Err: err}
		}
	}
	if err := w.readXattrs(n, fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)); err != nil {
		return false, &fs.PathError{Op: "getxattr", Path: p, Err: err}
	}
	return n.mode.IsDir(), w.tree.add(p, n)
}

func (w *walker) node(st *unix.Stat_t) *node {
	n := &node{mode: fs.FileMode(st.Mode & 0o777), stat: Stat{UID: w.id(st.Uid), GID: w.id(st.Gid)}}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		n.size = st.Size
	case unix.S_IFDIR:
		n.mode |= fs.ModeDir
	case unix.S_IFLNK:
		n.mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		n.mode |= fs.ModeNamedPipe
	case unix.S_IFCHR:
		n.mode |= fs.ModeDevice | fs.ModeCharDevice
		n.stat.Rdev = st.Rdev
	case unix.S_IFBLK:
		n.mode |= fs.ModeDevice
		n.stat.Rdev = st.Rdev
	case unix.S_IFSOCK:
		n.mode |= fs.ModeSocket
	default:
		n.mode |= fs.ModeIrregular
	}
	for _, b := range specialBits {
		if st.Mode&b.bit != 0 {
			n.mode |= b.mode
		}
	}
	return n
}

var specialBits = [...]struct {
	bit  uint32
	mode fs.FileMode
}{{unix.S_ISUID, fs.ModeSetuid}, {unix.S_ISGID, fs.ModeSetgid}, {unix.S_ISVTX, fs.ModeSticky}}

// Of a user namespace's range, and who owns what lies outside of it.
const (
	idCount = 1 << 16
	nobody  = idCount - 2
)

func (w *walker) id(host uint32) uint32 {
	switch base := w.options.IDBase; {
	case base == 0:
		return host
	case host >= base && host-base < idCount:
		return host - base
	default:
		return nobody
	}
}

func readlinkat(dir int, name string) (string, error) {
	buf := make([]byte, maxPath+1)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
