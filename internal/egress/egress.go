// Package egress is the policy-enforcing HTTP proxy that is a sandbox's only way out.
package egress

import (
	"context"
	"log/slog"
	"net"
	"net/netip"

	"enplace"
)

// Config is what a Proxy needs. The zero value is a proxy that reaches public addresses only.
type Config struct {
	Allow      []netip.Prefix // optional: addresses that are otherwise refused and may be reached all the same
	AllowHosts []string       // optional: host names that may stand at private addresses
	Deny       []netip.Prefix // optional: addresses that are refused whatever Allow says
	Resolver   *net.Resolver  // optional; net.DefaultResolver
	Logger     *slog.Logger   // optional; slog.Default
}

// Proxy makes gates.
type Proxy struct{}

func New(c Config) *Proxy { panic("todo") }

// DialContext connects under the address rules alone: for the server's own requests to places that a user named.
func (p *Proxy) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	panic("todo")
}

// Gate listens on a unix socket at that path for the requests of one sandbox.
func (p *Proxy) Gate(socket, name string, policy enplace.Egress) (*Gate, error) { panic("todo") }

// Gate is one sandbox's way out.
type Gate struct{}

// Set gives the gate another owner and policy, forgets refusals, and closes what was open.
func (g *Gate) Set(name string, policy enplace.Egress) { panic("todo") }

// Refused gives the hosts that were refused, first seen first, at most 100.
func (g *Gate) Refused() []string { panic("todo") }

// Close removes the socket and closes the gate's connections.
func (g *Gate) Close() error { panic("todo") }
