package base

import (
	"os"
	"path/filepath"

	"enplace"
)

// reachable refuses a folder that others cannot get to: root of a sandbox is one of them, and would fail with less to go by.
func reachable(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for ; ; dir = filepath.Dir(dir) {
		fi, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if fi.Mode().Perm()&0o001 == 0 {
			return enplace.Errorf(enplace.KindUnavailable, "%s is closed to others, and the users of sandboxes have to pass through it", dir).
				WithFix("choose a data directory elsewhere, such as /var/lib/enplace").WithFix("chmod o+x %s", dir)
		}
		if dir == "/" {
			return nil
		}
	}
}
