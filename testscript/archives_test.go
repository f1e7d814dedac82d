package testscript

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"fmt"
	"io"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

// archive NAME FILE writes one of the hostile archives below to a file.
func archive(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: archive NAME FILE")
	}
	write := archives[args[0]]
	if write == nil {
		ts.Fatalf("there is no archive %s", args[0])
	}
	f, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	ts.Check(write(f))
	ts.Check(f.Close())
}

var archives = map[string]func(io.Writer) error{
	// A zip as Windows programs write it: every folder behind a backslash.
	"windows":             zipOf(0, `src\main.py`, `src\lib\util.py`),
	"backslash-and-slash": zipOf(3, `src/main.py`, `odd\name.py`),
	"dotdot":              zipOf(3, "good.txt", "../up.txt"),
	"absolute":            zipOf(3, "good.txt", "/abs.txt"),
	"drive":               zipOf(0, "good.txt", `C:\x`),
	"control":             zipOf(3, "good.txt", "a\x01b"),
	"clash":               zipOf(3, "a", "a/b"),
	"twice":               zipOf(3, "a.txt", "a.txt"),
	"skipped":             zipOf(3, "app.py", "node_modules/x/index.js", ".git/config", "lib/__pycache__/m.pyc", ".venv/bin/python"),
	// Valid until its last entry.
	"last-is-bad": zipOf(3, append(many(2000), "../x")...),
	// A link to a folder outside, then a file through it; a link, then a file of the same name.
	"through-link": tarOf(link("out", "/etc"), file("out/passwd", 4)),
	"same-name":    tarOf(link("moo", "../../../tmp/out"), file("moo", 4)),
	"link-up":      tarOf(file("a/b/c", 1), link("a/b/up", "../../../x")),
	"hard-link":    tarOf(&tar.Header{Typeflag: tar.TypeLink, Name: "shadow", Linkname: "/etc/shadow"}),
	"device":       tarOf(&tar.Header{Typeflag: tar.TypeBlock, Name: "disk", Devmajor: 8}),
	// A mebibyte that unpacks to more than a file may have.
	"bomb": gzipped(tarOf(file("zeros", 65<<20))),
}

// zipOf makes a zip of small files, made on the system of that number (0 DOS, 3 Unix).
func zipOf(system uint16, names ...string) func(io.Writer) error {
	return func(w io.Writer) error {
		z := zip.NewWriter(w)
		for i, name := range names {
			f, err := z.CreateHeader(&zip.FileHeader{Name: name, CreatorVersion: system << 8})
			if err != nil {
				return err
			}
			fmt.Fprintf(f, "%d\n", i)
		}
		return z.Close()
	}
}

func many(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("files/%d.txt", i)
	}
	return names
}

func link(name, target string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

func file(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}
}

// tarOf makes a tar whose files hold zeros.
func tarOf(headers ...*tar.Header) func(io.Writer) error {
	return func(w io.Writer) error {
		t := tar.NewWriter(w)
		for _, h := range headers {
			if err := t.WriteHeader(h); err != nil {
				return err
			}
			if _, err := io.CopyN(t, zeros{}, h.Size); err != nil {
				return err
			}
		}
		return t.Close()
	}
}

func gzipped(write func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		z := gzip.NewWriter(w)
		if err := write(z); err != nil {
			return err
		}
		return z.Close()
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
