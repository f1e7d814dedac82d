package oci

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"enplace/internal/sandbox/sandboxtest"
)

// A volume that was busy once, with a file that a dead process had not closed yet, stayed busy for as long as it was asked: the
// task's files counted as lost.
func TestBusyVolumeIsSealedWhenItIsFree(t *testing.T) {
	needRoot(t)
	h := newHouse(t, runtimeRunc, nil)
	r := h.oci
	if !r.volumes.limited {
		sandboxtest.Absent(t, "this host has no loop devices")
	}
	dir := t.TempDir()
	vol, err := r.volumes.create(t.Context(), filepath.Join(dir, "volume"), filepath.Join(dir, "volume.img"), 64, 0)
	if vol != nil {
		defer func() {
			if err := vol.unmount(); err != nil {
				t.Error(err)
			}
		}()
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(vol.dir, volumeTask, "held"))
	if err != nil {
		t.Fatal(err)
	}
	if err := vol.tryReadOnly(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("with a file open for writing: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := vol.seal(t.Context()); err != nil {
		t.Errorf("once it was closed: %v", err)
	}
	if _, err := os.Create(filepath.Join(vol.dir, volumeTask, "late")); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing to a sealed volume: %v", err)
	}
}
