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

// WriteFile replaces a file, or makes it, whole: whoever reads it sees the old content or the new, whatever happens meanwhile.
// When it returns nil, the new one survives a crash.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
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
