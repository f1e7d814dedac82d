package guest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"enplace"
)

// do does a setup, as root inside and before any command. The images it works on may be hostile: no link is ever followed.
func (s Setup) do() error {
	for _, f := range s.Files {
		if err := f.write(); err != nil {
			return err
		}
	}
	for _, l := range s.Links {
		if err := l.make(); err != nil {
			return err
		}
	}
	for _, p := range s.ReadOnly {
		if err := proveReadOnly(p); err != nil {
			return err
		}
	}
	return nil
}

// write puts a new file in place of whatever stands there, so that neither a link nor a second name of an old file is
// written through.
func (f SetupFile) write() error {
	if f.Mode&^0o7777 != 0 {
		return enplace.Invalidf("the mode %o has more than permission bits", f.Mode).WithField(f.Path)
	}
	dir, name, err := openParent(f.Path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	tmp := temporaryName()
	fd, err := unix.Openat(dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.Path, err)
	}
	file := os.NewFile(uintptr(fd), f.Path)
	_, err = file.Write(f.Content)
	if err == nil {
		err = unix.Fchmod(fd, f.Mode) // exactly, whatever the umask is
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return replace(dir, tmp, name, f.Path, err)
}

// make puts a link in place of a link, a file or an empty folder.
func (l SetupLink) make() error {
	dir, name, err := openParent(l.Path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	tmp := temporaryName()
	if err := unix.Symlinkat(l.Target, dir, tmp); err != nil {
		return fmt.Errorf("linking %s: %w", l.Path, err)
	}
	return replace(dir, tmp, name, l.Path, nil)
}

// replace renames the temporary over the final name, or removes it when something failed.
func replace(dir int, tmp, name, whole string, err error) error {
	if err == nil {
		err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		if err == nil || err == unix.ENOENT || err == unix.ENOTDIR {
			err = unix.Renameat(dir, tmp, dir, name)
		}
	}
	if err == nil {
		return nil
	}
	_ = unix.Unlinkat(dir, tmp, 0)
	if err == unix.ENOTEMPTY || err == unix.EBUSY || err == unix.EISDIR {
		return enplace.Conflictf("a folder stands there that is not empty").WithField(whole).WithCause(err)
	}
	return fmt.Errorf("writing %s: %w", whole, err)
}

// temporaryName is a name that no image has.
func temporaryName() string { return temporaryPrefix + rand.Text() }

const temporaryPrefix = ".enplace-"

// openParent opens the folder of a path, making what is missing of it, and gives the last component.
func openParent(p string) (dir int, name string, err error) {
	if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || strings.ContainsRune(p, 0) {
		return -1, "", enplace.Invalidf("the path is not absolute and clean").WithField(p)
	}
	dir, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", fmt.Errorf("opening /: %w", err)
	}
	parts := strings.Split(p[1:], "/")
	for i, part := range parts[:len(parts)-1] {
		next, err := openFolder(dir, part)
		_ = unix.Close(dir)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return -1, "", enplace.Conflictf("%s is a link or a file, and no setup goes through one", "/"+strings.Join(parts[:i+1], "/")).WithField(p)
		}
		if err != nil {
			return -1, "", fmt.Errorf("making the folder of %s: %w", p, err)
		}
		dir = next
	}
	return dir, parts[len(parts)-1], nil
}

// openFolder opens a folder in another one, and makes it when it is missing.
func openFolder(dir int, name string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	if err != unix.ENOENT {
		return fd, err
	}
	if err := unix.Mkdirat(dir, name, 0o755); err != nil && err != unix.EEXIST {
		return -1, err
	}
	return unix.Openat(dir, name, flags, 0)
}
