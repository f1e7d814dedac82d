package egress_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"enplace/internal/egress"
)

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
