package egress

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"
)

const (
	idleTimeout     = 10 * time.Minute // without a byte in either direction
	responseTimeout = 5 * time.Minute  // from the end of a plain request to the headers of its answer
)

// serve answers one request of the sandbox.
func (g *Gate) serve(w http.ResponseWriter, r *http.Request) {
	e := g.enter()
	if e == nil {
		return
	}
	defer g.handlers.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	r = r.WithContext(ctx)

	t, err := parseTarget(r)
	switch {
	case err != nil:
		answer{http.StatusBadRequest, err.Error()}.write(w, r)
	case !t.allowedBy(e.policy):
		e.refuse(t, "policy")
		byPolicy(t, e.policy).write(w, r)
	case r.Method == http.MethodConnect:
		e.tunnel(w, r, t)
	default:
		e.forward.ServeHTTP(w, r)
	}
}

// tunnel connects, and copies both ways. What is inside is the client's and the host's affair, TLS as a rule.
func (e *period) tunnel(w http.ResponseWriter, r *http.Request, t target) {
	up, err := e.dial(r.Context(), t)
	if err != nil {
		e.failed(t, err).write(w, r)
		return
	}
	defer up.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	// What the client sent behind its request without waiting belongs to the tunnel.
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	if _, err := up.Write(early); err != nil {
		return
	}
	splice(client, up)
}

// splice copies both ways until both sides have ended, one has failed, or nothing has moved for the idle timeout.
func splice(a, b net.Conn) {
	idle := &idler{conns: [2]net.Conn{a, b}}
	idle.touch()
	var wg sync.WaitGroup
	half := func(to, from net.Conn) {
		_, err := io.Copy(to, watched{from, idle})
		if c, ok := to.(interface{ CloseWrite() error }); err == nil && ok && c.CloseWrite() == nil {
			return
		}
		_, _ = a.Close(), b.Close()
	}
	wg.Go(func() { half(a, b) })
	wg.Go(func() { half(b, a) })
	wg.Wait()
}

// idler moves the deadline of both sides of a tunnel on whenever one of them has something: a long download is not idle
// because its client is silent.
type idler struct {
	conns [2]net.Conn
	last  atomic.Int64 // seconds
}

func (i *idler) touch() {
	now := time.Now()
	if i.last.Swap(now.Unix()) == now.Unix() {
		return
	}
	for _, c := range i.conns {
		_ = c.SetDeadline(now.Add(idleTimeout))
	}
}

type watched struct {
	io.Reader
	idle *idler
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.idle.touch()
	}
	return n, err
}

// forwarder passes plain http requests on. Its connections are the period's own: what one sandbox sends, or leaves in a
// connection, never meets another's.
func (e *period) forwarder() http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: rewrite,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				t, err := parseAuthority(address, 0)
				if err != nil {
					return nil, err
				}
				conn, err := e.dial(ctx, t)
				if err != nil {
					return nil, err
				}
				return impatient{conn}, nil
			},
			DisableCompression:     true,
			MaxIdleConnsPerHost:    8,
			MaxIdleConns:           64,
			IdleConnTimeout:        30 * time.Second,
			ResponseHeaderTimeout:  responseTimeout,
			ExpectContinueTimeout:  time.Second,
			MaxResponseHeaderBytes: 256 << 10,
		},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			t, _ := parseTarget(r) // as it went out; it was checked before
			e.failed(t, err).write(w, r)
		},
	}
}

// rewrite makes the request that goes out. Hop-by-hop headers, Proxy-Authorization among them, are gone already; a redirect
// goes back to the client, whose next request is checked like any other.
func rewrite(r *httputil.ProxyRequest) {
	if t, err := parseTarget(r.In); err == nil {
		r.Out.URL.Host = t.inURL()
	}
	r.Out.Host = r.Out.URL.Host // whatever the Host header says (RFC 9112, 3.2.2)
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v, ok := r.In.Header[h]; ok {
			r.Out.Header[h] = v
		}
	}
}

// impatient gives up on a host that neither sends nor takes a byte for the idle timeout.
type impatient struct{ net.Conn }

func (c impatient) Read(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(idleTimeout))
	return c.Conn.Read(p)
}

func (c impatient) Write(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(idleTimeout))
	return c.Conn.Write(p)
}
