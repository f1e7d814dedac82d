package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"enplace"
	"enplace/internal/durable"
)

func TestWriteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "record")
	for _, content := range []string{"first", "", "second and longer"} {
		if err := durable.WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || string(got) != content || info.Mode().Perm() != 0o640 {
			t.Errorf("%q of mode %v, %v", got, info.Mode(), err)
		}
	}
}

func TestFailedWriteLeavesTheOldFileAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "record")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(folder, []byte("x"), 0o600); err == nil { // a file cannot take a folder's place
		t.Error("no error")
	}
	if err := durable.WriteFile(filepath.Join(dir, "none", "x"), nil, 0o600); err == nil {
		t.Error("no error without the folder")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestClear(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a[b]*")
	if err := durable.Clear(dir); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".new-1", ".new-2", "new-3", "record"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := durable.Clear(dir); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 || left[0].Name() != "new-3" || left[1].Name() != "record" {
		t.Errorf("left: %v", left)
	}
}

func TestSyncFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := durable.SyncFolder(dir); err != nil {
		t.Error(err)
	}
	if err := durable.SyncFolder(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	for _, full := range []error{syscall.ENOSPC, &os.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}} {
		if err := durable.Full(full); enplace.KindOf(err) != enplace.KindUnavailable || !errors.Is(err, full) {
			t.Errorf("%v gives %v", full, err)
		}
	}
	if err := durable.Full(syscall.EIO); err != syscall.EIO {
		t.Error(err)
	}
	if err := durable.Full(nil); err != nil {
		t.Error(err)
	}
}
