package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
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
	"sync"
	"sync/atomic"
	"testing"

	"enplace"
	"enplace/internal/egress"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
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

func TestPlainAndTunnelled(t *testing.T) {
	t.Parallel()
	f := newGate(t, loopback, allow("127.0.0.1"))
	plain := serve(t, hello)
	tlsServer := httptest.NewTLSServer(http.HandlerFunc(hello))
	defer tlsServer.Close()
	for _, u := range []string{plain.URL, tlsServer.URL, plain.URL} {
		if status, body := f.get(u + "/x"); status != 200 || body != "hello /x" {
			t.Errorf("%s: %d %s", u, status, body)
		}
	}
	if got := f.Refused(); len(got) != 0 {
		t.Errorf("refused %v", got)
	}
}

func TestPolicyRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy enplace.Egress
		want   string
	}{
		{none, "egress policy is none"},
		{allow("other.example", "*.more.example"), "(other.example, *.more.example)"},
		{allow(), "allow-list is empty"},
		{enplace.Egress{}, "no egress policy"},
	} {
		f := newGate(t, loopback, c.policy)
		status, body := f.get("http://Example.org/")
		if status != 403 || !strings.Contains(body, "example.org") || !strings.Contains(body, c.want) {
			t.Errorf("%+v: %d %s", c.policy, status, body)
		}
		if status, msg := f.get("https://second.example/"); status != -1 || !strings.Contains(msg, "second.example") {
			t.Errorf("CONNECT does not say why: %s", msg)
		}
		if got := strings.Join(f.Refused(), " "); got != "example.org second.example" {
			t.Errorf("refused %s", got)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if log := f.log.String(); !strings.Contains(log, "sandbox=task_1") || !strings.Contains(log, "host=second.example") {
			t.Errorf("log: %s", log)
		}
	}
}

// Nothing of what stands at a refused address is told: whether a port is open there makes no difference.
func TestPrivateAddressesAreRefusedAlike(t *testing.T) {
	t.Parallel()
	s := serve(t, hello)
	closed := serve(t, hello)
	closed.Close()
	f := newGate(t, egress.Config{}, open)
	_, a := f.get(s.URL)
	_, b := f.get(closed.URL)
	if a != b || !strings.Contains(a, "127.0.0.1 is at an address that is refused") {
		t.Errorf("%s\n%s", a, b)
	}
	for _, u := range []string{"http://169.254.169.254/latest/meta-data/", "http://[::ffff:169.254.169.254]/", "http://[fd00:ec2::254]/", "http://10.0.0.1/", "http://[::1]/", "http://0.0.0.0/"} {
		if status, body := f.get(u); status != 403 {
			t.Errorf("%s: %d %s", u, status, body)
		}
	}
	if status, body := f.get("http://localhost/"); status != 403 && status != 502 {
		t.Errorf("localhost: %d %s", status, body)
	}
}

// The server's own API, on an address that looks public, is out of reach.
func TestThisHostIsRefused(t *testing.T) {
	t.Parallel()
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.To4() == nil || n.IP.IsLoopback() {
			continue
		}
		f := newGate(t, egress.Config{}, open)
		if status, body := f.get("http://" + n.IP.String() + "/"); status != 403 {
			t.Errorf("%s: %d %s", n.IP, status, body)
		}
		return
	}
	t.Skip("this host has no address but loopback")
}

// A name that resolves to an allowed address at first and to another one later is checked each time.
func TestRebinding(t *testing.T) {
	t.Parallel()
	s := serve(t, hello)
	port := s.Listener.Addr().(*net.TCPAddr).Port
	dns := newNameServer(t)
	f := newGate(t, egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Resolver: dns.resolver()}, allow("rebind.example"))
	target := fmt.Sprintf("http://rebind.example:%d/", port)
	dns.answer(netip.MustParseAddr("127.0.0.1"))
	if status, body := f.get(target); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	dns.answer(netip.MustParseAddr("127.0.0.2"))
	f.Set("task_2", allow("rebind.example")) // no connection is left to use again
	if status, body := f.get(target); status != 403 {
		t.Fatalf("%d %s", status, body)
	}
	dns.answer(netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1"))
	if status, body := f.get(target); status != 200 { // one of the two may be reached
		t.Fatalf("%d %s", status, body)
	}
}

