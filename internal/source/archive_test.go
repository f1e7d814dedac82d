package source

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"enplace"
)

// memory is a Sink that keeps contents by digest, as package blob does on disk.
type memory map[enplace.Digest][]byte

func (m memory) Add(_ context.Context, r io.Reader, limit int64) (enplace.Digest, int64, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return "", 0, err
	}
	if int64(len(b)) > limit {
		return "", 0, enplace.TooLargef("more than %d bytes", limit)
	}
	d := enplace.DigestOf(b)
	m[d] = b
	return d, int64(len(b)), nil
}

type item struct {
	name, body, link string
	kind             byte // of a tar; 0 is a file
	mode             int64
}

func makeTar(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range items {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: e.mode, Size: int64(len(e.body))}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if e.kind == tar.TypeXGlobalHeader {
			h = &tar.Header{Name: e.name, Typeflag: e.kind, PAXRecords: map[string]string{"comment": e.body}}
			e.body = ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type zipItem struct {
	name, body string
	mode       fs.FileMode // made on Unix with it
	dos        bool
	flags      uint16
	extra      []byte
}

func makeZip(t testing.TB, items ...zipItem) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range items {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Extra: e.extra, NonUTF8: e.flags&flagUTF8 == 0}
		h.SetMode(e.mode | 0o644)
		if e.dos {
			h.CreatorVersion, h.ExternalAttrs = madeOnDOS<<8, 0
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(e.name, "/") {
			if _, err := io.WriteString(f, e.body); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gz(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func run(t testing.TB, b []byte, l limits) (Result, memory, error) {
	t.Helper()
	scratch, sink := t.TempDir(), memory{}
	res, err := archive(t.Context(), bytes.NewReader(b), sink, scratch, l)
	if left, _ := os.ReadDir(scratch); len(left) > 0 {
		t.Errorf("left in scratch: %v", left)
	}
	return res, sink, err
}

// listing gives entries as lines: path, and what is there.
func listing(res Result, sink memory) []string {
	var out []string
	for _, e := range res.Entries {
		switch {
		case e.Type == enplace.EntryLink:
			out = append(out, e.Path+" -> "+e.Target)
		case e.Executable:
			out = append(out, e.Path+"* "+string(sink[e.Digest]))
		default:
			out = append(out, e.Path+" "+string(sink[e.Digest]))
		}
	}
	return out
}

var smallLimits = limits{archiveBytes: 1 << 20, fileBytes: 1000, treeBytes: 2500, entries: 20, scanned: 200, scannedBytes: 1 << 20, nameBytes: 4000}

func TestFormats(t *testing.T) {
	t.Parallel()
	plain := makeTar(t, item{name: "p/a.txt", body: "a"}, item{name: "p/bin/run", body: "#!", mode: 0o4755})
	want := []string{"a.txt a", "bin/run* #!"}
	archives := map[string][]byte{
		"tar": plain, "tar.gz": gz(t, plain),
		"two members": append(gz(t, plain[:1000]), gz(t, plain[1000:])...),
		"zip":         makeZip(t, zipItem{name: "p/a.txt", body: "a"}, zipItem{name: "p/bin/run", body: "#!", mode: 0o4755}),
	}
	z, _ := zstd.NewWriter(nil)
	archives["tar.zst"] = z.EncodeAll(plain, nil)
	for tool, name := range map[string]string{"bzip2": "tar.bz2", "xz": "tar.xz"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("no %s on this host", tool)
			}
			t.Logf("no %s on this host", tool)
			continue
		}
		cmd := exec.Command(tool, "-c")
		cmd.Stdin = bytes.NewReader(plain)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		archives[name] = out
	}
	for name, b := range archives {
		res, sink, err := run(t, b, defaultLimits)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, listing(res, sink)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if res.Report.Unwrapped != "p" || res.Report.Imported != 2 || res.Report.Bytes != 3 {
			t.Errorf("%s: report %+v", name, res.Report)
		}
	}
	// Cut anywhere, each of them is refused: a cut archive never passes for a small one.
	for name, b := range archives {
		if name == "two members" {
			continue
		}
		for _, n := range []int{len(b) / 4, len(b) / 2, len(b) * 3 / 4, len(b) - 1} {
			if name == "tar" && n > len(plain)-1024 {
				continue // padding behind the end marker's first block may go
			}
			_, _, err := run(t, b[:n], defaultLimits)
			if enplace.KindOf(err) != enplace.KindInvalid {
				t.Errorf("%s cut at %d of %d: %v", name, n, len(b), err)
			}
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("0123456789", 4)
	b := makeTar(t,
		item{name: "pax_global_header", kind: tar.TypeXGlobalHeader, body: commit},
		item{name: "proj/", kind: tar.TypeDir},
		item{name: "proj/.env", body: "A=1"}, item{name: "proj/.env.example", body: "A="}, item{name: "proj/web/.env.local", body: "B=2"},
		item{name: "proj/node_modules/x/caf\xe9", body: "n"}, item{name: "proj/.git/HEAD", body: "ref"}, item{name: "proj/__pycache__/a.pyc"},
		item{name: "__MACOSX/proj/._a"}, item{name: "proj/.DS_Store"}, item{name: "proj/._b"},
		item{name: "proj/a", body: "first"}, item{name: "proj/a", body: "second"},
		item{name: "proj/copy", kind: tar.TypeLink, link: "proj/a"}, item{name: "proj/l", kind: tar.TypeSymlink, link: "./a"},
		item{name: "proj/model.bin", body: lfsHeader + "v1\noid sha256:0\nsize 9\n"},
	)
	res, sink, err := run(t, b, defaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".env A=1", ".env.example A=", "a second", "copy second", "l -> ./a", "model.bin " + lfsHeader + "v1\noid sha256:0\nsize 9\n", "web/.env.local B=2"}
	if diff := cmp.Diff(want, listing(res, sink)); diff != "" {
		t.Error(diff)
	}
	r := res.Report
	var rules []string
	for _, s := range r.Skipped {
		rules = append(rules, fmt.Sprintf("%s %d", s.Rule, s.Count))
	}
	if diff := cmp.Diff([]string{"node_modules 1", ".git 1", "__pycache__ 1", "macOS metadata 3", "came again later in the archive; the last one counts 1"}, rules); diff != "" {
		t.Error(diff)
	}
	if r.Unwrapped != "proj" || r.Commit != commit || r.Imported != 7 {
		t.Errorf("%+v", r)
	}
	if len(r.Notes) != 2 || !strings.HasPrefix(r.Notes[0], "`.env`, `web/.env.local` were imported") || !strings.HasPrefix(r.Notes[1], "`model.bin` was imported as a pointer") {
		t.Errorf("%q", r.Notes)
	}
}

func TestUnwrapping(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ names, want []string }{
		{[]string{"p/a", "p/b/c"}, []string{"a", "b/c"}},
		{[]string{"./p/a"}, []string{"a"}},
		{[]string{"p/a", "q/b"}, []string{"p/a", "q/b"}},
		{[]string{"p/a", "README"}, []string{"README", "p/a"}},
		{[]string{"p/a", "empty/"}, []string{"p/a"}},
		{[]string{"src/a", "node_modules/x"}, []string{"src/a"}},
		{[]string{"src/a", ".git"}, []string{"src/a"}},
		{[]string{"p/a", "p/.git/HEAD", "__MACOSX/x"}, []string{"a"}},
		{[]string{"a"}, []string{"a"}},
		{[]string{"p/p/a"}, []string{"p/a"}},
	} {
		var items []item
		for _, n := range tc.names {
			it := item{name: n}
			if strings.HasSuffix(n, "/") {
				it.kind = tar.TypeDir
			}
			items = append(items, it)
		}
		res, _, err := run(t, makeTar(t, items...), defaultLimits)
		var got []string
		for _, e := range res.Entries {
			got = append(got, e.Path)
		}
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%v: %v, %v", tc.names, got, err)
		}
	}
}

func TestNamesOfOtherSystems(t *testing.T) {
	t.Parallel()
	// Info-ZIP's field: version 1, the CRC of the plain name, the name in UTF-8.
	field := binary.LittleEndian.AppendUint32([]byte{0x75, 0x70, 5 + 4, 0, 1}, crc32.ChecksumIEEE([]byte("caf\x82")))
	field = append(field, "日b"...)
	for _, tc := range []struct {
		name  string
		items []zipItem
		want  []string
		rule  string
	}{
		{"Unicode field", []zipItem{{name: "caf\x82", dos: true, extra: field}, {name: "b"}}, []string{"b", "日b"}, ""},
		{"Unicode field of another name", []zipItem{{name: "caf\x81", dos: true, extra: field}, {name: "b"}}, []string{"b", "cafü"}, "code page 437"},
		{"DOS", []zipItem{{name: `dir\a.txt`, body: "x", dos: true}, {name: `dir\sub\`, dos: true}, {name: "b/c", dos: true}}, []string{"b/c", "dir/a.txt"}, `separated by \`},
		{"Unix, backslashes alone", []zipItem{{name: `dir\a.txt`}, {name: "b"}}, []string{"b", "dir/a.txt"}, `separated by \`},
		{"code page 437", []zipItem{{name: "caf\x82", dos: true}, {name: "b"}}, []string{"b", "café"}, "code page 437"},
		{"UTF-8 without the flag, from Unix", []zipItem{{name: "café"}, {name: "b"}}, []string{"b", "café"}, ""},
		{"folder that Windows wrote in a skipped one", []zipItem{{name: `node_modules\a\b`, dos: true}, {name: "b"}}, []string{"b"}, ""},
	} {
		res, _, err := run(t, makeZip(t, tc.items...), defaultLimits)
		var got []string
		for _, e := range res.Entries {
			got = append(got, e.Path)
		}
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, %v", tc.name, got, err)
		}
		if (tc.rule != "") != (len(res.Report.Renamed) == 1) || tc.rule != "" && !strings.Contains(res.Report.Renamed[0].Rule, tc.rule) {
			t.Errorf("%s: renamed %+v", tc.name, res.Report.Renamed)
		}
	}
}

func TestNotAnArchive(t *testing.T) {
	t.Parallel()
	rar := append([]byte("Rar!\x1a\x07\x01\x00"), make([]byte, 1000)...)
	for name, b := range map[string][]byte{"empty": nil, "text": []byte("hello"), "rar": rar, "gzip of text": gz(t, []byte("hello")), "zeros, but few": make([]byte, 100)} {
		_, _, err := run(t, b, defaultLimits)
		if enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), formats) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A tar that was cut between two entries reads well to its end; only the marker is missing.
func TestTarCutBetweenEntries(t *testing.T) {
	t.Parallel()
	b := makeTar(t, item{name: "a", body: "x"}, item{name: "b", body: "y"})
	if _, _, err := run(t, b[:1024], defaultLimits); enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("got %v", err)
	}
}

func TestFailuresThatAreNotTheArchives(t *testing.T) {
	t.Parallel()
	b := makeTar(t, item{name: "a", body: strings.Repeat("x", 4000)})
	broken := errors.New("connection reset")
	for name, format := range map[string][]byte{"tar": b, "tar.gz": gz(t, b), "zip": makeZip(t, zipItem{name: "a", body: "x"})} {
		_, err := Archive(t.Context(), io.MultiReader(bytes.NewReader(format[:len(format)/2]), errReader{broken}), memory{}, t.TempDir())
		if !errors.Is(err, broken) || enplace.KindOf(err) != enplace.KindInternal {
			t.Errorf("%s, upload breaks: %v", name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Archive(ctx, bytes.NewReader(format), memory{}, t.TempDir()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %v", name, err)
		}
		if _, err := Archive(t.Context(), bytes.NewReader(format), brokenSink{broken}, t.TempDir()); !errors.Is(err, broken) || enplace.KindOf(err) != enplace.KindInternal {
			t.Errorf("%s, sink breaks: %v", name, err)
		}
	}
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

type brokenSink struct{ err error }

func (s brokenSink) Add(context.Context, io.Reader, int64) (enplace.Digest, int64, error) {
	return "", 0, s.err
}

func FuzzArchive(f *testing.F) {
	plain := makeTar(f, item{name: "p/a", body: "a"}, item{name: "p/l", kind: tar.TypeSymlink, link: "a"}, item{name: "p/h", kind: tar.TypeLink, link: "p/a"})
	f.Add(plain)
	f.Add(gz(f, plain))
	f.Add(makeZip(f, zipItem{name: "a/b", body: "x"}, zipItem{name: `c\d`, dos: true}, zipItem{name: "l", body: "a", mode: fs.ModeSymlink}))
	z, _ := zstd.NewWriter(nil)
	f.Add(z.EncodeAll(plain, nil))
	f.Add([]byte("BZh91AY&SY"))
	f.Add([]byte("\xfd7zXZ\x00"))
	scratch := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		res, err := archive(t.Context(), bytes.NewReader(b), memory{}, scratch, smallLimits)
		if err != nil {
			if k := enplace.KindOf(err); k != enplace.KindInvalid && k != enplace.KindTooLarge {
				t.Fatalf("kind %s: %v", k, err)
			}
			return
		}
		for i, e := range res.Entries {
			if err := enplace.CheckPath(e.Path); err != nil {
				t.Fatal(err)
			}
			if e.Type == enplace.EntryLink && enplace.CheckLink(e.Path, e.Target) != nil {
				t.Fatalf("link %q -> %q", e.Path, e.Target)
			}
			if enplace.ImportSkips(e.Path) != "" {
				t.Fatalf("%q was imported", e.Path)
			}
			if i > 0 && res.Entries[i-1].Path >= e.Path {
				t.Fatal("not sorted")
			}
			for _, o := range res.Entries {
				if strings.HasPrefix(o.Path, e.Path+"/") {
					t.Fatalf("%q below %q", o.Path, e.Path)
				}
			}
		}
	})
}
