package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"enplace"
	"enplace/internal/durable"
	"enplace/internal/shim"
)

// maxShimsBytes bounds a request: an index, in JSON.
const maxShimsBytes = 8 << 20

// Shims is `enplace-guest shims`: it reads a request of WriteShims or DropShims, does it, and prints a WrittenShims.
func Shims(in io.Reader, out io.Writer) error {
	written, err := shimWriter{tools: shim.Default}.request(in)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(written)
}

// shimWriter writes indexes and shims. One works at a time, in whatever process.
type shimWriter struct {
	tools    shim.Tools
	refused  []RefusedShim
	replaced []string
}

func (w shimWriter) request(in io.Reader) (WrittenShims, error) {
	var r shimsRequest
	if err := json.NewDecoder(io.LimitReader(in, maxShimsBytes)).Decode(&r); err != nil {
		return WrittenShims{}, fmt.Errorf("reading the request: %w", err)
	}
	set := r.Drop
	if r.Write != nil {
		set = r.Write.Set
	}
	if !shim.IsHash(set) {
		return WrittenShims{}, enplace.Errorf(enplace.KindMalformed, "%q is no hash of a set", enplace.Shown(set, 80))
	}
	unlock, err := w.begin()
	if err != nil {
		return WrittenShims{}, err
	}
	defer unlock()
	if r.Write != nil {
		err = w.write(*r.Write)
	} else {
		err = w.drop(set)
	}
	if err != nil {
		return WrittenShims{}, err
	}
	links, err := w.link()
	return WrittenShims{Links: links, Refused: w.refused, Replaced: w.replaced}, err
}

// begin makes the folders right, whatever was done to them, and waits for its turn.
func (w *shimWriter) begin() (unlock func(), err error) {
	unix.Umask(0o022)
	for _, dir := range []string{string(w.tools), filepath.Dir(w.tools.Sets()), w.tools.Sets(), w.tools.Local(), w.tools.Shims()} {
		if err := makeFolder(dir); err != nil {
			return nil, err
		}
	}
	fd, err := unix.Open(filepath.Join(filepath.Dir(w.tools.Sets()), "lock"), unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of shims: %w", err)
	}
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(fd, unix.LOCK_EX)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("locking shims: %w", err)
	}
	return func() { _ = unix.Close(fd) }, nil
}

// makeFolder makes a folder that everybody can read, in place of whatever link or file is there. Those of computers are
// root's, so whoever is not root finds them as they should be or can do nothing.
func makeFolder(dir string) error {
	info, err := os.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = errors.Join(os.Remove(dir), fs.ErrNotExist)
	}
	switch {
	case err == nil && info.Mode().Perm()&0o555 != 0o555:
		return os.Chmod(dir, info.Mode().Perm()|0o755)
	case errors.Is(err, fs.ErrNotExist):
		return os.MkdirAll(dir, 0o755)
	}
	return err
}

// write writes the index of a set, and then that it is the default.
func (w *shimWriter) write(i ShimIndex) error {
	var commands []shim.Command
	for _, c := range i.Commands {
		if c.Item == "" || c.Scope == "" {
			return enplace.Errorf(enplace.KindMalformed, "the command %q has no item or scope", enplace.Shown(c.Name, 80))
		}
		commands = append(commands, shim.Command(c))
	}
	if err := w.index(filepath.Join(w.tools.Sets(), i.Set), commands); err != nil || !i.Default {
		return err
	}
	return replaceFile(w.tools.DefaultSet(), []byte(i.Set+"\n"))
}

// index writes the commands that can have a shim.
func (w *shimWriter) index(path string, commands []shim.Command) error {
	var kept []shim.Command
	seen := map[string]bool{}
	for _, c := range commands {
		why := w.unfit(c)
		if why == "" && seen[c.Name] {
			why = "the index has another command of that name before it"
		}
		if why != "" {
			w.refused = append(w.refused, RefusedShim{enplace.Shown(c.Name, 255), why})
			continue
		}
		seen[c.Name] = true
		if c.Failed != "" {
			c.Target, c.Failed = "", line(c.Failed, 400)
		}
		c.Item, c.Scope = line(c.Item, 200), line(c.Scope, 200)
		kept = append(kept, c)
	}
	b := shim.Encode(kept)
	if len(b) > shim.MaxIndexBytes {
		return enplace.TooLargef("the index of a set's commands has %d bytes; the limit is %d", len(b), shim.MaxIndexBytes)
	}
	return replaceFile(path, b)
}

// line makes text of others one line of a message, without its full stop.
func line(s string, most int) string {
	return strings.TrimRight(enplace.Shown(strings.Join(strings.Fields(s), " "), most), ".")
}

// drop removes the index of a set.
func (w *shimWriter) drop(set string) error {
	if name, err := os.ReadFile(w.tools.DefaultSet()); err == nil && strings.TrimSpace(string(name)) == set {
		if err := removeFile(w.tools.DefaultSet()); err != nil {
			return err
		}
	}
	return removeFile(filepath.Join(w.tools.Sets(), set))
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return durable.SyncFolder(filepath.Dir(path))
}

// replaceFile writes a file that everybody can read, unless it is as it should be already.
func replaceFile(path string, b []byte) error {
	info, err := os.Lstat(path)
	if err == nil && info.Mode() == 0o644 && info.Size() == int64(len(b)) {
		if old, err := os.ReadFile(path); err == nil && slices.Equal(old, b) {
			return nil
		}
	}
	if err == nil && info.IsDir() {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return durable.WriteFile(path, b, 0o644)
}

// names gives every name that a set or what was installed inside has. sure says that all indexes could be read.
func (w *shimWriter) names() (names map[string]bool, sure bool, err error) {
	entries, err := os.ReadDir(w.tools.Sets())
	if err != nil {
		return nil, false, err
	}
	paths := []string{w.tools.LocalIndex()}
	for _, e := range entries {
		path := filepath.Join(w.tools.Sets(), e.Name())
		switch {
		case shim.IsHash(e.Name()):
			paths = append(paths, path)
		case strings.HasPrefix(e.Name(), ".new-"): // of a writer that was killed
			_ = os.Remove(path)
		}
	}
	names, sure = map[string]bool{MiseName: true}, true
	for _, path := range paths {
		commands, err := shim.Read(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			sure = false
			continue
		}
		for _, c := range commands {
			names[c.Name] = true
		}
	}
	return names, sure, nil
}
