package task

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"enplace"
)

func workRoot(t *testing.T) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

func listAll(t *testing.T, root *os.Root, cursor string) (names []string, err error) {
	t.Helper()
	w, err := newWalker(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	err = w.sorted(".", cursor, func(_ *os.File, name string) error {
		names = append(names, name)
		return nil
	})
	return names, err
}

// A folder can lie deeper than its path can say: what is there is left out, and everything above is listed.
func TestFoldersDeeperThanPaths(t *testing.T) {
	t.Parallel()
	root, dir := workRoot(t)
	if err := os.WriteFile(filepath.Join(dir, "z"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 3000 {
		if err := unix.Mkdirat(fd, "d", 0o700); err != nil {
			t.Fatal(err)
		}
		file, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(file)
		next, err := unix.Openat(fd, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	names, err := listAll(t, root, "")
	if err != nil || len(names) < 2000 || names[len(names)-1] != "z" {
		t.Errorf("%d names, %v", len(names), err)
	}
	for _, n := range names {
		if len(n) > maxWorkPath {
			t.Errorf("a path of %d bytes", len(n))
		}
	}
	var out bytes.Buffer
	if err := archive(t.Context(), root, &out); err != nil {
		t.Error(err)
	}
}

// A listing gives up before its memory does.
func TestTooManyNames(t *testing.T) {
	t.Parallel()
	root, dir := workRoot(t)
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []walker{{entries: 99, bytes: 1000}, {entries: 100, bytes: 100}} {
		w, err := newWalker(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		w.entries, w.bytes = limit.entries, limit.bytes
		err = w.sorted(".", "", func(*os.File, string) error { return nil })
		w.close()
		if enplace.KindOf(err) != enplace.KindTooLarge {
			t.Errorf("%v", err)
		}
	}
}

// Pages go on behind the name that was there, not behind what could be shown of it.
func TestPagesOfNamesThatAreNoText(t *testing.T) {
	t.Parallel()
	root, dir := workRoot(t)
	want := []string{"a", "b\nc", "d/\xfe", "d/\xff", "d/\xff.", "e\x1b[31m"}
	for _, n := range want {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, n)), 0o700), os.WriteFile(filepath.Join(dir, n), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for cursor := ""; len(got) <= len(want); {
		after, err := readCursor(cursor)
		if err != nil {
			t.Fatal(err)
		}
		names, err := listAll(t, root, after)
		if err != nil {
			t.Fatal(err)
		}
		if len(names) == 0 {
			break
		}
		got, cursor = append(got, names[0]), writeCursor(names[0])
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, forged := range []string{"../..", "%", strings.Repeat("A", 8000)} {
		if _, err := readCursor(forged); enplace.KindOf(err) != enplace.KindMalformed {
			t.Errorf("%.10s: %v", forged, err)
		}
	}
}

// While folders and files change places with links that lead out and with pipes, nothing from outside is given.
func TestArchiveWhileLinksAreSwapped(t *testing.T) {
	t.Parallel()
	root, dir := workRoot(t)
	outside := t.TempDir()
	for name, text := range map[string]string{filepath.Join(outside, "f"): "secret", filepath.Join(dir, "file"): "inside", filepath.Join(dir, "dir", "f"): "inside"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	check(os.Symlink(outside, filepath.Join(dir, "dir-link")))
	check(os.Symlink(filepath.Join(outside, "f"), filepath.Join(dir, "file-link")))
	check(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	swapped := make(chan struct{})
	go func() {
		defer close(swapped)
		for ctx.Err() == nil {
			for _, pair := range [][2]string{{"dir", "dir-link"}, {"file", "file-link"}, {"file", "pipe"}} {
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, pair[0]), unix.AT_FDCWD, filepath.Join(dir, pair[1]), unix.RENAME_EXCHANGE)
			}
		}
	}()
	for range 500 {
		var out bytes.Buffer
		check(archive(ctx, root, &out))
		for tr := tar.NewReader(&out); ; {
			h, err := tr.Next()
			if err == io.EOF {
				break
			}
			check(err)
			if err != nil {
				break
			}
			text, err := io.ReadAll(tr)
			if err != nil || h.Typeflag == tar.TypeReg && string(text) != "inside" || h.Typeflag == tar.TypeSymlink {
				t.Fatalf("%s: %q -> %q, %v", h.Name, text, h.Linkname, err)
			}
		}
		f, _, err := openRegular(root, "dir/f")
		if err == nil {
			text, err := io.ReadAll(f)
			f.Close()
			if err != nil || string(text) != "inside" {
				t.Fatalf("%q, %v", text, err)
			}
		} else if kind := enplace.KindOf(err); kind != enplace.KindNotFound && kind != enplace.KindInvalid {
			t.Errorf("%v", err)
		}
	}
	cancel()
	<-swapped
}

// A file that shrinks while it is archived cuts the archive, rather than being filled up with something else.
func TestArchiveOfAFileThatShrinks(t *testing.T) {
	t.Parallel()
	root, dir := workRoot(t)
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	err := archive(t.Context(), root, writerFunc(func(p []byte) (int, error) { return len(p), os.Truncate(name, 10) }))
	if err == nil || !strings.Contains(err.Error(), "changed while") {
		t.Errorf("%v", err)
	}
	if err := archive(t.Context(), root, writerFunc(func([]byte) (int, error) { return 0, fs.ErrClosed })); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("%v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
