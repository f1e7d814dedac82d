package egress_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"enplace"
	"enplace/internal/egress"
)

func TestPolicyRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy enplace.Egress
		want   string
	}{
		{none, "egress policy is none"},
		{allow("other.example", "*.more.example"), "(other.example, *.more.example)"},
		{allow(), "allow-list is empty"},
		{enplace.Egress{}, "no egress policy"},
	} {
		f := newGate(t, loopback, c.policy)
		status, body := f.get("http://Example.org/")
		if status != 403 || !strings.Contains(body, "example.org") || !strings.Contains(body, c.want) {
			t.Errorf("%+v: %d %s", c.policy, status, body)
		}
		if status, msg := f.get("https://second.example/"); status != -1 || !strings.Contains(msg, "second.example") {
			t.Errorf("CONNECT does not say why: %s", msg)
		}
		if got := strings.Join(f.Refused(), " "); got != "example.org second.example" {
			t.Errorf("refused %s", got)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if log := f.log.String(); !strings.Contains(log, "sandbox=task_1") || !strings.Contains(log, "host=second.example") {
			t.Errorf("log: %s", log)
		}
	}
}

// Nothing of what stands at a refused address is told: whether a port is open there makes no difference.
func TestPrivateAddressesAreRefusedAlike(t *testing.T) {
	t.Parallel()
	s := serve(t, hello)
	closed := serve(t, hello)
	closed.Close()
	f := newGate(t, egress.Config{}, open)
	_, a := f.get(s.URL)
	_, b := f.get(closed.URL)
	if a != b || !strings.Contains(a, "127.0.0.1 is at an address that is refused") {
		t.Errorf("%s\n%s", a, b)
	}
	for _, u := range []string{"http://169.254.169.254/latest/meta-data/", "http://[::ffff:169.254.169.254]/", "http://[fd00:ec2::254]/", "http://10.0.0.1/", "http://[::1]/", "http://0.0.0.0/"} {
		if status, body := f.get(u); status != 403 {
			t.Errorf("%s: %d %s", u, status, body)
		}
	}
	if status, body := f.get("http://localhost/"); status != 403 && status != 502 {
		t.Errorf("localhost: %d %s", status, body)
	}
}

// The server's own API, on an address that looks public, is out of reach.
func TestThisHostIsRefused(t *testing.T) {
	t.Parallel()
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.To4() == nil || n.IP.IsLoopback() {
			continue
		}
		f := newGate(t, egress.Config{}, open)
		if status, body := f.get("http://" + n.IP.String() + "/"); status != 403 {
			t.Errorf("%s: %d %s", n.IP, status, body)
		}
		return
	}
	t.Skip("this host has no address but loopback")
}

// A name that resolves to an allowed address at first and to another one later is checked each time.
func TestRebinding(t *testing.T) {
	t.Parallel()
	s := serve(t, hello)
	port := s.Listener.Addr().(*net.TCPAddr).Port
	dns := newNameServer(t)
	f := newGate(t, egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Resolver: dns.resolver()}, allow("rebind.example"))
	target := fmt.Sprintf("http://rebind.example:%d/", port)
	dns.answer(netip.MustParseAddr("127.0.0.1"))
	if status, body := f.get(target); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	dns.answer(netip.MustParseAddr("127.0.0.2"))
	f.Set("task_2", allow("rebind.example")) // no connection is left to use again
	if status, body := f.get(target); status != 403 {
		t.Fatalf("%d %s", status, body)
	}
	dns.answer(netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1"))
	if status, body := f.get(target); status != 200 { // one of the two may be reached
		t.Fatalf("%d %s", status, body)
	}
}

func TestNamesAreNotSearched(t *testing.T) {
	t.Parallel()
	dns := newNameServer(t)
	f := newGate(t, egress.Config{Resolver: dns.resolver()}, open)
	if status, body := f.get("http://metadata/"); status != 502 || !strings.Contains(body, "could not resolve metadata: there is no such name") {
		t.Fatalf("%d %s", status, body)
	}
	for _, name := range dns.asked() {
		if name != "metadata." {
			t.Errorf("asked for %s", name)
		}
	}
}

