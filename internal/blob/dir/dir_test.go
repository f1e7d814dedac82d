package dir_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"enplace"
	"enplace/internal/blob"
	"enplace/internal/blob/blobtest"
	"enplace/internal/blob/dir"
)

func open(t testing.TB, name string) *dir.Store {
	t.Helper()
	s, err := dir.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// located is a store that knows where it lies, for tests that go behind its back.
type located struct {
	*dir.Store
	name string
}

func (l located) path(d enplace.Digest) string {
	return filepath.Join(l.name, d.Hex()[:2], d.Hex()[2:])
}

func TestContract(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Store {
		name := t.TempDir()
		return located{open(t, name), name}
	}, func(t *testing.T, s blob.Store, d enplace.Digest) {
		f, err := os.OpenFile(s.(located).path(d), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte("damage"), 50); err != nil {
			t.Fatal(err)
		}
	})
}

func temporary(t *testing.T, name string) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(name, "tmp", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// A blob that was written while the clock was ahead counts as written now, once the clock is right.
func TestBlobOfTheFuture(t *testing.T) {
	t.Parallel()
	name := t.TempDir()
	s := located{open(t, name), name}
	info, err := s.Put(t.Context(), strings.NewReader("text"), 100)
	if err != nil {
		t.Fatal(err)
	}
	future := time.Now().Add(10 * 365 * 24 * time.Hour)
	if err := os.Chtimes(s.path(info.Digest), future, future); err != nil {
		t.Fatal(err)
	}
	none := func(enplace.Digest) bool { return false }
	if n, _, err := s.Collect(t.Context(), time.Now().Add(-time.Hour), none); n != 0 || err != nil {
		t.Errorf("it was removed at once: %d, %v", n, err)
	}
	if n, _, err := s.Collect(t.Context(), time.Now().Add(time.Hour), none); n != 1 || err != nil {
		t.Errorf("it was not removed in time: %d, %v", n, err)
	}
}

func TestNothingStaysInTmp(t *testing.T) {
	t.Parallel()
	name := t.TempDir()
	s := open(t, name)
	big := bytes.Repeat([]byte("x"), 1<<20)
	if _, err := s.Put(t.Context(), bytes.NewReader(big), 1<<20-1); err == nil {
		t.Error("over the limit, and taken")
	}
	for range 2 {
		if _, err := s.Put(t.Context(), bytes.NewReader(big), 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	for _, end := range []func(blob.Batch) error{blob.Batch.Discard, func(b blob.Batch) error { return b.Commit(t.Context()) }} {
		b, err := s.Batch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []string{"a", "b", string(big)} {
			if _, err := b.Add(t.Context(), strings.NewReader(c), 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		if err := end(b); err != nil {
			t.Fatal(err)
		}
		if left := temporary(t, name); len(left) > 0 {
			t.Errorf("left in tmp: %v", left)
		}
	}
}

func TestBatchesLeaveNoDescriptor(t *testing.T) {
	s := open(t, t.TempDir()) // not parallel: it counts the descriptors of the process
	before := descriptors(t)
	for i := range 20 {
		b, err := s.Batch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Add(t.Context(), strings.NewReader("x"), 1); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := b.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := b.Discard(); err != nil {
				t.Error(err)
			}
		}
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

func TestOpenRemovesWhatACrashLeft(t *testing.T) {
	t.Parallel()
	name := t.TempDir()
	s := open(t, name)
	kept, err := s.Put(t.Context(), strings.NewReader("kept"), 4)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Batch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Add(t.Context(), strings.NewReader("never committed"), 100); err != nil {
		t.Fatal(err)
	}
	if len(temporary(t, name)) == 0 {
		t.Fatal("the test needs something in tmp")
	}
	again := open(t, name)
	if left := temporary(t, name); len(left) > 0 {
		t.Errorf("left in tmp: %v", left)
	}
	if _, err := again.Stat(t.Context(), kept.Digest); err != nil {
		t.Errorf("what was acknowledged: %v", err)
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "blobs")
	s := open(t, name)
	if _, err := s.Put(t.Context(), bytes.NewReader(make([]byte, 1<<20)), 1<<20); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(name, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := e.Info()
		want := os.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		}
		if err == nil && st.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, st.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A file that is longer or shorter than its digest says is replaced by a Put, and refused by a read.
func TestCutFile(t *testing.T) {
	t.Parallel()
	name := t.TempDir()
	s := located{open(t, name), name}
	i, err := s.Put(t.Context(), strings.NewReader("twelve bytes"), 12)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{0, 3, 20} {
		if err := os.Truncate(s.path(i.Digest), size); err != nil {
			t.Fatal(err)
		}
		f, err := s.Open(t.Context(), i.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(f); !errors.Is(err, blob.ErrDamaged) {
			t.Errorf("cut to %d bytes: %v", size, err)
		}
		_ = f.Close()
		if _, err := s.Put(t.Context(), strings.NewReader("twelve bytes"), 12); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("mounting a small file system needs root")
		}
		t.Skip("mounting a small file system needs root")
	}
	name := t.TempDir()
	if err := unix.Mount("tmpfs", name, "tmpfs", 0, "size=2m"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no tmpfs can be mounted here: %v", err)
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("no tmpfs can be mounted here: %v", err)
		}
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(name, unix.MNT_DETACH) })
	s := open(t, filepath.Join(name, "blobs"))
	if _, err := s.Put(t.Context(), bytes.NewReader(make([]byte, 8<<20)), 8<<20); enplace.KindOf(err) != enplace.KindUnavailable {
		t.Errorf("a Put gave %v", err)
	}
	b, err := s.Batch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; err == nil && i < 100; i++ {
		_, err = b.Add(t.Context(), bytes.NewReader(bytes.Repeat([]byte{byte(i)}, 100_000)), 1<<20)
	}
	if enplace.KindOf(err) != enplace.KindUnavailable {
		t.Errorf("an Add gave %v", err)
	}
	if err := b.Discard(); err != nil {
		t.Error(err)
	}
	if left := temporary(t, filepath.Join(name, "blobs")); len(left) > 0 {
		t.Errorf("left in tmp: %v", left)
	}
	if _, err := s.Put(t.Context(), strings.NewReader("small"), 5); err != nil {
		t.Errorf("once there is room again: %v", err)
	}
}
