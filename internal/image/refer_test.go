package image_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"enplace"
	"enplace/internal/image"
)

func TestDamageBelowComposedIsRefused(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	src := fstest.MapFS{"f": {Data: filled("f", 100_000)}}
	part := pack(t, s, src)
	c := compose(t, s, "", image.Part{Image: part.Digest})
	refused := func(what string) {
		t.Helper()
		for name, use := range map[string]func() error{
			"Verify":  func() error { return s.Verify(t.Context(), c.Digest) },
			"Acquire": func() error { _, err := s.Acquire(t.Context(), c.Digest); return err },
			"FS":      func() error { _, _, err := s.FS(t.Context(), c.Digest); return err },
			"Compose": func() error {
				_, err := s.Compose(t.Context(), []image.Part{{Image: c.Digest}}, "", image.DirOptions{})
				return err
			},
		} {
			err := use()
			if enplace.KindOf(err) != enplace.KindUnavailable || errors.Is(err, image.ErrNotFound) ||
				!strings.Contains(err.Error(), string(c.Digest)) || !strings.Contains(err.Error(), string(part.Digest)) {
				t.Errorf("%s with %s gave %v", name, what, err)
			}
		}
	}
	must(t, s.Verify(t.Context(), c.Digest))
	flip(t, filepath.Join(dir, "sha256", part.Digest.Hex()), 50_000)
	refused("a flipped bit in the image that it refers to")
	must(t, os.Remove(filepath.Join(dir, "sha256", part.Digest.Hex())))
	refused("the image that it refers to missing")
	pack(t, s, src)
	if err := s.Verify(t.Context(), c.Digest); err != nil {
		t.Errorf("packing that anew did not mend it: %v", err)
	}
	flip(t, filepath.Join(dir, "sha256", c.Digest.Hex()), 1200) // in the tag
	if err := s.Verify(t.Context(), c.Digest); enplace.KindOf(err) != enplace.KindUnavailable {
		t.Errorf("a flipped bit in its own table: %v", err)
	}
}

// Only Compose writes device tables. Others, with a digest that is right, are errors.
func TestGarbageIsAnError(t *testing.T) {
	t.Parallel()
	s, dir := open(t)
	part := pack(t, s, fstest.MapFS{"f": {Data: filled("f", 100_000)}})
	c := compose(t, s, "", image.Part{Image: part.Digest})
	whole := []byte(readAll(t, filepath.Join(dir, "sha256", c.Digest.Hex())))
	changed := func(at int, to ...byte) []byte {
		return append(append(bytes.Clone(whole[:at]), to...), whole[at+len(to):]...)
	}
	for name, content := range map[string][]byte{
		"nothing":                    {},
		"half a superblock":          whole[:1100],
		"no table":                   whole[:1152],
		"half a table":               whole[:1200],
		"no EROFS":                   changed(1024, 0),
		"more devices than possible": changed(1024+86, 255, 255),
		"a table behind the end":     changed(1024+88, 255, 255),
		"a table elsewhere":          changed(1024+88, 8),
		"a tag of no digest":         changed(1152, 'X'),
		"a size of more than all":    changed(1152+127, 255),
		"two devices, one tag":       changed(1024+86, 2),
	} {
		d := enplace.DigestOf(content)
		must(t, os.WriteFile(filepath.Join(dir, "sha256", d.Hex()), content, 0o600))
		for call, err := range map[string]error{
			"Verify":  s.Verify(t.Context(), d),
			"Stat":    second(s.Stat(d)),
			"Refers":  second(s.Refers(t.Context(), d)),
			"Acquire": second(s.Acquire(t.Context(), d)),
			"Compose": second(s.Compose(t.Context(), []image.Part{{Image: d}}, "", image.DirOptions{})),
		} {
			if enplace.KindOf(err) != enplace.KindUnavailable {
				t.Errorf("%s of %s gave %v", call, name, err)
			}
		}
	}
	s.Grace = 0
	n, _, err := s.Collect(t.Context(), func(d enplace.Digest) bool { return d == c.Digest })
	if n != 11 || err != nil {
		t.Errorf("collected %d of 11, %v", n, err)
	}
	must(t, s.Verify(t.Context(), c.Digest))
}

func second[T any](_ T, err error) error { return err }

