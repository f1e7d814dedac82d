package egress

import (
	"bufio"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"enplace"
)

func TestTargets(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"CONNECT example.org:443":         "example.org:443",
		"CONNECT EXAMPLE.org.:443":        "example.org:443",
		"CONNECT 1.2.3.4:1":               "1.2.3.4:1",
		"CONNECT [2001:DB8::1]:443":       "[2001:db8::1]:443",
		"CONNECT [::ffff:10.0.0.1]:80":    "10.0.0.1",
		"GET http://example.org/x":        "example.org",
		"GET HTTP://example.org:80/x?y#z": "example.org",
		"GET http://a_b.example:8080":     "a_b.example:8080",
		"GET http://[::1]/":               "[::1]",
	} {
		got, err := parseLine(in)
		if err != nil || got.inURL() != want {
			t.Errorf("%s gives %q %v", in, got.inURL(), err)
		}
	}
	for _, in := range []string{
		"CONNECT example.org", "CONNECT example.org:", "CONNECT example.org:0", "CONNECT example.org:65536", "CONNECT example.org:+443", "CONNECT example.org:0443",
		"CONNECT user@example.org:443", "CONNECT user:pw@example.org:443", "CONNECT http://example.org:443", "CONNECT example.org:443/x", "CONNECT /x", "CONNECT :443",
		"CONNECT [fe80::1%25eth0]:443", "CONNECT [::1:443", "CONNECT ::1:443", "CONNECT [1.2.3.4]:443", "CONNECT [example.org]:443",
		"CONNECT 2130706433:80", "CONNECT 127.1:80", "CONNECT 0x7f.0.0.0x1:80", "CONNECT 0177.0.0.1:80", "CONNECT 127.0.0.1.:80",
		"CONNECT ex\u00e4mple.org:443", "CONNECT a..b:443", "CONNECT -a.b:443", "CONNECT " + strings.Repeat("a", 64) + ".org:443", "CONNECT *.example.org:443",
		"GET https://example.org/", "GET ftp://example.org/", "GET /x", "GET http://user:pw@example.org/", "GET http:///x", "GET http:x", "OPTIONS *",
		"GET http://example.org:99999/", "GET http://exa%00mple.org/", "GET //example.org/",
	} {
		if got, err := parseLine(in); err == nil {
			t.Errorf("%s gives %q", in, got.inURL())
		}
	}
}

func parseLine(line string) (target, error) {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line + " HTTP/1.1\r\nHost: other.example\r\n\r\n")))
	if err != nil {
		return target{}, err
	}
	return parseTarget(r)
}

func TestAddressesMustBeAllowedAsSuch(t *testing.T) {
	t.Parallel()
	list := enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: []string{"*.0.0.1", "2001:db8:0::1", "1.2.3.4", "example.org"}}
	for authority, want := range map[string]bool{
		"10.0.0.1:80": false, "1.2.3.4:80": true, "[2001:db8::1]:80": true, "[2001:db8::2]:80": false, "[::ffff:1.2.3.4]:80": true,
		"Example.Org.:80": true, "sub.example.org:80": false,
	} {
		got, err := parseAuthority(authority, 0)
		if err != nil || got.allowedBy(list) != want {
			t.Errorf("%s: %v %v", authority, !want, err)
		}
	}
	for _, none := range []enplace.Egress{{}, {Policy: enplace.EgressNone}, {Policy: enplace.EgressAllowlist}} {
		if (target{host: "example.org", port: 80}).allowedBy(none) {
			t.Errorf("%+v lets a name through", none)
		}
	}
}

// Whatever is read as a target is one that net/url and the dialer read alike, and reading it again changes nothing.
func FuzzParseAuthority(f *testing.F) {
	for _, s := range []string{"example.org:443", "[::1]:80", "1.2.3.4:80", "a@b:1", "0x7f.1:80", "[::ffff:1.2.3.4%eth0]:1", "a.:80", ":", "]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseAuthority(s, 80)
		if err != nil {
			return
		}
		if got.port == 0 || got.host == "" || got.host != strings.ToLower(got.host) {
			t.Fatalf("%q gives %+v", s, got)
		}
		if a, err := netip.ParseAddr(got.host); (err == nil) != got.addr.IsValid() || err == nil && a != got.addr {
			t.Fatalf("%q gives %+v", s, got)
		}
		again, err := parseAuthority(got.inURL(), 80)
		if err != nil || again != got {
			t.Fatalf("%q gives %+v, and that %+v, %v", s, got, again, err)
		}
		u, err := url.Parse("http://" + got.inURL() + "/")
		if err != nil || u.Hostname() != got.host || u.User != nil {
			t.Fatalf("%q: net/url reads %+v, %v", s, u, err)
		}
	})
}
