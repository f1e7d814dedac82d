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
	"path/filepath"
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
	method     uint16
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

func TestHostileTar(t *testing.T) {
	t.Parallel()
	const reg, sym, hard = tar.TypeReg, tar.TypeSymlink, tar.TypeLink
	ok := item{name: "ok.txt", body: "fine"}
	for _, tc := range []struct {
		name  string
		items []item
		say   string // in the error
	}{
		{"dot dot last", []item{ok, {name: "../x", body: "x"}}, "../x"},
		{"dot dot inside", []item{{name: "a/../../x", body: "x"}}, ".."},
		{"dot dot behind a skipped name", []item{ok, {name: "node_modules/../x", body: "x"}}, ".."},
		{"absolute", []item{{name: "/etc/passwd", body: "x"}}, "absolute"},
		{"absolute skipped", []item{{name: "/node_modules/x", body: "x"}}, "absolute"},
		{"only dot dot", []item{{name: "..", kind: tar.TypeDir}}, ".."},
		{"empty component", []item{{name: "a//b", body: "x"}}, "empty component"},
		{"control character", []item{{name: "a\x1b[31mb", body: "x"}}, "control character"},
		{"newline", []item{{name: "a\nb", body: "x"}}, "control character"},
		{"not UTF-8", []item{{name: "caf\xe9", body: "x"}}, "UTF-8"},
		{"component of 256 bytes", []item{{name: strings.Repeat("a", 256), body: "x"}}, "255 bytes"},
		{"deep nesting", []item{{name: strings.Repeat("a/", 3000) + "x", body: "x"}}, "3840 bytes"},
		{"drive letter", []item{{name: `C:\x`, body: "x"}}, "drive letter"},
		{"backslash beside slash", []item{{name: "a/b", body: "x"}, {name: `c\d`, body: "x"}}, "backslash"},
		{"backslash dot dot", []item{{name: `..\x`, body: "x"}}, ".."},
		{"link to absolute", []item{{name: "l", kind: sym, link: "/etc/passwd"}}, "must be relative"},
		{"link out", []item{{name: "a/l", kind: sym, link: "../../x"}}, "outside the project"},
		{"link out and back", []item{{name: "l", kind: sym, link: "../p/x"}}, "outside the project"},
		{"link with nothing", []item{{name: "l", kind: sym}}, "must be relative"},
		{"link with backslash", []item{{name: "l", kind: sym, link: `..\x`}}, "must be relative"},
		{"link out only when unwrapped", []item{{name: "p/l", kind: sym, link: "../p/x"}, {name: "p/x"}}, "outside the project"},
		{"file below a link", []item{{name: "d", kind: sym, link: "e"}, {name: "d/x", body: "x"}, ok}, "folder too"},
		{"file below a link that comes later", []item{{name: "d/x", body: "x"}, {name: "d", kind: sym, link: "e"}, ok}, "folder too"},
		{"folder at a link", []item{{name: "d", kind: sym, link: "e"}, {name: "d/", kind: tar.TypeDir}, ok}, "folder too"},
		{"file and folder", []item{{name: "a", body: "x"}, {name: "a-b", body: "x"}, {name: "a/b", body: "x"}}, "folder too"},
		{"file and empty folder below", []item{{name: "a", body: "x"}, {name: "a/b/", kind: tar.TypeDir}}, "folder too"},
		{"hard link out", []item{{name: "l", kind: hard, link: "../../etc/passwd"}}, "hard link"},
		{"hard link to absolute", []item{{name: "l", kind: hard, link: "/etc/passwd"}}, "hard link"},
		{"hard link to what comes later", []item{{name: "l", kind: hard, link: "ok.txt"}, ok}, "hard link"},
		{"hard link to a link", []item{{name: "s", kind: sym, link: "ok.txt"}, {name: "l", kind: hard, link: "s"}, ok}, "hard link"},
		{"hard link to what is skipped", []item{{name: ".git/x", body: "x"}, {name: "l", kind: hard, link: ".git/x"}}, "hard link"},
		{"device", []item{ok, {name: "null", kind: tar.TypeChar}}, "device"},
		{"block device", []item{ok, {name: "sda", kind: tar.TypeBlock}}, "device"},
		{"fifo", []item{ok, {name: "pipe", kind: tar.TypeFifo}}, "named pipe"},
		{"unknown kind", []item{ok, {name: "odd", kind: 'Z'}}, "of a kind"},
		{"nothing", nil, "nothing to import"},
		{"only folders", []item{{name: "a/", kind: tar.TypeDir}}, "nothing to import"},
		{"only what is skipped", []item{{name: "node_modules/x", kind: reg, body: "x"}}, "never imported"},
	} {
		res, _, err := run(t, makeTar(t, tc.items...), defaultLimits)
		if enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), tc.say) {
			t.Errorf("%s: got %v", tc.name, err)
		}
		if len(res.Entries) > 0 {
			t.Errorf("%s: entries beside an error", tc.name)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%s: raw control characters in %q", tc.name, err)
		}
	}
}

