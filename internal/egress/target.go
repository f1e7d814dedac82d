package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"enplace"
)

// target is where a request wants to go.
type target struct {
	host string     // lower case, without the last dot; an IP address in its canonical form
	addr netip.Addr // valid when host is an IP address
	port uint16
}

// inURL gives the authority of an http URL.
func (t target) inURL() string {
	hostport := net.JoinHostPort(t.host, strconv.Itoa(int(t.port)))
	return strings.TrimSuffix(hostport, ":80")
}

// dialed is the authority with the name closed by a dot, so that the host's search domains make no other name of it.
func (t target) dialed() string {
	host := t.host
	if !t.addr.IsValid() {
		host += "."
	}
	return net.JoinHostPort(host, strconv.Itoa(int(t.port)))
}

// dialOn connects to a target. A name of one label, which /etc/hosts has without the dot that keeps search domains out, is looked for
// there first, where no search domain can come in.
func (t target) dialOn(ctx context.Context, d net.Dialer) (net.Conn, error) {
	if !t.addr.IsValid() && !strings.Contains(t.host, ".") {
		local := d
		local.Resolver = hostsFile
		conn, err := local.DialContext(ctx, "tcp", net.JoinHostPort(t.host, strconv.Itoa(int(t.port))))
		var dns *net.DNSError
		if !errors.As(err, &dns) {
			return conn, err
		}
	}
	return d.DialContext(ctx, "tcp", t.dialed())
}

// hostsFile resolves names by /etc/hosts alone: it reaches no name server.
var hostsFile = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("names come from /etc/hosts here")
}}

// allowedBy asks the policy. An IP address must be allowed as such: no "*." covers it.
func (t target) allowedBy(e enplace.Egress) bool {
	if !t.addr.IsValid() || e.Policy != enplace.EgressAllowlist {
		return e.Allows(t.host)
	}
	for _, h := range e.Hosts {
		if a, err := netip.ParseAddr(strings.Trim(h, "[]")); err == nil && a.Unmap() == t.addr {
			return true
		}
	}
	return false
}

// parseTarget reads the target of a proxy request: host:port for CONNECT, else an absolute http:// URL.
func parseTarget(r *http.Request) (target, error) {
	if r.Method == http.MethodConnect {
		return parseAuthority(r.RequestURI, 0)
	}
	switch {
	case r.URL.Scheme == "https":
		return target{}, fmt.Errorf("https goes through this proxy by CONNECT; set https_proxy to it as well as http_proxy")
	case r.URL.Scheme == "" && r.URL.Host == "":
		return target{}, fmt.Errorf("this is a proxy: it takes CONNECT and absolute http:// URLs")
	case r.URL.Scheme != "http":
		return target{}, fmt.Errorf("the scheme of the URL is not http, and nothing else goes through this proxy")
	case r.URL.User != nil:
		return target{}, fmt.Errorf("the URL holds a user name; send it in an Authorization header")
	case r.URL.Opaque != "":
		return target{}, fmt.Errorf("the URL has no host")
	}
	return parseAuthority(r.URL.Host, 80)
}

// parseAuthority reads host, host:port or [address]:port. A fallback of 0 means that the port is required.
func parseAuthority(s string, fallback uint16) (target, error) {
	host, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		host, port = s[:i], s[i+1:]
	}
	t := target{port: fallback}
	if port != "" || fallback == 0 {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '+' || port[0] == '0' {
			return target{}, fmt.Errorf("the target needs a port between 1 and 65535, as in example.org:443")
		}
		t.port = uint16(n)
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		a, err := netip.ParseAddr(inner)
		if !ok || err != nil || !a.Is6() || a.Zone() != "" {
			return target{}, fmt.Errorf("the target's address is not an IPv6 address")
		}
		t.addr = a.Unmap()
		t.host = t.addr.String()
		return t, nil
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
		t.addr, t.host = a, a.String()
		return t, nil
	}
	t.host = strings.ToLower(strings.TrimSuffix(host, "."))
	if !validName(t.host) {
		return target{}, fmt.Errorf("the target's host is not a name: write it in ASCII without user, path or spaces")
	}
	return t, nil
}

// validName takes the names of DNS, but none that ends in a number: some resolvers read 2130706433 and 127.0x1 as addresses.
func validName(s string) bool {
	if len(s) > 253 {
		return false
	}
	last := ""
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
		last = label
	}
	return last[0] < '0' || last[0] > '9' || strings.Trim(last, "0123456789abcdefx") != "" // hexadecimal counts
}
