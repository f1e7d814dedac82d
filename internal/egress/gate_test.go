package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"enplace"
	"enplace/internal/egress"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A server that refused a request gives the client half a second to read the answer before it lets go.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

var (
	open     = enplace.Egress{Policy: enplace.EgressOpen}
	none     = enplace.Egress{Policy: enplace.EgressNone}
	loopback = egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
)

func allow(hosts ...string) enplace.Egress {
	return enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: hosts}
}

// fixture is a gate, and a client that goes through it.
type fixture struct {
	*egress.Gate
	socket string
	client *http.Client
	log    *bytes.Buffer
}

func newGate(t *testing.T, c egress.Config, policy enplace.Egress) *fixture {
	t.Helper()
	f := &fixture{socket: filepath.Join(t.TempDir(), "egress.sock"), log: &bytes.Buffer{}}
	c.Logger = slog.New(slog.NewTextHandler(f.log, nil))
	g, err := egress.New(c).Gate(f.socket, "task_1", policy)
	if err != nil {
		t.Fatal(err)
	}
	f.Gate = g
	tr := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}),
		DialContext:     func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", f.socket) },
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	f.client = &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// get fetches, and gives the status and the body; -1 and the error when there is no answer.
func (f *fixture) get(url string) (int, string) {
	resp, err := f.client.Get(url)
	if err != nil {
		return -1, err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// raw sends bytes, and gives all that comes back until the gate closes the connection.
func (f *fixture) raw(t *testing.T, request string) string {
	t.Helper()
	conn, err := net.Dial("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, request) }() // the gate may answer before it has read all
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s", r.URL.Path) }

// tunnel opens one, and gives its client end and the host's.
func (f *fixture) tunnel(t *testing.T) (client, host net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(client, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", l.Addr())
	if host, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	if _, err := http.ReadResponse(bufio.NewReader(client), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), host.Close() })
	return client, host
}

func TestSetEndsConnectionsAndForgets(t *testing.T) {
	t.Parallel()
	f := newGate(t, loopback, allow("127.0.0.1"))
	s := serve(t, hello)
	f.get(s.URL)
	f.get("http://refused.example/")
	client, host := f.tunnel(t)
	f.Set("task_2", none)
	for _, c := range []net.Conn{client, host} {
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection of the earlier owner is open: %v", err)
		}
	}
	if got := f.Refused(); len(got) != 0 {
		t.Errorf("refused %v", got)
	}
	if status, _ := f.get(s.URL); status != 403 {
		t.Errorf("%d under the new policy", status)
	}
	if got := f.Refused(); len(got) != 1 || !strings.Contains(f.log.String(), "sandbox=task_2") {
		t.Errorf("refused %v; log %s", got, f.log)
	}
}

func TestCloseEndsConnections(t *testing.T) {
	t.Parallel()
	f := newGate(t, loopback, open)
	waiting := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		close(waiting)
		<-r.Context().Done()
	})
	client, host := f.tunnel(t)
	got := make(chan int)
	go func() {
		status, _ := f.get(s.URL)
		got <- status
	}()
	<-waiting
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{client, host} {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a tunnel is open")
		}
	}
	if status := <-got; status == 200 {
		t.Errorf("%d", status)
	}
	if _, err := os.Lstat(f.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is there: %v", err)
	}
	f.Set("late", open)
	f.Refused()
}

func TestStaleSocketIsReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	p := egress.New(egress.Config{})
	g, err := p.Gate(path, "a", none)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	_ = g.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Gate(path, "a", none); err == nil {
		t.Error("a file was replaced")
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	f := newGate(t, loopback, open)
	var conns []net.Conn
	for range 512 {
		c, err := net.Dial("unix", f.socket)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	if answer := f.raw(t, ""); !strings.HasPrefix(answer, "HTTP/1.1 503") {
		t.Errorf("%q", answer)
	}
	// The places are free again once the gate has seen the connections end.
	for _, c := range conns {
		_ = c.(*net.UnixConn).CloseWrite()
		_, _ = io.ReadAll(c)
		_ = c.Close()
	}
	if answer := f.raw(t, "GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 502") {
		t.Errorf("%q", answer)
	}
}

func TestAtMostAHundredHostsAreKept(t *testing.T) {
	t.Parallel()
	f := newGate(t, loopback, none)
	for i := range 102 {
		f.get(fmt.Sprintf("http://h%d.example/", i))
		f.get("http://h0.example/")
		if i == 50 {
			f.Set("task_2", none) // starts anew, and spares this test the pace of many refusals
		}
	}
	f.Set("task_3", none)
	for i := range 101 {
		f.get(fmt.Sprintf("http://h%d.example/", i))
	}
	if got := f.Refused(); len(got) != 100 || got[0] != "h0.example" || got[99] != "h99.example" {
		t.Errorf("%d: %v", len(got), got)
	}
}

func TestDialContext(t *testing.T) {
	t.Parallel()
	s := serve(t, hello)
	address := s.Listener.Addr().String()
	var log bytes.Buffer
	p := egress.New(egress.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, err := p.DialContext(context.Background(), "tcp", address)
	var refused *egress.RefusedError
	if !errors.As(err, &refused) || strings.Contains(err.Error(), "loopback") || !strings.Contains(log.String(), "host") {
		t.Errorf("%v; log %s", err, &log)
	}
	conn, err := egress.New(loopback).DialContext(context.Background(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// The registries, as pip and apt reach them.
func TestRealRegistries(t *testing.T) {
	t.Parallel()
	if _, err := net.LookupHost("pypi.org"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("no registry can be reached: %v", err)
	}
	f := newGate(t, egress.Config{}, allow("pypi.org", "*.debian.org"))
	f.client.Transport.(*http.Transport).TLSClientConfig = nil // the system's certificates
	if status, body := f.get("https://pypi.org/simple/six/"); status != 200 || !strings.Contains(body, "six-1") {
		t.Errorf("%d %.200s", status, body)
	}
	for range 2 {
		if status, body := f.get("http://deb.debian.org/debian/dists/stable/Release"); status != 200 || !strings.Contains(body, "Suite: stable") {
			t.Errorf("%d %.200s", status, body)
		}
	}
	if status, msg := f.get("https://registry.npmjs.org/left-pad"); status != -1 || !strings.Contains(msg, "not on the egress allow-list") {
		t.Errorf("%d %s", status, msg)
	}
}

func BenchmarkTunnel(b *testing.B) {
	path := filepath.Join(b.TempDir(), "s")
	g, err := egress.New(loopback).Gate(path, "a", open)
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", l.Addr())
	host, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer host.Close()
	if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	go func() {
		for {
			if _, err := host.Write(buf); err != nil {
				return
			}
		}
	}()
	in := make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	for b.Loop() {
		if _, err := io.ReadFull(c, in); err != nil {
			b.Fatal(err)
		}
	}
}
