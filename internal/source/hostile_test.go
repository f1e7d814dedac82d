package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"enplace"
)

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
		{"link out by way of another link", []item{ok, {name: "d/s", kind: sym, link: "."}, {name: "d/l", kind: sym, link: "s/../../x"}}, "behind a name"},
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
		if os.Getenv("CI") != "" {
			t.Fatal("no GNU tar on this host")
		}
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