// Names of one label that this host's /etc/hosts has were not found there. Search domains stay out, and the address rules and the
// policy hold.
func TestOneLabelOfHostsFile(t *testing.T) {
	if os.Getenv("ENPLACE_TEST_HOSTS") == "" {
		inOwnHostsFile(t)
		return
	}
	s := serve(t, hello)
	port := s.Listener.Addr().(*net.TCPAddr).Port
	dns := newNameServer(t)
	at := func(name string) string { return fmt.Sprintf("http://%s:%d/", name, port) }
	listed := egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Resolver: dns.resolver()}
	f := newGate(t, listed, open)
	for _, name := range []string{"mirror", "MIRROR", "alias", "mirror."} {
		if status, body := f.get(at(name)); status != 200 {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if asked := dns.asked(); len(asked) > 0 {
		t.Errorf("a name of /etc/hosts was asked for: %v", asked)
	}
	if status, body := f.get(at("elsewhere")); status != 502 {
		t.Errorf("a name that only a search domain has: %d %s", status, body)
	}
	for _, name := range dns.asked() {
		if name != "elsewhere." {
			t.Errorf("asked for %s", name)
		}
	}
	if status, body := newGate(t, listed, allow("other")).get(at("mirror")); status != 403 {
		t.Errorf("against the policy: %d %s", status, body)
	}
	private := newGate(t, egress.Config{Resolver: dns.resolver()}, open)
	if status, body := private.get(at("mirror")); status != 403 || !strings.Contains(body, "address that is refused") {
		t.Errorf("at an address that is not listed: %d %s", status, body)
	}
}

// inOwnHostsFile runs a test once more where /etc/hosts and /etc/resolv.conf are its own.
func inOwnHostsFile(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting another /etc/hosts needs root")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"hosts":       "127.0.0.1 localhost\n127.0.0.1 Mirror alias\n127.0.0.1 elsewhere.corp.example\n",
		"resolv.conf": "search corp.example\nnameserver 127.0.0.1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := `for f in hosts resolv.conf; do mount --bind "$1/$f" "/etc/$f" || exit; done; exec "$2" -test.v "-test.run=^$3$"`
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script, "sh", dir, os.Args[0], t.Name())
	cmd.Env = append(os.Environ(), "ENPLACE_TEST_HOSTS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAllowedHostMayBePrivate(t *testing.T) {
	t.Parallel()
	dns := newNameServer(t)
	dns.answer(netip.MustParseAddr("127.0.0.1"))
	f := newGate(t, egress.Config{AllowHosts: []string{"Git.Corp.example"}, Resolver: dns.resolver()}, open)
	if status, _ := f.get("http://git.corp.example/"); status != 403 {
		t.Error("an allowed host stands at loopback")
	}
}

func TestPort25IsRefused(t *testing.T) {
	t.Parallel()
	f := newGate(t, loopback, open)
	if status, body := f.get("http://127.0.0.1:25/"); status != 403 || !strings.Contains(body, "port 25") {
		t.Errorf("%d %s", status, body)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	f := newGate(t, loopback, open)
	s := serve(t, hello)
	s.Close()
	if status, body := f.get(s.URL); status != 502 || !strings.Contains(body, "could not reach 127.0.0.1") {
		t.Errorf("%d %s", status, body)
	}
}

// nameServer is a name server for every name, with answers that change.
type nameServer struct {
	conn *net.UDPConn
	mu   sync.Mutex
	a    []netip.Addr
	seen []string
}

func newNameServer(t *testing.T) *nameServer {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := conn.ReadFromUDP(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDP(s.reply(buf[:n]), from)
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return s
}

func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

func (s *nameServer) answer(a ...netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.a = a
}

func (s *nameServer) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// reply answers one question (RFC 1035): the addresses for an A, nothing for the rest, no such name when there are none.
func (s *nameServer) reply(q []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, i := "", 12
	for q[i] != 0 {
		name += string(q[i+1:i+1+int(q[i])]) + "."
		i += 1 + int(q[i])
	}
	s.seen = append(s.seen, name)
	question := q[12 : i+5]
	answers := s.a
	flags := uint16(0x8180)
	if len(answers) == 0 {
		flags |= 3
	}
	if binary.BigEndian.Uint16(q[i+1:]) != 1 {
		answers = nil
	}
	out := append([]byte{}, q[:2]...)
	for _, v := range []uint16{flags, 1, uint16(len(answers)), 0, 0} {
		out = binary.BigEndian.AppendUint16(out, v)
	}
	out = append(out, question...)
	for _, a := range answers {
		out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		out = append(out, a.AsSlice()...)
	}
	return out
}
