package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"enplace"
	"enplace/internal/project"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	b := start(t)
	const text = "<script>alert(1)</script>"
	digest := enplace.DigestOf([]byte(text))
	b.projects.openFile = func(path string) (project.File, error) {
		if path != "dir/a b.html" {
			return project.File{}, enplace.NotFoundf("no file %s", path)
		}
		return project.File{Entry: enplace.TreeEntry{Path: path, Digest: digest}, Content: file{strings.NewReader(text)}}, nil
	}
	const at = "/v1/environments/x/files/dir/a%20b.html"
	resp, body := b.request(t, "GET", at, nil)
	if body != text || resp.Header.Get("ETag") != `"`+digest.Hex()+`"` || resp.Header.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		t.Errorf("%s %v", body, resp.Header)
	}
	if resp, body := b.request(t, "GET", at, nil, "Range", "bytes=1-6"); resp.StatusCode != 206 || body != "script" {
		t.Errorf("range: %d %q", resp.StatusCode, body)
	}
	if resp, _ := b.request(t, "GET", at, nil, "If-None-Match", `"`+digest.Hex()+`"`); resp.StatusCode != 304 {
		t.Errorf("If-None-Match: %d", resp.StatusCode)
	}
	if resp, body := b.request(t, "HEAD", at, nil); resp.StatusCode != 200 || body != "" || resp.ContentLength != int64(len(text)) {
		t.Errorf("HEAD: %d %q %d", resp.StatusCode, body, resp.ContentLength)
	}
	r, err := b.client.OpenFile(t.Context(), "x", "dir/a b.html")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != text {
		t.Errorf("by the client: %q %v", got, err)
	}
	if _, err := b.client.OpenFile(t.Context(), "x", "../x"); enplace.KindOf(err) != enplace.KindMalformed {
		t.Errorf("the client's ../x: %v", err)
	}
}

func TestPutFile(t *testing.T) {
	t.Parallel()
	b := start(t)
	seen := map[string]bool{}
	b.projects.putFile = func(path string, r io.Reader, executable bool) (enplace.TreeEntry, bool, error) {
		n, err := io.Copy(io.Discard, r)
		if err != nil {
			return enplace.TreeEntry{}, false, fmt.Errorf("storing: %w", err)
		}
		isNew := !seen[path]
		seen[path] = true
		return enplace.TreeEntry{Path: path, Size: n, Executable: executable}, isNew, nil
	}
	for _, want := range []bool{true, false} {
		e, isNew, err := b.client.PutFile(t.Context(), "x", "bin/a?b#c", strings.NewReader("data"), true)
		if err != nil || isNew != want || e.Size != 4 || !e.Executable || e.Path != "bin/a?b#c" {
			t.Errorf("%+v %v %v", e, isNew, err)
		}
	}
	if e, _, err := b.client.PutFile(t.Context(), "x", "empty", strings.NewReader(""), false); err != nil || e.Size != 0 {
		t.Errorf("empty: %+v %v", e, err)
	}
	// Exactly the limit is taken; a byte more is not, whether its length is told or found out.
	zeros := func(n int64) io.Reader { return io.LimitReader(zero{}, n) }
	if e, _, err := b.client.PutFile(t.Context(), "x", "most", zeros(enplace.MaxFileBytes), false); err != nil || e.Size != enplace.MaxFileBytes {
		t.Errorf("at the limit: %+v %v", e, err)
	}
	_, _, err := b.client.PutFile(t.Context(), "x", "over", zeros(enplace.MaxFileBytes+1), false)
	if enplace.KindOf(err) != enplace.KindTooLarge || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("over the limit: %v", err)
	}
}

func TestHugeBodyIsRefusedUnread(t *testing.T) {
	t.Parallel()
	b := start(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /v1/environments/x/files/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", operatorKey, int64(1)<<40)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 413 || !resp.Close || !bytes.Contains(body, []byte("64 MiB")) {
		t.Errorf("%d close=%v %s", resp.StatusCode, resp.Close, body)
	}
}

func TestUploadThatIsCutIsNoFailureOfOurs(t *testing.T) {
	t.Parallel()
	b := start(t)
	done := make(chan error, 1)
	b.projects.importTar = func(r io.Reader, _ project.ImportOptions) (enplace.ImportReport, error) {
		_, err := io.Copy(io.Discard, r)
		done <- err
		return enplace.ImportReport{}, enplace.Invalidf("not an archive").WithCause(err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /v1/environments/x/import HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\nabc", operatorKey)
	_ = conn.(*net.TCPConn).CloseWrite()
	defer conn.Close()
	if err := <-done; err == nil {
		t.Error("the capability took a cut upload for whole")
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 400 || !bytes.Contains(body, []byte("ended before")) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	b := start(t)
	var mode project.ImportOptions
	b.projects.importTar = func(r io.Reader, o project.ImportOptions) (enplace.ImportReport, error) {
		mode = o
		got, err := io.ReadAll(r)
		return enplace.ImportReport{Imported: len(got)}, err
	}
	b.projects.importGit = func(g enplace.GitSource, o project.ImportOptions) (enplace.ImportReport, error) {
		mode = o
		return enplace.ImportReport{Describe: g.URL + "@" + g.Ref}, nil
	}
	if r, err := b.client.Import(t.Context(), "x", strings.NewReader("PK.."), true); err != nil || r.Imported != 4 || !mode.Merge {
		t.Errorf("%+v %+v %v", r, mode, err)
	}
	if resp, body := b.request(t, "POST", "/v1/environments/x/import", strings.NewReader("PK.."), "Content-Type", ""); resp.StatusCode != 200 || mode.Merge {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if r, err := b.client.ImportGit(t.Context(), "x", enplace.GitSource{URL: "https://h/r", Ref: "main"}, false); err != nil || r.Describe != "https://h/r@main" {
		t.Errorf("%+v %v", r, err)
	}
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }
