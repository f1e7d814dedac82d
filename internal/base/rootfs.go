package base

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// rootfs writes into a root filesystem that nobody trusts. Every path is resolved by the kernel inside the root (openat2
// with RESOLVE_IN_ROOT: an absolute link means the root's own /), the last name is never followed, and files are only
// ever created anew. It is used by one goroutine.
type rootfs struct {
	dir      *os.File
	path     string
	maxBytes int64
	entries  int
	bytes    int64 // written, or claimed by sparse files
	devices  int   // left out
	foreign  int   // owners above maxID, given to nobody
}

// The limits of a root that comes from outside, and of the ids that a sandbox has.
const (
	maxRootBytes   = 16 << 30
	maxRootEntries = 1_000_000
	maxID          = 65_535
	nobody         = 65_534
)

func openRootfs(dir string) (*rootfs, error) {
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return &rootfs{dir: f, path: dir, maxBytes: maxRootBytes}, nil
}

func (r *rootfs) close() { _ = r.dir.Close() }

// warnings say what was left out or changed so far.
func (r *rootfs) warnings() []string {
	var w []string
	if r.devices > 0 {
		w = append(w, fmt.Sprintf("%d device nodes were left out", r.devices))
	}
	if r.foreign > 0 {
		w = append(w, fmt.Sprintf("%d entries belong to ids above %d and were given to nobody", r.foreign, maxID))
	}
	return w
}

// local gives a name relative to the root, and refuses one that climbs.
func local(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("%q climbs out of the root", name)
		}
	}
	if strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%q holds a NUL", name)
	}
	return path.Clean("/" + name)[1:], nil
}

// open opens a path inside the root, links included.
func (r *rootfs) open(name string, flags uint64) (int, error) {
	if name == "" {
		name = "."
	}
	how := &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(int(r.dir.Fd()), name, how)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return -1, &fs.PathError{Op: "open", Path: "/" + name, Err: err}
		}
		return fd, nil
	}
}

// has reports whether the path leads to something inside the root.
func (r *rootfs) has(name string) bool {
	fd, err := r.open(name, unix.O_PATH)
	if err != nil {
		return false
	}
	return unix.Close(fd) == nil
}

// parent opens the folder of a name, and makes it when it is missing. An empty base means the root itself.
func (r *rootfs) parent(name string) (fd int, base string, err error) {
	dir, base := path.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	const flags = unix.O_PATH | unix.O_DIRECTORY
	fd, err = r.open(dir, flags)
	if !errors.Is(err, unix.ENOENT) {
		return fd, base, err
	}
	up, last, err := r.parent(dir)
	if err != nil {
		return -1, "", err
	}
	defer unix.Close(up)
	if err := makeDir(up, last, 0o755); err != nil {
		return -1, "", &fs.PathError{Op: "mkdir", Path: "/" + dir, Err: err}
	}
	fd, err = r.open(dir, flags)
	return fd, base, err
}

func makeDir(parent int, base string, mode uint32) error {
	if err := unix.Mkdirat(parent, base, 0o700); err != nil {
		return err
	}
	return unix.Fchmodat(parent, base, mode, 0) // whatever the umask; the folder is new, so it is no link
}

// apply writes one entry of an archive. Whatever stood there is replaced, but for a directory by a directory.
func (r *rootfs) apply(h *tar.Header, content io.Reader) error {
	name, err := local(h.Name)
	if err != nil {
		return err
	}
	r.entries++
	if r.entries > maxRootEntries {
		return fmt.Errorf("the root has more than %d entries", maxRootEntries)
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo:
	case tar.TypeChar, tar.TypeBlock:
		r.devices++ // /dev is made for each sandbox; a device in an image is an attempt
		return nil
	case tar.TypeXGlobalHeader:
		return nil
	default:
		return fmt.Errorf("%q is an entry of the unknown type %q", h.Name, h.Typeflag)
	}
	if name == "" {
		return nil // the root stays as it was made
	}
	parent, base, err := r.parent(name)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	if err := r.create(parent, base, h, content); err != nil {
		return fmt.Errorf("unpacking %q: %w", h.Name, err)
	}
	return nil
}

