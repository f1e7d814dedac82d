package base

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"enplace"
)

// copyDirectory copies a directory of the host into the root as an archive of it would have been. Other filesystems mounted
// below it are left out.
func copyDirectory(ctx context.Context, root *rootfs, dir string) error {
	var top unix.Stat_t
	if err := unix.Stat(dir, &top); err != nil || top.Mode&unix.S_IFMT != unix.S_IFDIR {
		return enplace.Invalidf("%s is not a directory that can be read", dir).WithField("base.source").WithCause(err)
	}
	links := map[uint64]string{} // of files with several names, by inode
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok {
			return errors.New("no inode of " + p)
		}
		if st.Dev != top.Dev {
			return mountPoint(root, rel, d)
		}
		return copyEntry(root, p, rel, fi, st, links)
	})
}

// mountPoint leaves the empty folder of what is mounted there.
func mountPoint(root *rootfs, rel string, d fs.DirEntry) error {
	if !d.IsDir() {
		return nil
	}
	if err := root.mkdir(rel, 0o755); err != nil {
		return err
	}
	return filepath.SkipDir
}

func copyEntry(root *rootfs, p, rel string, fi fs.FileInfo, st *syscall.Stat_t, links map[uint64]string) error {
	if fi.Mode()&fs.ModeSocket != 0 {
		return nil
	}
	target := ""
	if fi.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = os.Readlink(p); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(fi, target)
	if err != nil {
		return err
	}
	h.Name = rel
	if !fi.Mode().IsRegular() {
		return root.apply(h, nil)
	}
	if first, ok := links[st.Ino]; ok {
		h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		return root.apply(h, nil)
	}
	if st.Nlink > 1 {
		links[st.Ino] = rel
	}
	f, err := os.OpenFile(p, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return root.apply(withCapabilities(h, f), io.LimitReader(f, fi.Size()))
}

func withCapabilities(h *tar.Header, f *os.File) *tar.Header {
	buf := make([]byte, 64) // a capability is 24 bytes at most
	n, err := unix.Fgetxattr(int(f.Fd()), "security.capability", buf)
	if err == nil {
		h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": string(buf[:n])}
	}
	return h
}