func TestCollectKeepsWhatIsReferredTo(t *testing.T) {
	t.Parallel()
	first, dir := open(t)
	a, b := pack(t, first, fstest.MapFS{"a": {Data: filled("a", 9000)}}), pack(t, first, fstest.MapFS{"b": {Data: filled("b", 9000)}})
	upper := t.TempDir()
	write(t, upper, map[string]string{"own": string(filled("own", 9000))})
	one := compose(t, first, upper, image.Part{Image: a.Digest}, image.Part{Image: b.Digest})
	two := compose(t, first, "", image.Part{Image: one.Digest, Keep: func(p string) bool { return p != "b" }})
	unused := pack(t, first, fstest.MapFS{"c": {Data: filled("c", 9000)}})
	if got, want := refers(t, first, two.Digest), sortedDigests(a, one); !slices.Equal(got, want) {
		t.Errorf("it refers to %q, want %q", got, want)
	}

	s, err := image.Open(dir) // as after a restart: it knows nothing of them
	must(t, err)
	defer s.Close()
	collect := func(want int, bytes int64, kept ...enplace.Digest) {
		t.Helper()
		old := time.Now().Add(-2 * s.Grace)
		for _, e := range imageFiles(t, dir) {
			must(t, os.Chtimes(filepath.Join(dir, e), old, old))
		}
		n, size, err := s.Collect(t.Context(), func(d enplace.Digest) bool { return slices.Contains(kept, d) })
		if n != want || size != bytes || err != nil {
			t.Errorf("collected %d images of %d bytes, %v; want %d of %d", n, size, err, want, bytes)
		}
	}
	collect(1, unused.Own, two.Digest)
	must(t, s.Verify(t.Context(), two.Digest))
	must(t, s.Verify(t.Context(), one.Digest))
	collect(1, two.Own, one.Digest)
	collect(3, one.Own+a.Own+b.Own)
}

func TestComposeBesideCollect(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	s.Grace = 0
	var composing sync.WaitGroup
	done := make(chan struct{})
	for g := range 4 {
		composing.Go(func() {
			for i := range 30 {
				name := fmt.Sprint(g, i)
				part, err := s.Pack(t.Context(), fstest.MapFS{name: {Data: filled(name, 9000)}})
				if err != nil {
					t.Error(err)
				}
				c, err := s.Compose(t.Context(), []image.Part{{Image: part.Digest}}, "", image.DirOptions{})
				if errors.Is(err, image.ErrNotFound) { // it went before it was asked for, or the composed one at once
					continue
				}
				if err != nil {
					t.Error(err)
					continue
				}
				if err := s.Verify(t.Context(), c.Digest); err != nil && !errors.Is(err, image.ErrNotFound) {
					t.Errorf("it is there without what it refers to: %v", err)
				}
			}
		})
	}
	collected := make(chan int)
	go func() {
		total := 0
		for {
			n, _, err := s.Collect(t.Context(), func(enplace.Digest) bool { return false })
			if err != nil {
				t.Error(err)
			}
			total += n
			select {
			case <-done:
				collected <- total
				return
			default:
			}
		}
	}()
	composing.Wait()
	close(done)
	if n := <-collected; n == 0 {
		t.Error("nothing was collected beside")
	}
}

// flip changes one bit of a file.
func flip(t testing.TB, p string, at int64) {
	t.Helper()
	f, err := os.OpenFile(p, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	must(t, err)
	b[0] ^= 1
	_, err = f.WriteAt(b[:], at)
	must(t, err)
}

func BenchmarkMount(b *testing.B) {
	needRoot(b)
	for _, mode := range image.Modes[:2] {
		for _, devices := range []int{0, 3, 48} {
			b.Run(fmt.Sprintf("%s/%d devices", mode, devices), func(b *testing.B) {
				s, _ := open(b)
				image.Force(s, mode, false)
				mounted := pack(b, s, fstest.MapFS{"f": {Data: filled("f", 100_000)}})
				if devices > 0 {
					var parts []image.Part
					for i := range devices {
						parts = append(parts, image.Part{Image: pack(b, s, fstest.MapFS{fmt.Sprint(i): {Data: filled(fmt.Sprint(i), 100_000)}}).Digest})
					}
					mounted = compose(b, s, "", parts...)
				}
				for b.Loop() {
					l, err := s.Acquire(b.Context(), mounted.Digest)
					must(b, err)
					b.StopTimer()
					must(b, l.Close())
					must(b, image.Drop(s, mounted.Digest)())
					b.StartTimer()
				}
			})
		}
	}
}