func (r *rootfs) create(parent int, base string, h *tar.Header, content io.Reader) error {
	keep, err := clearName(parent, base, h.Typeflag == tar.TypeDir)
	if err != nil {
		return err
	}
	mode := uint32(h.Mode & 0o7777)
	switch h.Typeflag {
	case tar.TypeDir:
		if !keep {
			err = makeDir(parent, base, mode)
		}
	case tar.TypeReg:
		err = r.file(parent, base, content)
	case tar.TypeSymlink:
		err = unix.Symlinkat(h.Linkname, parent, base)
	case tar.TypeFifo:
		err = unix.Mknodat(parent, base, unix.S_IFIFO|0o600, 0)
	case tar.TypeLink:
		return r.link(parent, base, h.Linkname)
	}
	if err != nil {
		return err
	}
	return r.dress(parent, base, h, mode)
}

// link makes a hard link to another entry of the root; a link as the target is linked itself, not followed.
func (r *rootfs) link(parent int, base, target string) error {
	target, err := local(target)
	if err != nil {
		return err
	}
	dir, name := path.Split(target)
	from, err := r.open(strings.TrimSuffix(dir, "/"), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	return unix.Linkat(from, name, parent, base, 0)
}

func (r *rootfs) file(parent int, base string, content io.Reader) error {
	fd, err := unix.Openat(parent, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	n, err := io.Copy(f, io.LimitReader(content, r.maxBytes-r.bytes+1))
	r.bytes += n
	if err == nil && r.bytes > r.maxBytes {
		err = fmt.Errorf("the root is larger than %d MiB", r.maxBytes>>20)
	}
	return errors.Join(err, f.Close())
}

// dress gives a new entry its owner, mode and attributes, in that order: a change of owner takes the set-id bits and the
// capabilities away.
func (r *rootfs) dress(parent int, base string, h *tar.Header, mode uint32) error {
	uid, gid := h.Uid, h.Gid
	if uid < 0 || uid > maxID || gid < 0 || gid > maxID {
		r.foreign++
		uid, gid = nobody, nobody
	}
	if err := unix.Fchownat(parent, base, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeSymlink {
		return nil
	}
	if err := unix.Fchmodat(parent, base, mode, 0); err != nil { // just made by us, and no link
		return err
	}
	// Capabilities of programs are the one attribute that matters; trusted.overlay.* would speak to overlayfs.
	const capability = "security.capability"
	if v, ok := h.PAXRecords["SCHILY.xattr."+capability]; ok && h.Typeflag == tar.TypeReg {
		return unix.Lsetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", parent, base), capability, []byte(v), 0)
	}
	return nil
}

// clearName makes way for a new entry. It reports whether a directory is there that may stay.
func clearName(parent int, base string, dir bool) (keep bool, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, err
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return false, unix.Unlinkat(parent, base, 0)
	case dir:
		return true, nil
	}
	return false, removeTree(parent, base)
}

// removeTree removes a name below an open folder, with all that is in it, and follows no link.
func removeTree(parent int, base string) error {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", parent))
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(base)
}

// remove takes a path away, with what is in it; a missing one is no error.
func (r *rootfs) remove(name string) error {
	dir, base := path.Split(name)
	parent, err := r.open(strings.TrimSuffix(dir, "/"), unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	return removeTree(parent, base)
}

// names lists a folder of the root, unsorted; a missing one is empty.
func (r *rootfs) names(dir string) ([]string, error) {
	fd, err := r.open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	return f.Readdirnames(-1)
}

// put writes a file of our own, owned by root.
func (r *rootfs) put(name string, mode int64, content string) error {
	return r.apply(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode}, strings.NewReader(content))
}

// mkdir makes a directory of our own, owned by root.
func (r *rootfs) mkdir(name string, mode int64) error {
	return r.apply(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}, nil)
}

// symlink makes a link of our own.
func (r *rootfs) symlink(name, target string) error {
	return r.apply(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, nil)
}

// isDir reports whether the path is a directory itself, and no link to one.
func (r *rootfs) isDir(name string) bool {
	fd, err := r.open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return false
	}
	return unix.Close(fd) == nil
}