func TestHostileZip(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		items []zipItem
		say   string
	}{
		{"dot dot", []zipItem{{name: "a", body: "x"}, {name: "../up.txt", body: "x"}}, ".."},
		{"absolute", []zipItem{{name: "/abs.txt", body: "x"}}, "absolute"},
		{"drive letter", []zipItem{{name: `C:\x`, body: "x", dos: true}}, "drive letter"},
		{"backslash dot dot from DOS", []zipItem{{name: `..\x`, body: "x", dos: true}}, ".."},
		{"UNC", []zipItem{{name: `\\host\share`, body: "x", dos: true}}, "absolute"},
		{"NUL", []zipItem{{name: "a\x00b", body: "x"}}, "control character"},
		{"UTF-8 that is none", []zipItem{{name: "caf\xe9", body: "x", flags: flagUTF8}}, "UTF-8"},
		{"link to absolute", []zipItem{{name: "l", body: "/etc", mode: fs.ModeSymlink}}, "must be relative"},
		{"link of 5000 bytes", []zipItem{{name: "l", body: strings.Repeat("a/", 2500), mode: fs.ModeSymlink}}, "must be relative"},
		{"file below a link", []zipItem{{name: "l", body: "d", mode: fs.ModeSymlink}, {name: "l/x", body: "x"}}, "folder too"},
		{"device", []zipItem{{name: "dev", mode: fs.ModeDevice}}, "device"},
		{"socket", []zipItem{{name: "sock", mode: fs.ModeSocket}}, "socket"},
		{"backslash beside slash on Unix", []zipItem{{name: "a/b", body: "x"}, {name: `c\d`, body: "x"}}, "backslash"},
		{"nothing", nil, "nothing to import"},
	} {
		b := makeZip(t, tc.items...)
		if tc.name == "UTF-8 that is none" { // what the writer does not write
			b[6+1] |= flagUTF8 >> 8
			b[bytes.Index(b, []byte("PK\x01\x02"))+9] |= flagUTF8 >> 8
		}
		if _, _, err := run(t, b, defaultLimits); enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), tc.say) {
			t.Errorf("%s: got %v", tc.name, err)
		}
	}
}

func TestZipHeadersThatLie(t *testing.T) {
	t.Parallel()
	b := makeZip(t, zipItem{name: "big", body: strings.Repeat("z", 900)}, zipItem{name: "other", body: "x"})
	central := bytes.Index(b, []byte("PK\x01\x02"))

	short := bytes.Clone(b)
	short[central+24], short[central+25] = 10, 0 // unpacked size
	if _, _, err := run(t, short, defaultLimits); enplace.KindOf(err) != enplace.KindInvalid {
		t.Errorf("header says 10 bytes: %v", err)
	}
	encrypted := bytes.Clone(b)
	encrypted[central+8] |= flagEncrypted
	if _, _, err := run(t, encrypted, defaultLimits); enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), "password") {
		t.Errorf("encrypted: %v", err)
	}
	method := bytes.Clone(b)
	method[central+10] = 97
	if _, _, err := run(t, method, defaultLimits); enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), "method 97") {
		t.Errorf("method: %v", err)
	}
	sum := bytes.Clone(b)
	sum[central+16] ^= 1
	if _, _, err := run(t, sum, defaultLimits); enplace.KindOf(err) != enplace.KindInvalid || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("checksum: %v", err)
	}
}

