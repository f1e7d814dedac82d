package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"enplace"
	"enplace/client"
)

func connect(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	return newClient(t, client.Config{URL: ts.URL + "/", Key: "enp_x"})
}

func newClient(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []client.Config{
		{URL: ""}, {URL: "localhost:8080"}, {URL: "ftp://h"}, {URL: "http://"}, {URL: "http://a:b@h"}, {URL: "http://h/?x=1"},
		{URL: "http://h", Key: "enp_x\n"}, {URL: "http://h", Key: "a b"},
	} {
		if _, err := client.New(cfg); enplace.KindOf(err) != enplace.KindInvalid {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	_, err = newClient(t, client.Config{URL: "http://" + l.Addr().String()}).Whoami(t.Context())
	var e *enplace.Error
	if !errors.As(err, &e) || e.Kind != enplace.KindUnavailable || len(e.Fixes) == 0 || !strings.Contains(e.Fixes[0], "enplace serve") {
		t.Errorf("%#v", err)
	}
}

func TestContextThatEndsIsNoUnreachableServer(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	c := connect(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := c.Whoami(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestOnlySafeRequestsAreRepeated(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) < 3 {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, `{"name":"alice"}`)
	})
	if i, err := c.Whoami(t.Context()); err != nil || i.Name != "alice" || n.Load() != 3 {
		t.Errorf("%+v %v after %d requests", i, err, n.Load())
	}
	n.Store(0)
	if _, err := c.CreateTask(t.Context(), enplace.CreateTask{}); enplace.KindOf(err) != enplace.KindUnavailable || n.Load() != 1 {
		t.Errorf("%v after %d requests", err, n.Load())
	}
}

func TestAnswersThatAreNoProblemDocument(t *testing.T) {
	t.Parallel()
	for status, kind := range map[int]enplace.Kind{
		401: enplace.KindUnauthenticated, 404: enplace.KindNotFound, 413: enplace.KindTooLarge, 502: enplace.KindUpstream, 503: enplace.KindUnavailable,
	} {
		c := connect(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", status) })
		if _, err := c.Whoami(t.Context()); enplace.KindOf(err) != kind {
			t.Errorf("%d: %v", status, err)
		}
	}
	c := connect(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
	if _, err := c.Whoami(t.Context()); err == nil {
		t.Error("a page was taken for an answer")
	}
}

func TestKeyDoesNotFollowRedirects(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("followed, with %q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(other.Close)
	c := connect(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	if _, err := c.Whoami(t.Context()); err == nil {
		t.Error("a redirect was taken for an answer")
	}
}

func TestLogGoesOnWhereItWasCut(t *testing.T) {
	t.Parallel()
	var from []string
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		from = append(from, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		switch len(from) {
		case 1:
			fmt.Fprint(w, ": \n\nid: 4\ndata: one\n\nid: 8\ndata: tw")
		case 2:
			fmt.Fprint(w, "id: 8\ndata: two\n\nevent: news\ndata: x\n\n")
		default:
			fmt.Fprint(w, "id: 9\ndata: \n\nevent: end\ndata: {\"status\":\"succeeded\"}\n\n")
		}
		_ = http.NewResponseController(w).Flush()
		if len(from) < 3 {
			panic(http.ErrAbortHandler)
		}
	})
	var got strings.Builder
	status, err := c.FollowTaskLog(t.Context(), "task_1", &got)
	if err != nil || status != enplace.TaskSucceeded || got.String() != "one\ntwo\n\n" || strings.Join(from, ",") != ",4,8" {
		t.Errorf("%q %q %v, resumed at %v", got.String(), status, err, from)
	}
}

func TestLogThatIsAlwaysCutIsGivenUp(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	c := connect(t, func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	if _, err := c.FollowTaskLog(t.Context(), "task_1", io.Discard); enplace.KindOf(err) != enplace.KindUnavailable || n.Load() != 3 {
		t.Errorf("%v after %d", err, n.Load())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestWriterThatFailsEndsTheFollowing(t *testing.T) {
	t.Parallel()
	c := connect(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "id: 4\ndata: one\n\n") })
	if _, err := c.FollowTaskLog(t.Context(), "task_1", full{}); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

func TestUploadOfAFileTellsItsLength(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.zip")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(3, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"imported":%d,"bytes":%d,"unwrapped":%q}`, len(body), r.ContentLength, r.URL.RawQuery)
	})
	if r, err := c.Import(t.Context(), "henv_1", f, true); err != nil || r.Imported != 7 || r.Bytes != 7 || r.Unwrapped != "mode=merge" {
		t.Errorf("%+v %v", r, err)
	}
}

func TestSSHThroughTLS(t *testing.T) {
	t.Parallel()
	ts := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 || r.Header.Get("Upgrade") != "enplace-ssh" || r.URL.Path != "/below/v1/tasks/task_1/ssh" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: enplace-ssh\r\n\r\n")
		_, _ = io.Copy(conn, rw)
	}))
	ts.EnableHTTP2 = true
	ts.StartTLS()
	t.Cleanup(ts.Close)
	c := newClient(t, client.Config{URL: ts.URL + "/below", HTTP: ts.Client()})
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := c.DialSSH(ctx, "task_1")
	if err != nil {
		t.Fatal(err)
	}
	cancel() // the connection outlives the call
	defer conn.Close()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Errorf("%q %v", got, err)
	}
	refused := connect(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
	if _, err := refused.DialSSH(t.Context(), "task_1"); enplace.KindOf(err) != enplace.KindUpstream {
		t.Errorf("a server that does not upgrade: %v", err)
	}
}

// An empty name asked for something else: of no plugin's sync for a plugin called sync, of a file's absolute path for another file.
func TestEmptyNamesAreNotSent(t *testing.T) {
	t.Parallel()
	c := connect(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL.Path) })
	_, sync := c.SyncPlugin(t.Context(), "")
	_, plugin := c.Plugin(t.Context(), "organisation/")
	_, err := c.OpenFile(t.Context(), "henv_x", "/etc/passwd")
	for _, err := range []error{sync, plugin, err} {
		if enplace.KindOf(err) != enplace.KindMalformed || !strings.Contains(err.Error(), "a name is empty") {
			t.Errorf("%v", err)
		}
	}
}
