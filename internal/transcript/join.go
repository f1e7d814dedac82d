package transcript

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"enplace/internal/durable"
)

// doneName is the joined log on its way to its place. Once it exists it is the log, whatever else there is.
const doneName = "done"

func partsFolder(path string) string { return path + ".parts" }

// partName sorts as its number does.
func partName(start int64) string { return fmt.Sprintf("%019d", start) }

// leftOut is the line between the head and the first part that is still there.
func leftOut(n int64) []byte { return fmt.Appendf(nil, "%s… %d bytes left out …\n", ours, n) }

// join makes the one file out of head and parts; where there are no parts it does nothing. A crash at any point leaves what
// the next call settles: parts are removed only when the whole is on the disk, and the whole takes the head's place last.
func join(path string) error {
	folder := partsFolder(path)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	done := filepath.Join(folder, doneName)
	if _, err := os.Lstat(done); errors.Is(err, fs.ErrNotExist) {
		if err := writeDone(path, entries); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != doneName {
			if err := remove(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(durable.SyncFolder(folder), os.Rename(done, path), durable.SyncFolder(filepath.Dir(path))); err != nil {
		return err
	}
	return remove(folder)
}

func writeDone(path string, entries []fs.DirEntry) error {
	folder := partsFolder(path)
	temp, err := os.OpenFile(filepath.Join(folder, "joining"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer temp.Close()
	at, err := copyFile(temp, path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		start, err := strconv.ParseInt(e.Name(), 10, 64)
		if err != nil {
			continue // an earlier attempt
		}
		if gap := start - at; gap > 0 {
			if _, err := temp.Write(leftOut(gap)); err != nil {
				return err
			}
		}
		n, err := copyFile(temp, filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		at = start + n
	}
	if err := errors.Join(temp.Sync(), os.Rename(temp.Name(), filepath.Join(folder, doneName)), durable.SyncFolder(folder)); err != nil {
		return err
	}
	return nil
}

func copyFile(w io.Writer, path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(w, f)
}

// remove is os.Remove of what may be gone already.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Remove removes a log that nobody writes, finished or cut off by a crash. One that is not there is no error.
func Remove(path string) error {
	return errors.Join(os.RemoveAll(path), os.RemoveAll(partsFolder(path)))
}
