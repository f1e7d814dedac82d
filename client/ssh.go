package client

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"enplace"
)

// sshProtocol is what the connection is upgraded to.
const sshProtocol = "enplace-ssh"

// DialSSH opens a connection to the SSH server of a running task's sandbox, through the API. Whoever was let in by the API
// is who the sandbox trusts: the connection is used with no password and any user. Deadlines are not supported; closing the
// connection ends whatever is under way. Once it has returned, ctx does nothing.
func (c *Client) DialSSH(ctx context.Context, task string) (net.Conn, error) {
	return c.dial(ctx, at(tasks, task, "ssh"))
}

func (c *Client) dial(ctx context.Context, path string) (net.Conn, error) {
	// The request lives as long as the connection does, and ctx only as long as the call.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	header := http.Header{"Connection": {"Upgrade"}, "Upgrade": {sshProtocol}, "Accept": {"*/*"}}
	resp, err := c.http1().do(life, call{method: http.MethodGet, path: path, header: header})
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	stream, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		_ = resp.Body.Close()
		cancel()
		return nil, enplace.Errorf(enplace.KindUpstream, "%s did not open the connection (it answered %s)", c.base, resp.Status).
			WithFix("a proxy in between must let `Upgrade: %s` through", sshProtocol)
	}
	return &upgraded{ReadWriteCloser: stream, cancel: cancel, host: resp.Request.URL}, nil
}

// http1 gives a client that never speaks HTTP/2, which knows no upgrades.
func (c *Client) http1() *Client {
	t, ok := c.http.Transport.(*http.Transport)
	if !ok {
		return c
	}
	t = t.Clone()
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.ForceAttemptHTTP2 = false
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	t.TLSClientConfig.NextProtos = []string{"http/1.1"} // a transport that was used has put h2 there
	t.DisableKeepAlives = true
	hc := *c.http
	hc.Transport = t
	return &Client{base: c.base, key: c.key, http: &hc}
}

// upgraded is the connection behind an answer of 101.
type upgraded struct {
	io.ReadWriteCloser
	cancel context.CancelFunc
	host   *url.URL
}

func (u *upgraded) Close() error {
	defer u.cancel()
	return u.ReadWriteCloser.Close()
}

func (u *upgraded) LocalAddr() net.Addr              { return address("enplace") }
func (u *upgraded) RemoteAddr() net.Addr             { return address(u.host.Host) }
func (u *upgraded) SetDeadline(time.Time) error      { return http.ErrNotSupported }
func (u *upgraded) SetReadDeadline(time.Time) error  { return http.ErrNotSupported }
func (u *upgraded) SetWriteDeadline(time.Time) error { return http.ErrNotSupported }

// address is the name of an end of an upgraded connection.
type address string

func (a address) Network() string { return "http" }
func (a address) String() string  { return string(a) }
