package image_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"enplace"
	"enplace/internal/image"
)

func TestOpenRemovesLeftovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"tmp/pack-123": "half", "unpacked/x/y": "old", "sha256/": ""})
	s, err := image.Open(dir)
	must(t, err)
	defer s.Close()
	if files := imageFiles(t, dir); len(files) != 0 {
		t.Errorf("left %q", files)
	}
	if _, err := os.Stat(filepath.Join(dir, "unpacked")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unpacked image of an earlier process is still there: %v", err)
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s, _ := open(t)
	pack := func(content string) image.Info {
		info, err := s.Pack(t.Context(), fstest.MapFS{"f": {Data: []byte(content)}})
		must(t, err)
		return info
	}
	acquired, kept, fresh := pack("acquired"), pack("kept"), pack("fresh")
	keep := func(d enplace.Digest) bool { return d == kept.Digest }

	if n, _, err := s.Collect(t.Context(), keep); n != 0 || err != nil {
		t.Errorf("within the grace it removed %d, %v", n, err)
	}
	layer, err := s.Acquire(t.Context(), acquired.Digest)
	must(t, err)
	s.Grace = 0
	n, size, err := s.Collect(t.Context(), keep)
	if n != 1 || size != fresh.Bytes || err != nil {
		t.Errorf("removed %d images of %d bytes, %v; want the one that nothing uses", n, size, err)
	}
	if _, err := s.Stat(fresh.Digest); !errors.Is(err, image.ErrNotFound) {
		t.Errorf("the collected image: %v", err)
	}
	for _, d := range []enplace.Digest{acquired.Digest, kept.Digest} {
		if err := s.Verify(t.Context(), d); err != nil {
			t.Errorf("an image in use is gone: %v", err)
		}
	}
	must(t, layer.Close())
	must(t, layer.Close())
	if n, _, err := s.Collect(t.Context(), keep); n != 1 || err != nil {
		t.Errorf("after Close it removed %d, %v", n, err)
	}
	if _, err := s.Acquire(t.Context(), acquired.Digest); !errors.Is(err, image.ErrNotFound) {
		t.Errorf("the collected image could be acquired: %v", err)
	}
}

// An image that was packed while the clock was ahead counts as used now, once the clock is right: it is collected in time, and not in
// ten years.
func TestImageOfTheFuture(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	info, err := s.Pack(t.Context(), fstest.MapFS{})
	must(t, err)
	path := filepath.Join(dir, "sha256", info.Digest.Hex())
	future := time.Now().Add(10 * 365 * 24 * time.Hour)
	must(t, os.Chtimes(path, future, future))
	none := func(enplace.Digest) bool { return false }
	if n, _, err := s.Collect(t.Context(), none); n != 0 || err != nil {
		t.Errorf("it was removed at once (%d, %v)", n, err)
	}
	st, err := os.Stat(path)
	must(t, err)
	if st.ModTime().After(time.Now().Add(time.Minute)) {
		t.Errorf("it still is of %s", st.ModTime())
	}
	s.Grace = 0
	if n, _, err := s.Collect(t.Context(), none); n != 1 || err != nil {
		t.Errorf("it was not removed in time (%d, %v)", n, err)
	}
}

func TestStatMakesFresh(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	info, err := s.Pack(t.Context(), fstest.MapFS{})
	must(t, err)
	old := time.Now().Add(-2 * s.Grace)
	must(t, os.Chtimes(filepath.Join(dir, "sha256", info.Digest.Hex()), old, old))
	_, err = s.Stat(info.Digest)
	must(t, err)
	if n, _, err := s.Collect(t.Context(), func(enplace.Digest) bool { return false }); n != 0 || err != nil {
		t.Errorf("an image just stat-ed was removed (%d, %v)", n, err)
	}
	must(t, os.Chtimes(filepath.Join(dir, "sha256", info.Digest.Hex()), old, old))
	if n, _, err := s.Collect(t.Context(), func(enplace.Digest) bool { return false }); n != 1 || err != nil {
		t.Errorf("an old image was not removed (%d, %v)", n, err)
	}
}
