package base

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"golang.org/x/sys/unix"

	"enplace"
)

func owner(fi os.FileInfo) int { return int(fi.Sys().(*syscall.Stat_t).Uid) }

func xattrs(t testing.TB, path string) map[string]string {
	t.Helper()
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(path, buf)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, k := range strings.FieldsFunc(string(buf[:n]), func(r rune) bool { return r == 0 }) {
		v := make([]byte, 4096)
		m, err := unix.Lgetxattr(path, k, v)
		if err != nil {
			t.Fatal(err)
		}
		found[k] = string(v[:m])
	}
	return found
}

// small is a root with a shell and nothing else that a base asks for.
func small(t testing.TB) []tar.Header {
	return []tar.Header{dir("bin"), file("bin/busybox", string(busybox(t))), symlink("bin/sh", "/bin/busybox"), file("etc/gone", "x")}
}

func ensure(t testing.TB, b *Builder) Base {
	t.Helper()
	rec, err := b.Ensure(context.Background(), testWriter{t})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	return rec
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// contents gives what is in a base's image, by path, with the first bytes of each file.
func contents(t testing.TB, b *Builder, rec Base) map[string]string {
	t.Helper()
	fsys, closer, err := b.cfg.Images.FS(context.Background(), rec.Digest)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	found := map[string]string{}
	err = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		found[p] = ""
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := fsys.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		first, err := io.ReadAll(io.LimitReader(f, 1024))
		found[p] = string(first)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestOCIImage(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	reference := strings.TrimPrefix(server.URL, "http://") + "/team/root:v1"
	push(t, reference, small(t), []tar.Header{file("etc/.wh.gone", ""), file("etc/new", "upper")})

	b := newBuilder(t, Config{Source: Source{OCI, reference}})
	rec := ensure(t, b)
	if want := "oci:" + strings.TrimSuffix(reference, ":v1") + "@sha256:"; !strings.HasPrefix(rec.Source, want) {
		t.Errorf("source %q, want %s…", rec.Source, want)
	}
	got := contents(t, b, rec)
	if _, ok := got["etc/gone"]; ok || got["etc/new"] != "upper" {
		t.Errorf("layers: %v", got)
	}
	for _, d := range []string{"proc", "sys", "dev", "tmp", "run", "env", "task"} {
		if _, ok := got[d]; !ok {
			t.Errorf("no /%s", d)
		}
	}
	if w := strings.Join(rec.Warnings, "; "); !strings.Contains(w, "no python3") || !strings.Contains(w, "no node") {
		t.Errorf("warnings %q", w)
	}

	// The tag moves: Ensure keeps what it has, without asking; Rebuild follows.
	push(t, reference, small(t))
	if again := ensure(t, b); again.Digest != rec.Digest {
		t.Error("Ensure made it again")
	}
	moved, err := b.Rebuild(context.Background(), nil)
	if err != nil || moved.Source == rec.Source || moved.Digest == rec.Digest {
		t.Errorf("Rebuild gave %s, %v", moved.Source, err)
	}
}

func push(t testing.TB, reference string, layers ...[]tar.Header) {
	t.Helper()
	img := empty.Image
	for _, entries := range layers {
		data := archive(t, entries...)
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.AppendLayers(img, l); err != nil {
			t.Fatal(err)
		}
	}
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
}

// A registry that gives other bytes for a layer's digest is found out, and nothing is kept.
func TestOCILayerWithOtherBytes(t *testing.T) {
	t.Parallel()
	evil := gzipped(t, archive(t, append(small(t), file("evil", "x"))...))
	inner := registry.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/sha256:") {
			rec := httptest.NewRecorder()
			inner.ServeHTTP(rec, r)
			if body := rec.Body.Bytes(); bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
				_, _ = w.Write(evil)
				return
			}
			_, _ = w.Write(rec.Body.Bytes())
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	reference := strings.TrimPrefix(server.URL, "http://") + "/root:v1"
	push(t, reference, small(t))
	b := newBuilder(t, Config{Source: Source{OCI, reference}})
	_, err := b.Ensure(context.Background(), nil)
	if enplace.KindOf(err) != enplace.KindUpstream {
		t.Fatalf("got %v", err)
	}
	if _, ok := b.Current(); ok {
		t.Error("it counts as made")
	}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestOCINotThere(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	b := newBuilder(t, Config{Source: Source{OCI, strings.TrimPrefix(server.URL, "http://") + "/nothing:v1"}})
	if _, err := b.Ensure(context.Background(), nil); enplace.KindOf(err) != enplace.KindUpstream {
		t.Errorf("got %v", err)
	}
}

// The same root by every way gives the same image.
func TestTarballsAndDirectory(t *testing.T) {
	t.Parallel()
	data := archive(t, small(t)...)
	top := t.TempDir()
	sources := []Source{}
	for name, pack := range map[string]func(io.Writer) (io.WriteCloser, error){
		"root.tar":  func(w io.Writer) (io.WriteCloser, error) { return nopCloser{w}, nil },
		"root.gz":   func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"root.xz":   func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
		"root.zstd": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	} {
		f, err := os.Create(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		w, err := pack(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, Source{Tarball, f.Name()})
	}
	tree := filepath.Join(top, "tree")
	write(t, filepath.Join(tree, "etc/gone"), "x")
	write(t, filepath.Join(tree, "bin/busybox"), string(busybox(t)))
	for _, p := range []string{"etc/gone", "bin/busybox"} {
		if err := os.Chmod(filepath.Join(tree, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/bin/busybox", filepath.Join(tree, "bin/sh")); err != nil {
		t.Fatal(err)
	}
	sources = append(sources, Source{Dir, tree})
	var first Base
	for _, s := range sources {
		b := newBuilder(t, Config{Source: s})
		rec := ensure(t, b)
		if first.Digest == "" {
			first = rec
		}
		if rec.Digest != first.Digest {
			t.Errorf("%s and %s differ: %v and %v", rec.Source, first.Source, contents(t, b, rec), first)
		}
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func TestRootWithoutShell(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	write(t, filepath.Join(tree, "etc/os-release"), "x")
	_, err := newBuilder(t, Config{Source: Source{Dir, tree}}).Ensure(context.Background(), nil)
	if enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), "/bin/sh") {
		t.Errorf("got %v", err)
	}
}

func TestDamagedTarball(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "root.tar.gz")
	write(t, file, string(gzipped(t, archive(t, small(t)...))[:5000]))
	b := newBuilder(t, Config{Source: Source{Tarball, file}})
	if _, err := b.Ensure(context.Background(), nil); enplace.KindOf(err) != enplace.KindInvalid {
		t.Errorf("got %v", err)
	}
}

// The shell of a root from outside runs as nobody of this machine, without a network, and cannot write to the machine's own
// files.
func TestHostileShell(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	write(t, filepath.Join(tree, "bin/busybox"), string(busybox(t)))
	write(t, filepath.Join(tree, "bin/sh"), `#!/bin/busybox sh
/bin/busybox cat /proc/self/uid_map > /seen
/bin/busybox ls /sys/class/net /proc/1/root/etc >> /seen 2>&1
echo x > /proc/sys/kernel/core_pattern && echo wrote >> /seen
/bin/busybox mount -t tmpfs none /mnt && echo mounted >> /seen
/bin/busybox mknod /dev/sda b 8 0 && echo device >> /seen
/bin/busybox sleep 300 &
echo "python=3.99.1; rm -rf"
`)
	for _, p := range []string{"bin/sh", "bin/busybox"} {
		if err := os.Chmod(filepath.Join(tree, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b := newBuilder(t, Config{Source: Source{Dir, tree}})
	rec := ensure(t, b)
	if rec.Python != "3.99.1" {
		t.Errorf("python %q", rec.Python)
	}
	seen := contents(t, b, rec)["seen"]
	if !strings.Contains(seen, "4000000000") {
		t.Errorf("ids: %q", seen)
	}
	for _, word := range []string{"wrote", "mounted", "device", "eth0"} {
		if strings.Contains(seen, word) {
			t.Errorf("it could: %q", seen)
		}
	}
	if out, err := exec.Command("runc", "--root", b.state(), "list", "-q").Output(); err == nil && len(out) > 0 {
		t.Errorf("left running: %s", out)
	}
}
