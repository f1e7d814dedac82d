// Package durable writes what must survive a crash of the machine: a file that is there whole or not at all, and names that are
// on the disk. It is apart so that no part of the house has its own notion of when something is safe.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// SyncFolder puts the names in a folder on the disk: what was made, renamed or removed there stays so.
func SyncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// New names the files that are being written, as os.CreateTemp takes it.
const New = ".new-*"

// Clear removes from a folder what killed processes were writing there. The caller knows that nobody writes now. A folder that is
// not there is clear.
func Clear(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if ok, _ := filepath.Match(New, e.Name()); ok {
			err = errors.Join(err, os.Remove(filepath.Join(folder, e.Name())))
		}
	}
	return err
}

// WriteFile replaces a file, or makes it, whole: whoever reads it sees the old content or the new, whatever happens meanwhile.
// When it returns nil, the new one survives a crash.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), New)
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails once it is renamed
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return SyncFolder(filepath.Dir(path))
}
