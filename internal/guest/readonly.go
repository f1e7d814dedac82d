package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"enplace"
)

// proofDepth is how many levels below a path are tried: a writable mount or layer further down would show there.
const proofDepth = 3

// proveReadOnly tries, as root, to write at a path and below it, and fails unless each try gets EROFS. A refusal for any
// other reason proves nothing: it would go away with a permission.
func proveReadOnly(p string) error {
	fd, err := unix.Open(p, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("proving %s read only: %w", p, err)
	}
	f := os.NewFile(uintptr(fd), p)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("proving %s read only: %w", p, err)
	}
	if info.IsDir() {
		return proveFolder(f, p, proofDepth)
	}
	return proveFile(unix.AT_FDCWD, p, p)
}

// proveFolder tries an open folder, its first file, and its first folder down to the depth.
func proveFolder(dir *os.File, p string, depth int) error {
	fd := int(dir.Fd())
	probe := temporaryName()
	made, err := unix.Openat(fd, probe, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err == nil {
		_ = unix.Close(made)
		_ = unix.Unlinkat(fd, probe, 0)
	}
	if err := refused(p, "creating a file in it", err); err != nil {
		return err
	}
	if err := proveMode(fd, p); err != nil {
		return err
	}
	file, folder, err := firstOf(dir)
	if err != nil {
		return fmt.Errorf("proving %s read only: %w", p, err)
	}
	if file != "" {
		if err := proveFile(fd, file, path.Join(p, file)); err != nil {
			return err
		}
	}
	if folder == "" || depth == 0 {
		return nil
	}
	sub, err := unix.Openat(fd, folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("proving %s read only: %w", path.Join(p, folder), err)
	}
	f := os.NewFile(uintptr(sub), folder)
	defer f.Close()
	return proveFolder(f, path.Join(p, folder), depth-1)
}

// firstOf gives the first file and the first folder of a folder, or "".
func firstOf(dir *os.File) (file, folder string, err error) {
	for file == "" || folder == "" {
		entries, rerr := dir.ReadDir(64)
		for _, e := range entries {
			switch {
			case e.Type().IsRegular() && file == "":
				file = e.Name()
			case e.IsDir() && folder == "":
				folder = e.Name()
			}
		}
		if rerr == io.EOF {
			return file, folder, nil
		}
		if rerr != nil {
			return "", "", rerr
		}
	}
	return file, folder, nil
}

// proveFile tries to open a file for writing, and to change its mode.
func proveFile(dir int, name, whole string) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	if err := refused(whole, "opening it for writing", err); err != nil {
		return err
	}
	fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("proving %s read only: %w", whole, err)
	}
	defer unix.Close(fd)
	return proveMode(fd, whole)
}

// proveMode tries to give an open file the mode that it has.
func proveMode(fd int, whole string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("proving %s read only: %w", whole, err)
	}
	return refused(whole, "changing its mode", unix.Fchmod(fd, st.Mode&0o7777))
}

// refused turns everything but EROFS into an error that names the path.
func refused(p, try string, err error) error {
	switch {
	case errors.Is(err, unix.EROFS):
		return nil
	case err == nil:
		return enplace.Errorf(enplace.KindInternal, "is not read only: %s went through", try).WithField(p)
	}
	return enplace.Errorf(enplace.KindInternal, "is not proved read only: %s failed with %q, not because of the filesystem", try, err).WithField(p)
}
