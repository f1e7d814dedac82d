// Package basetest gives tests the real Debian base. It is made once for a machine, in the folder that tests of servers use
// too (package enplacetest), and each test gets an image store of its own with the base in it: a store is open in one process
// at a time, and tests run in several.
package basetest

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"enplace"
	"enplace/internal/base"
	"enplace/internal/image"
)

// makeTimeout bounds the one making; the tests of other packages wait for it as long.
const makeTimeout = 10 * time.Minute

// Open gives an open store in a temporary directory with the base in it. It skips the test where a base cannot be made, and
// fails it when the variable CI is set. Store and directory go at the end of the test.
func Open(t testing.TB) (*image.Store, base.Base) {
	t.Helper()
	dir := t.TempDir()
	rec := Put(t, filepath.Join(dir, "images"))
	store, err := image.Open(filepath.Join(dir, "images"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("closing the image store: %v", err)
		}
	})
	return store, rec
}

// Put makes the base if there is none yet, and puts its image into the folder of a store that is not open yet.
func Put(t testing.TB, images string) base.Base {
	t.Helper()
	if os.Getuid() != 0 {
		absent(t, "the base is made by root")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		absent(t, "mmdebstrap is not installed; make setup does it")
	}
	shared := Dir()
	rec, err := ensure(shared)
	if enplace.KindOf(err) == enplace.KindUpstream || enplace.KindOf(err) == enplace.KindUnavailable {
		absent(t, "the base cannot be made here: "+err.Error())
	}
	if err != nil {
		t.Fatalf("making the base: %v", err)
	}
	to := filepath.Join(images, "sha256", rec.Digest.Hex())
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := linkOrCopy(filepath.Join(shared, "images", "sha256", rec.Digest.Hex()), to); err != nil {
		t.Fatal(err)
	}
	return rec
}

// PutState puts the base's record beside its image, so that a Builder for the folder takes the base for its own. The folder
// must not be in use.
func PutState(t testing.TB, images, dir string) base.Base {
	t.Helper()
	rec := Put(t, images)
	data, err := os.ReadFile(filepath.Join(Dir(), "base", "base.json"))
	if err == nil {
		err = errors.Join(os.MkdirAll(dir, 0o711), os.WriteFile(filepath.Join(dir, "base.json"), data, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// Dir is the folder that tests share: what ENPLACE_TEST_DIR names, or one that the users of sandboxes can reach, as they
// cannot reach everything below a home directory.
func Dir() string {
	if dir := os.Getenv("ENPLACE_TEST_DIR"); dir != "" {
		return dir
	}
	return "/var/cache/enplace-test"
}

// ensure makes the base under a lock of its own: opening the store counts as using it.
func ensure(shared string) (rec base.Base, err error) {
	if err := errors.Join(os.MkdirAll(shared, 0o711), os.Chmod(shared, 0o711)); err != nil {
		return rec, err
	}
	lock, err := os.OpenFile(filepath.Join(shared, "test.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return rec, err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return rec, err
	}
	store, err := image.Open(filepath.Join(shared, "images"))
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	builder, err := base.New(base.Config{Dir: filepath.Join(shared, "base"), Images: store})
	if err != nil {
		return rec, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), makeTimeout)
	defer cancel()
	return builder.Ensure(ctx, os.Stderr)
}

func linkOrCopy(from, to string) error {
	if err := os.Link(from, to); err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func absent(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}
