package egress

import (
	"net"
	"net/netip"
)

// guard decides about addresses.
type guard struct {
	allow, deny []netip.Prefix
	local       func() ([]net.Addr, error) // asked at each connection: interfaces come and go
}

// class says what lists an address that is refused.
type class int

const (
	private  class = iota // an allowed host or a prefix
	special               // a prefix
	metadata              // the address itself
)

// refusals are checked in order. Documentation ranges are not among them: they are nowhere, or where somebody put them.
var refusals = []struct {
	prefix netip.Prefix
	class  class
	reason string
}{
	{netip.MustParsePrefix("169.254.169.254/32"), metadata, "metadata of most clouds"},
	{netip.MustParsePrefix("169.254.170.2/32"), metadata, "credentials of containers (AWS)"},
	{netip.MustParsePrefix("100.100.100.200/32"), metadata, "metadata (Alibaba)"},
	{netip.MustParsePrefix("168.63.129.16/32"), metadata, "platform server (Azure), at a public address"},
	{netip.MustParsePrefix("192.0.0.192/32"), metadata, "metadata (Oracle)"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), metadata, "metadata (AWS)"},
	{netip.MustParsePrefix("fd00:ec2::23/128"), metadata, "credentials of pods (AWS)"},
	{netip.MustParsePrefix("fd20:ce::254/128"), metadata, "metadata (Google)"},
	{netip.MustParsePrefix("0.0.0.0/8"), special, "this network: the kernel takes it for loopback"},
	{netip.MustParsePrefix("127.0.0.0/8"), special, "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), special, "link-local"},
	{netip.MustParsePrefix("192.0.0.0/24"), special, "protocol assignments"},
	{netip.MustParsePrefix("224.0.0.0/4"), special, "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), special, "reserved, and broadcast"},
	{netip.MustParsePrefix("10.0.0.0/8"), private, "private"},
	{netip.MustParsePrefix("172.16.0.0/12"), private, "private"},
	{netip.MustParsePrefix("192.168.0.0/16"), private, "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), private, "shared by carriers and overlay networks"},
	{netip.MustParsePrefix("198.18.0.0/15"), private, "benchmarks, and translating proxies"},
	{netip.MustParsePrefix("::/128"), special, "unspecified: the kernel takes it for loopback"},
	{netip.MustParsePrefix("::1/128"), special, "loopback"},
	{netip.MustParsePrefix("fe80::/10"), special, "link-local"},
	{netip.MustParsePrefix("ff00::/8"), special, "multicast"},
	{netip.MustParsePrefix("fc00::/7"), private, "private"},
	{netip.MustParsePrefix("fec0::/10"), private, "private, of old"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), private, "translated within a network"},
	{netip.MustParsePrefix("2001::/32"), special, "Teredo: a tunnel to an address that is hidden in it"},
}

// refuses gives the reason against an address, for the log, or "".
func (g guard) refuses(a netip.Addr, allowedHost bool) string {
	if a.Zone() != "" {
		return "a zone names an interface of this host"
	}
	a = a.Unmap()
	if contains(g.deny, a) {
		return "denied by the operator"
	}
	local, err := g.isLocal(a)
	if err != nil {
		return "this host's own addresses are not known: " + err.Error()
	}
	if local && !g.listed(a, metadata) {
		return "an address of this host"
	}
	for _, r := range refusals {
		if r.prefix.Contains(a) {
			if g.listed(a, r.class) || r.class == private && allowedHost {
				return ""
			}
			return r.reason
		}
	}
	if inner, ok := embedded(a); ok && !contains(g.allow, a) {
		if reason := g.refuses(inner, allowedHost); reason != "" {
			return "translated to: " + reason
		}
	}
	return ""
}

func (g guard) isLocal(a netip.Addr) (bool, error) {
	addrs, err := g.local()
	if err != nil {
		return false, err
	}
	for _, l := range addrs {
		if n, ok := l.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == a {
				return true, nil
			}
		}
	}
	return false, nil
}

// listed reports whether the operator allows an address of the class. What leads into this host or to its credentials must be
// listed by itself; a loopback prefix is nothing but this host.
func (g guard) listed(a netip.Addr, c class) bool {
	for _, p := range g.allow {
		if p.Contains(a) && (c != metadata || p.IsSingleIP() || p.Addr().IsLoopback() && p.Bits() >= 8) {
			return true
		}
	}
	return false
}

func contains(ps []netip.Prefix, a netip.Addr) bool {
	for _, p := range ps {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// embeddings are the IPv6 prefixes that carry an IPv4 address, and where in the address it stands.
var embeddings = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64 (RFC 6052)
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4 (RFC 3056)
	{netip.MustParsePrefix("::/96"), 12},           // IPv4-compatible, of old
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // IPv4-translated (RFC 2765)
}

func embedded(a netip.Addr) (netip.Addr, bool) {
	for _, e := range embeddings {
		if e.prefix.Contains(a) {
			b := a.As16()
			return netip.AddrFrom4([4]byte(b[e.at : e.at+4])), true
		}
	}
	return netip.Addr{}, false
}