func TestNamesAreNotSearched(t *testing.T) {
	t.Parallel()
	dns := newNameServer(t)
	f := newGate(t, egress.Config{Resolver: dns.resolver()}, open)
	if status, body := f.get("http://metadata/"); status != 502 || !strings.Contains(body, "could not resolve metadata: there is no such name") {
		t.Fatalf("%d %s", status, body)
	}
	for _, name := range dns.asked() {
		if name != "metadata." {
			t.Errorf("asked for %s", name)
		}
	}
}

func TestAllowedHostMayBePrivate(t *testing.T) {
	t.Parallel()
	dns := newNameServer(t)
	dns.answer(netip.MustParseAddr("127.0.0.1"))
	f := newGate(t, egress.Config{AllowHosts: []string{"Git.Corp.example"}, Resolver: dns.resolver()}, open)
	if status, _ := f.get("http://git.corp.example/"); status != 403 {
		t.Error("an allowed host stands at loopback")
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var inner atomic.Int32
	secret := serve(t, func(http.ResponseWriter, *http.Request) { inner.Add(1) })
	outer := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(secret.URL, "127.0.0.1", "127.0.0.2", 1), http.StatusFound)
	})
	f := newGate(t, egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, open)
	if status, _ := f.get(outer.URL); status != http.StatusFound {
		t.Errorf("%d", status)
	}
	f.client.CheckRedirect = nil
	if status, body := f.get(outer.URL); status != 403 {
		t.Errorf("%d %s", status, body)
	}
	if inner.Load() != 0 {
		t.Error("the redirect was followed")
	}
}

func TestPort25IsRefused(t *testing.T) {
	t.Parallel()
	f := newGate(t, loopback, open)
	if status, body := f.get("http://127.0.0.1:25/"); status != 403 || !strings.Contains(body, "port 25") {
		t.Errorf("%d %s", status, body)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	f := newGate(t, loopback, open)
	s := serve(t, hello)
	s.Close()
	if status, body := f.get(s.URL); status != 502 || !strings.Contains(body, "could not reach 127.0.0.1") {
		t.Errorf("%d %s", status, body)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.Header().Set("Content-Encoding", "gzip") // left as it is
	})
	f := newGate(t, loopback, open)
	answer := f.raw(t, "GET "+s.URL+"/a%2Fb?q=1;x&%zz HTTP/1.1\r\nHost: victim.example\r\nProxy-Authorization: Basic abc\r\nProxy-Connection: keep-alive\r\n"+
		"Connection: close, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nX-Forwarded-For: mine\r\nX-End: 1\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 200") || strings.Contains(answer, "Proxy-Authenticate") || !strings.Contains(answer, "gzip") {
		t.Fatal(answer)
	}
	r := <-seen
	if r.RequestURI != "/a%2Fb?q=1;x&%zz" || r.Host != s.Listener.Addr().String() || r.Header.Get("X-End") != "1" || r.Header.Get("X-Forwarded-For") != "mine" {
		t.Errorf("%s %s %v", r.Host, r.RequestURI, r.Header)
	}
	for _, h := range []string{"Proxy-Authorization", "Proxy-Connection", "X-Hop", "Connection"} {
		if v := r.Header.Get(h); v != "" {
			t.Errorf("%s: %s went through", h, v)
		}
	}
}