// Many entries that share the bytes of one file unpack to far more than the zip has; what counts is what is written.
func TestZipOverlappingEntries(t *testing.T) {
	t.Parallel()
	b := makeZip(t, zipItem{name: "a0", body: strings.Repeat("z", 900)})
	central := bytes.Index(b, []byte("PK\x01\x02"))
	end := bytes.Index(b, []byte("PK\x05\x06"))
	one := b[central:end]
	out := bytes.Clone(b[:central])
	for i := range 10 {
		e := bytes.Clone(one)
		e[46+1] = byte('0' + i)
		out = append(out, e...)
	}
	tail := bytes.Clone(b[end:])
	tail[8], tail[10] = 10, 10
	n := len(one) * 10
	tail[12], tail[13] = byte(n), byte(n>>8)
	_, _, err := run(t, append(out, tail...), smallLimits)
	if enplace.KindOf(err) != enplace.KindTooLarge {
		t.Errorf("got %v", err)
	}
}

func TestZipWithAMillionEntries(t *testing.T) {
	t.Parallel()
	const n = 1_000_000
	entry := make([]byte, 46+1)
	copy(entry, "PK\x01\x02")
	entry[28], entry[46] = 1, 'a'
	b := append([]byte("PK\x03\x04"), make([]byte, 30)...)
	start := len(b)
	b = append(b, bytes.Repeat(entry, n)...)
	b = fmt.Appendf(b, "PK\x05\x06\x00\x00\x00\x00")
	for _, v := range []uint32{n & 0xffff, uint32(len(entry) * n), uint32(start)} {
		if v == n&0xffff {
			b = append(b, byte(v), byte(v>>8), byte(v), byte(v>>8))
			continue
		}
		b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	}
	b = append(b, 0, 0)
	if _, _, err := run(t, b, defaultLimits); enplace.KindOf(err) != enplace.KindTooLarge || !strings.Contains(err.Error(), "200000") {
		t.Errorf("got %v", err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	body := func(n int) string { return strings.Repeat("x", n) }
	many := func(n int, format string) (out []item) {
		for i := range n {
			out = append(out, item{name: fmt.Sprintf(format, i), body: ""})
		}
		return out
	}
	for _, tc := range []struct {
		name  string
		items []item
		say   string // empty: must pass
	}{
		{"file at the limit", []item{{name: "a", body: body(1000)}}, ""},
		{"file one over", []item{{name: "ok"}, {name: "dir/a", body: body(1001)}}, "dir/a: is larger than 1000 bytes"},
		{"tree at the limit", []item{{name: "a", body: body(1000)}, {name: "b", body: body(1000)}, {name: "c", body: body(500)}}, ""},
		{"tree one over", []item{{name: "a", body: body(1000)}, {name: "b", body: body(1000)}, {name: "c", body: body(501)}}, "c: brings the import to more than 2500 bytes"},
		{"tree over by hard links", []item{{name: "a", body: body(1000)}, {name: "b", kind: tar.TypeLink, link: "a"}, {name: "c", kind: tar.TypeLink, link: "a"}}, "more than 2500 bytes"},
		{"tree over by duplicates", []item{{name: "a", body: body(1000)}, {name: "a", body: body(1000)}, {name: "a", body: body(1000)}}, "more than 2500 bytes"},
		{"entries at the limit", many(20, "f%d"), ""},
		{"entries one over", many(21, "f%d"), "more than 20 files and links"},
		{"folders", func() []item {
			out := many(30, "d%d/")
			for i := range out {
				out[i].kind = tar.TypeDir
			}
			return out
		}(), "more than 20 folders"},
		{"skipped at the limit", append(many(199, ".git/%d"), item{name: "a"}), ""},
		{"skipped one over", append(many(200, ".git/%d"), item{name: "a"}), "more than 200 entries"},
		{"skipped bytes", []item{{name: "venv/x", body: body(2 << 20)}, {name: "a"}}, "archive is larger than 1 MiB"},
		{"names", many(19, strings.Repeat("n", 230)+"%02d"), "paths of the archive"},
		{"link targets", []item{{name: "a", kind: tar.TypeSymlink, link: strings.Repeat("n/", 2000)}, {name: "b", kind: tar.TypeSymlink, link: strings.Repeat("n/", 2000)}}, "paths of the archive"},
	} {
		_, _, err := run(t, makeTar(t, tc.items...), smallLimits)
		switch {
		case tc.say == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.say != "" && (enplace.KindOf(err) != enplace.KindTooLarge || !strings.Contains(err.Error(), tc.say)):
			t.Errorf("%s: got %v", tc.name, err)
		}
	}
	// The same counts hold for what is packed, and for zips.
	for name, b := range map[string][]byte{
		"gzip of skipped bytes": gz(t, makeTar(t, item{name: "venv/x", body: body(2 << 20)}, item{name: "a"})),
		"zip file one over":     makeZip(t, zipItem{name: "a", body: body(1001)}),
		"zip tree one over":     makeZip(t, zipItem{name: "a", body: body(1000)}, zipItem{name: "b", body: body(1000)}, zipItem{name: "c", body: body(501)}),
	} {
		if _, _, err := run(t, b, smallLimits); enplace.KindOf(err) != enplace.KindTooLarge {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, _, err := run(t, makeZip(t, zipItem{name: "a", body: body(1000)}), smallLimits); err != nil {
		t.Errorf("zip file at the limit: %v", err)
	}
}

// discard is a Sink for large contents.
type discard struct{ most int64 }

func (d *discard) Add(_ context.Context, r io.Reader, limit int64) (enplace.Digest, int64, error) {
	n, err := io.Copy(io.Discard, io.LimitReader(r, limit+1))
	d.most = max(d.most, n)
	if err == nil && n > limit {
		err = enplace.TooLargef("too large")
	}
	return enplace.DigestOf(nil), n, err
}

func TestGzipBombStopsAtTheFileLimit(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	defer r.Close()
	go func() {
		g := gzip.NewWriter(w)
		tw := tar.NewWriter(g)
		_ = tw.WriteHeader(&tar.Header{Name: "zeros.bin", Typeflag: tar.TypeReg, Size: 1 << 30})
		zeros := make([]byte, 1<<20)
		for range 1 << 10 {
			if _, err := tw.Write(zeros); err != nil {
				return
			}
		}
	}()
	sink := &discard{}
	_, err := Archive(t.Context(), r, sink, t.TempDir())
	if enplace.KindOf(err) != enplace.KindTooLarge || !strings.Contains(err.Error(), "zeros.bin") || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("got %v", err)
	}
	if sink.most > enplace.MaxFileBytes {
		t.Errorf("the sink got %d bytes", sink.most)
	}
}

// A sparse file is small in the archive and as large as it says when it is read.
func TestSparseFileCountsItsHoles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("end"), 5000); err != nil {
		t.Fatal(err)
	}
	f.Close()
	b, err := exec.Command("tar", "-C", dir, "--sparse", "-cf", "-", "sparse").Output()
	if err != nil {
		t.Skip("no GNU tar on this host")
	}
	res, _, err := run(t, b, defaultLimits)
	if err != nil || res.Report.Bytes != 5003 {
		t.Errorf("%+v, %v", res.Report, err)
	}
	if _, _, err := run(t, b, smallLimits); enplace.KindOf(err) != enplace.KindTooLarge {
		t.Errorf("got %v", err)
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
