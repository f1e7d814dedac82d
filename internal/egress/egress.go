// Package egress is the HTTP proxy that is a sandbox's only way out. Everything that reaches the network for a sandbox, or for
// a place that a user named, goes through here, so one place decides: by name, by the policy of the sandbox that asks; by
// address, at the moment of connecting, so that neither a redirect nor an answer of DNS that changes gets around it.
//
// Any port but 25 may be reached: registries, git hosts and private mirrors stand on all of them, and the name is what a
// policy is about. Mail is refused because a sandbox that sends it harms its operator's address for good.
package egress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	dialTimeout = 30 * time.Second // for all addresses of a name together, resolving included
	smtpPort    = 25
)

// Config is what a Proxy needs. The zero value reaches public addresses only.
type Config struct {
	// Allow lists addresses that may be reached although they are private, link-local or loopback. This host's own addresses
	// and those of metadata services count only when listed one by one, or as loopback: 10.0.0.0/8 does not open this server.
	Allow []netip.Prefix

	// AllowHosts names hosts that may stand at private addresses, such as a mirror or a git host of the operator's. Policies
	// apply to them all the same.
	AllowHosts []string

	// Deny lists addresses that are refused whatever Allow says; for this host's public address behind a translation, say.
	Deny []netip.Prefix

	Resolver *net.Resolver // net.DefaultResolver when nil
	Logger   *slog.Logger  // slog.Default() when nil; gets every refusal
}

// Proxy makes gates, and connects for them. It is safe for concurrent use and holds nothing open itself.
type Proxy struct {
	guard    guard
	hosts    map[string]bool
	resolver *net.Resolver
	log      *slog.Logger
}

// New makes a proxy.
func New(c Config) *Proxy {
	p := &Proxy{
		guard:    guard{allow: c.Allow, deny: c.Deny, local: net.InterfaceAddrs},
		hosts:    map[string]bool{},
		resolver: c.Resolver,
		log:      c.Logger,
	}
	for _, h := range c.AllowHosts {
		p.hosts[strings.ToLower(strings.TrimSuffix(h, "."))] = true
	}
	if p.log == nil {
		p.log = slog.Default()
	}
	return p
}

// RefusedError says that an address rule stands against a connection. Its text tells nothing of what is there.
type RefusedError struct {
	Host    string
	Address netip.AddrPort // for the operator's log only
	Reason  string         // likewise
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: this server does not connect to that address; the operator can list it", e.Host)
}

// DialContext connects under the address rules, without a policy: for the server's own requests to places that a user named,
// as DialContext of a http.Transport. The address is a name or an IP address with a port. A refusal is a *RefusedError, a
// name that does not resolve a *net.DNSError.
func (p *Proxy) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil, fmt.Errorf("connecting to %s: %w", address, net.UnknownNetworkError(network))
	}
	t, err := parseAuthority(address, 0)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	conn, err := p.dial(ctx, t)
	var refused *RefusedError
	if errors.As(err, &refused) {
		p.log.Warn("egress refused", "sandbox", "", "host", t.host, "port", t.port, "reason", refused.Reason, "address", refused.Address)
	}
	return conn, err
}

func (p *Proxy) dial(ctx context.Context, t target) (net.Conn, error) {
	if t.port == smtpPort {
		return nil, &RefusedError{Host: t.host, Reason: "port 25"}
	}
	var refused atomic.Pointer[RefusedError]
	d := net.Dialer{
		Timeout:  dialTimeout,
		Resolver: p.resolver,
		// Called with each address that is about to be connected to, after the name was resolved.
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			if reason := p.guard.refuses(a.Addr(), p.hosts[t.host]); reason != "" {
				e := &RefusedError{Host: t.host, Address: a, Reason: reason}
				refused.Store(e)
				return e
			}
			return nil
		},
	}
	conn, err := t.dialOn(ctx, d)
	if err == nil {
		return conn, nil
	}
	// One refused address among several that failed makes it a refusal: the difference would tell what is there.
	if e := refused.Load(); e != nil {
		return nil, e
	}
	return nil, err
}
