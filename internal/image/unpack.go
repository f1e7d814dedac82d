package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func (s *Store) unpackedDir() string { return filepath.Join(s.dir, "unpacked") }

// unpackTo writes a verified image out as a directory, for kernels without EROFS. Unpacked directories are not trusted
// beyond the process that made them, since nothing tells whether their bytes are still those of the digest: Open removes
// them. The caller sees to it that one image is unpacked by one goroutine at a time.
func (s *Store) unpackTo(ctx context.Context, o *opened, dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return nil
	}
	img, err := newReader(o)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(s.tmp, "unpack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var dirs []string
	err = fs.WalkDir(img, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			dirs = append(dirs, p)
		}
		return unpackEntry(img, p, d, filepath.Join(tmp, p))
	})
	if err != nil {
		return fmt.Errorf("unpacking: %w", err)
	}
	for i := len(dirs) - 1; i >= 0; i-- { // a folder's time changes with what is put in it, so from the deepest up
		if err := setTime(filepath.Join(tmp, dirs[i])); err != nil {
			return fmt.Errorf("unpacking: %w", err)
		}
	}
	return os.Rename(tmp, dir)
}

// unpackEntry may go by path: an image has one entry of each name, so no folder of it can be a link.
func unpackEntry(img *reader, p string, d fs.DirEntry, to string) error {
	fi, err := d.Info()
	if err != nil {
		return err
	}
	st := fi.Sys().(*Stat)
	switch fi.Mode().Type() {
	case fs.ModeDir:
		if err = os.Mkdir(to, 0o700); p == "." {
			err = nil
		}
	case 0:
		err = unpackFile(img, p, to)
	case fs.ModeSymlink:
		err = os.Symlink(st.Link, to)
	default:
		err = unix.Mknod(to, unixType(fi.Mode())|0o600, int(st.Rdev))
	}
	if err == nil {
		err = os.Lchown(to, int(st.UID), int(st.GID))
	}
	if err == nil && fi.Mode()&fs.ModeSymlink == 0 {
		err = os.Chmod(to, fi.Mode())
	}
	for name, value := range st.Xattrs {
		if err == nil {
			err = unix.Lsetxattr(to, name, value, 0)
		}
	}
	if err == nil && !fi.IsDir() {
		err = setTime(to)
	}
	return err
}

func setTime(p string) error {
	t := unix.NsecToTimespec(epoch.UnixNano())
	return unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
}

func unpackFile(img *reader, p, to string) error {
	in, err := img.Open(p)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func unixType(m fs.FileMode) uint32 {
	switch m.Type() {
	case fs.ModeNamedPipe:
		return unix.S_IFIFO
	case fs.ModeDevice | fs.ModeCharDevice:
		return unix.S_IFCHR
	}
	return unix.S_IFBLK
}
