package guest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"enplace"
)

// Not every kernel of a sandbox takes a listening socket of the host: gVisor's takes one that is connected, and no more. Then
// that one connection is all there is between host and guest, and further ones travel inside it, each a channel that carries
// SSH again. So do those, on every kernel, that bring variables for their sessions.

// inherit gives the host's socket on ListenerFD: the listening one, or the connected one as a listener that gives it once.
func inherit() (net.Listener, error) {
	f := os.NewFile(ListenerFD, "host")
	defer f.Close()
	listens, err := unix.GetsockoptInt(ListenerFD, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is no socket of the host: %w", ListenerFD, err)
	}
	if listens != 0 {
		return net.FileListener(f)
	}
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is no socket of the host: %w", ListenerFD, err)
	}
	l := &soleListener{addr: conn.LocalAddr(), conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conns <- &soleConn{Conn: conn, gone: l.Close}
	return l, nil
}

// soleListener gives one connection, and is closed with it: a sandbox whose host is gone for good has nothing to wait for.
type soleListener struct {
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *soleListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *soleListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *soleListener) Addr() net.Addr { return l.addr }

// soleConn tells when it is closed.
type soleConn struct {
	net.Conn
	gone func() error
}

func (c *soleConn) Close() error {
	_ = c.gone()
	return c.Conn.Close()
}

// nested serves a connection that travels in a channel of another, whose payload is the variables of its sessions.
func (s *server) nested(nc ssh.NewChannel) {
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	payload, err := readPayload(nc.ExtraData(), ch, maxExecBytes)
	if err != nil {
		_ = ch.Close()
		return
	}
	var env []string
	if len(payload) > 0 {
		env = parseEnv(string(payload))
	}
	s.connection(overChannel(ch), env)
}

// DialNested opens a further SSH connection to the guest inside this one. Its standard sessions have the variables of env, as
// KEY=value, or those of Options.EnvFile where there are none.
func (c *Client) DialNested(ctx context.Context, env []string) (net.Conn, error) {
	var payload []byte
	for _, v := range env {
		payload = append(append(payload, v...), 0)
	}
	if len(payload) > maxExecBytes {
		return nil, enplace.TooLargef("the variables of a connection have %d bytes; the limit is %d", len(payload), maxExecBytes)
	}
	ch, reqs, err := c.open(ctx, nestedChannel, payload)
	if err != nil {
		return nil, err
	}
	go ssh.DiscardRequests(reqs)
	return overChannel(ch), nil
}

// overChannel gives a connection, with deadlines as any has, that a channel carries. Closing either closes the other.
func overChannel(ch ssh.Channel) net.Conn {
	near, far := net.Pipe()
	end := func() {
		_ = ch.Close()
		_ = far.Close()
	}
	go func() {
		defer end()
		_, _ = io.Copy(ch, far)
	}()
	go func() {
		defer end()
		_, _ = io.Copy(far, ch)
	}()
	return near
}