func TestHostileRequests(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
	})
	host := s.Listener.Addr().String()
	f := newGate(t, loopback, open)
	for name, c := range map[string]struct{ request, status string }{
		"userinfo":            {"CONNECT me@" + host + " HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		"no port":             {"CONNECT 127.0.0.1 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		"path":                {"CONNECT " + host + "/x HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		"absolute https":      {"GET https://" + host + "/ HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		"origin form":         {"GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n", "400"},
		"asterisk":            {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		"two hosts":           {"GET http://" + host + "/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
		"two lengths":         {"POST http://" + host + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400"},
		"bad length":          {"POST http://" + host + "/ HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na", "400"},
		"unknown coding":      {"POST http://" + host + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"},
		"hidden coding":       {"POST http://" + host + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", "400"},
		"space before colon":  {"GET http://" + host + "/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n", "400"},
		"line break in value": {"GET http://" + host + "/ HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\n\r\n", "400"},
		"giant header":        {"GET http://" + host + "/ HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("b", 100<<10) + "\r\n\r\n", "431"},
		"giant target":        {"GET http://" + host + "/" + strings.Repeat("b", 100<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", "431"},
		"HTTP/2":              {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"},
		"noise":               {"\x16\x03\x01\x02\x00\x01\r\n\r\n", "400"},
	} {
		if answer := f.raw(t, c.request); !strings.HasPrefix(answer, "HTTP/1.1 "+c.status) {
			t.Errorf("%s: %.200q", name, answer)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests went through", n)
	}
}

// What one request hides behind its body by two lengths is one request to the host as well.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 3)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies <- r.Method + " " + string(b)
	})
	f := newGate(t, loopback, open)
	body := "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	f.raw(t, fmt.Sprintf("POST %s/ HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n%s", s.URL, len(body), body))
	if got := <-bodies; got != "POST " {
		t.Errorf("%q", got)
	}
	if len(bodies) != 0 { // the hidden one is the client's next request, and has no absolute URL
		t.Errorf("%q", <-bodies)
	}
}

func TestEarlyBytesOfATunnelArrive(t *testing.T) {
	t.Parallel()
	s := serve(t, hello)
	f := newGate(t, loopback, open)
	answer := f.raw(t, "CONNECT "+s.Listener.Addr().String()+" HTTP/1.1\r\nHost: x\r\n\r\nGET /early HTTP/1.0\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.0 200") || !strings.HasSuffix(answer, "hello /early") {
		t.Errorf("%q", answer)
	}
}

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

func TestHalfClosedTunnelStillAnswers(t *testing.T) {
	t.Parallel()
	f := newGate(t, loopback, open)
	client, host := f.tunnel(t)
	fmt.Fprint(client, "question")
	_ = client.(*net.UnixConn).CloseWrite()
	if got, _ := io.ReadAll(host); string(got) != "question" {
		t.Fatalf("%q", got)
	}
	fmt.Fprint(host, "answer")
	_ = host.Close()
	if got, _ := io.ReadAll(client); string(got) != "answer" {
		t.Fatalf("%q", got)
	}
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

// nameServer is a name server for every name, with answers that change.
type nameServer struct {
	conn *net.UDPConn
	mu   sync.Mutex
	a    []netip.Addr
	seen []string
}

func newNameServer(t *testing.T) *nameServer {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := conn.ReadFromUDP(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDP(s.reply(buf[:n]), from)
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return s
}

func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

func (s *nameServer) answer(a ...netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.a = a
}

func (s *nameServer) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// reply answers one question (RFC 1035): the addresses for an A, nothing for the rest, no such name when there are none.
func (s *nameServer) reply(q []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, i := "", 12
	for q[i] != 0 {
		name += string(q[i+1:i+1+int(q[i])]) + "."
		i += 1 + int(q[i])
	}
	s.seen = append(s.seen, name)
	question := q[12 : i+5]
	answers := s.a
	flags := uint16(0x8180)
	if len(answers) == 0 {
		flags |= 3
	}
	if binary.BigEndian.Uint16(q[i+1:]) != 1 {
		answers = nil
	}
	out := append([]byte{}, q[:2]...)
	for _, v := range []uint16{flags, 1, uint16(len(answers)), 0, 0} {
		out = binary.BigEndian.AppendUint16(out, v)
	}
	out = append(out, question...)
	for _, a := range answers {
		out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		out = append(out, a.AsSlice()...)
	}
	return out
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
