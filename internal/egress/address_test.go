package egress

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

func prefixes(ss ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, s := range ss {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

func testGuard(allow ...string) guard {
	return guard{allow: prefixes(allow...), local: func() ([]net.Addr, error) {
		own := []net.Addr{}
		for _, s := range []string{"127.0.0.1/8", "::1/128", "192.0.2.7/24", "10.9.9.9/8", "2001:db8::7/64"} {
			ip, n, _ := net.ParseCIDR(s)
			own = append(own, &net.IPNet{IP: ip, Mask: n.Mask})
		}
		return own, nil
	}}
}

func TestAddressesThatAreAlwaysRefused(t *testing.T) {
	t.Parallel()
	g := testGuard()
	for _, s := range []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1",
		"169.254.169.254", "169.254.1.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1",
		"::", "::1", "fe80::1", "fe80::1%eth0", "2606:4700::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::10.0.0.1",
		"64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:1234::1", "::ffff:0:10.0.0.1",
		"192.0.2.7", "2001:db8::7", "64:ff9b::c000:207", // this host's own, the last one translated
	} {
		if g.refuses(netip.MustParseAddr(s), false) == "" {
			t.Errorf("%s is let through", s)
		}
	}
	for _, s := range []string{
		"203.0.113.8", "192.0.2.8", "198.51.100.1", "1.1.1.1", "172.32.0.1", "100.128.0.1", "11.0.0.1", "223.255.255.255",
		"2606:4700::1", "2001:db8::8", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1",
	} {
		if reason := g.refuses(netip.MustParseAddr(s), false); reason != "" {
			t.Errorf("%s is refused: %s", s, reason)
		}
	}
}

func TestWhatTheOperatorLists(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		allow, addr string
		host        bool // the name is in AllowHosts
		ok          bool
	}{
		{"10.0.0.0/8", "10.1.1.1", false, true},
		{"10.0.0.0/8", "::ffff:10.1.1.1", false, true},
		{"10.0.0.0/8", "64:ff9b::a01:101", false, true},
		{"10.0.0.0/8", "192.168.0.1", false, false},
		{"10.0.0.0/8", "10.9.9.9", false, false}, // this host
		{"10.9.9.9/32", "10.9.9.9", false, true},
		{"192.0.2.7/32", "192.0.2.7", false, true},
		{"0.0.0.0/0", "192.0.2.7", false, false},
		{"127.0.0.0/8", "127.0.0.1", false, true},
		{"127.0.0.2/32", "127.0.0.1", false, false},
		{"0.0.0.0/0", "127.0.0.1", false, false}, // this host again
		{"169.254.0.0/16", "169.254.1.1", false, true},
		{"169.254.0.0/16", "169.254.169.254", false, false},
		{"169.254.169.254/32", "169.254.169.254", false, true},
		{"fd00::/8", "fd00::1", false, true},
		{"fd00::/8", "fd00:ec2::254", false, false},
		{"1.1.1.1/32", "10.1.1.1", true, true},
		{"1.1.1.1/32", "fd00::1", true, true},
		{"1.1.1.1/32", "127.0.0.1", true, false},
		{"1.1.1.1/32", "169.254.169.254", true, false},
		{"1.1.1.1/32", "fd00:ec2::254", true, false},
	} {
		if got := testGuard(c.allow).refuses(netip.MustParseAddr(c.addr), c.host); (got == "") != c.ok {
			t.Errorf("allow %s, host %v: %s gives %q", c.allow, c.host, c.addr, got)
		}
	}
	g := testGuard("10.0.0.0/8")
	g.deny = prefixes("10.1.0.0/16", "1.1.1.1/32")
	for _, s := range []string{"10.1.2.3", "1.1.1.1", "::ffff:1.1.1.1", "64:ff9b::101:101"} {
		if g.refuses(netip.MustParseAddr(s), true) == "" {
			t.Errorf("%s is let through although it is denied", s)
		}
	}
}

func TestUnknownInterfacesRefuseEverything(t *testing.T) {
	t.Parallel()
	g := guard{local: func() ([]net.Addr, error) { return nil, errors.New("netlink") }}
	if g.refuses(netip.MustParseAddr("1.1.1.1"), false) == "" {
		t.Error("let through")
	}
}
