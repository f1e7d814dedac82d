package egress

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"enplace"
)

const (
	maxConnections = 512              // of one gate at a time
	maxHeaderBytes = 64 << 10         // of a request and its headers
	headerTimeout  = 10 * time.Second // to send them in
	keepAlive      = 2 * time.Minute  // between two requests of a connection
)

// Gate is one sandbox's way out: a unix socket, so that the proxy knows who asks by where the question comes in. It is safe
// for concurrent use.
type Gate struct {
	proxy    *Proxy
	server   *http.Server
	served   chan struct{}  // closed when the server has ended
	handlers sync.WaitGroup // requests, tunnels included

	mu     sync.Mutex
	period *period
	closed bool
	conns  int
}

// Gate listens on a unix socket at that path, for the requests of the sandbox of that name. Anyone who can reach the path may
// connect: its folder must be private. A socket that an earlier process left there is replaced.
func (p *Proxy) Gate(socket, name string, policy enplace.Egress) (*Gate, error) {
	if info, err := os.Lstat(socket); err == nil && info.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(socket); err != nil {
			return nil, fmt.Errorf("opening egress gate: %w", err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("opening egress gate: %w", err)
	}
	// Whoever connects from the sandbox has the ids of its user namespace, nobody's out here.
	if err := os.Chmod(socket, 0o666); err != nil {
		return nil, fmt.Errorf("opening egress gate: %w", errors.Join(err, l.Close()))
	}
	g := &Gate{proxy: p, served: make(chan struct{})}
	g.period = p.newPeriod(name, policy)
	g.server = &http.Server{
		Handler:                      http.HandlerFunc(g.serve),
		ReadHeaderTimeout:            headerTimeout,
		IdleTimeout:                  keepAlive,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(io.Discard, "", 0), // what a sandbox sends amiss is its own affair
	}
	go func() {
		defer close(g.served)
		_ = g.server.Serve(listener{l, g}) // ends by Close
	}()
	return g, nil
}

// Set gives the gate another owner and policy: a warm sandbox was claimed. It forgets what was refused, and ends what was open.
func (g *Gate) Set(name string, policy enplace.Egress) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.period.end()
	g.period = g.proxy.newPeriod(name, policy)
}

// Refused gives the hosts that were refused since the last Set, by policy or address, first seen first, at most 100.
func (g *Gate) Refused() []string {
	return g.current().hosts()
}

// Close removes the socket, ends every connection, and returns when none is left. Closing twice is no error.
func (g *Gate) Close() error {
	g.mu.Lock()
	already := g.closed
	g.closed = true
	g.period.end()
	g.mu.Unlock()
	if already {
		return nil
	}
	err := g.server.Close()
	<-g.served
	g.handlers.Wait()
	if err != nil {
		return fmt.Errorf("closing egress gate: %w", err)
	}
	return nil
}

// enter counts a request that begins, with the period it belongs to; nil when the gate is closed.
func (g *Gate) enter() *period {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.handlers.Add(1)
	return g.period
}

func (g *Gate) current() *period {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.period
}

// listener counts connections and binds each to the period in which it came.
type listener struct {
	net.Listener
	gate *Gate
}

func (l listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b := l.gate.admit(conn); b != nil {
			return b, nil
		}
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(conn, "HTTP/1.1 503 Too many connections through the egress proxy at once\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		_ = conn.Close()
	}
}

func (g *Gate) admit(conn net.Conn) *bound {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conns >= maxConnections {
		return nil
	}
	g.conns++
	return bind(g.period.ctx, conn, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.conns--
	})
}
