package provision

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// versionsHost is asked by mise before GitHub is, what that would say.
const versionsHost = "mise-versions.jdx.dev"

// hub is GitHub, as far as releases of any repository go: each has the versions 1.0.0 and 1.1.0 of an archive for each system.
// Boxes of its house reach it by its own names, with certificates that they trust; mise's host of versions knows nothing.
type hub struct {
	house *house

	mu      sync.Mutex
	reset   time.Time         // while it lies ahead, whoever asks the API without a token is refused
	asked   int               // requests to the API
	tokens  map[string]string // what was sent as authorization, by path
	told    []string          // what mise's host of versions was asked
	changed bool              // archives are others than they were
}

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{tokens: map[string]string{}}
	l := listenHTTPS(t)
	certificate, authority := certify(t, "github.com", "api.github.com", versionsHost)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	system, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	check(t, err)
	bundle := filepath.Join(t.TempDir(), "certificates.pem")
	check(t, os.WriteFile(bundle, append(system, authority...), 0o644))
	h.house = newHouseOn(t, bundle, hubNames(t, l.Addr().(*net.TCPAddr).IP))
	return h
}

// listenHTTPS takes an address of the loopback on which nobody else listens: tests of another checkout may run beside.
func listenHTTPS(t *testing.T) net.Listener {
	t.Helper()
	var last error
	for i := range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.1.%d:443", 1+i))
		if err == nil {
			return l
		}
		last = err
	}
	t.Fatal(last)
	return nil
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if token := r.Header.Get("Authorization"); token != "" {
		h.tokens[r.Host+r.URL.Path] = token
	}
	if r.Host == versionsHost { // without an answer mise would wait, and ask again
		h.told = append(h.told, r.URL.Path)
		http.NotFound(w, r)
		return
	}
	if r.Host == "github.com" {
		name, version := path.Base(path.Dir(path.Dir(path.Dir(path.Dir(r.URL.Path))))), strings.TrimPrefix(path.Base(path.Dir(r.URL.Path)), "v")
		if h.changed {
			version += " changed"
		}
		_, _ = w.Write(archive(name, fmt.Sprintf("#!/bin/sh\necho %s %s\n", name, version)))
		return
	}
	h.asked++
	w.Header().Set("Content-Type", "application/json")
	if time.Now().Before(h.reset) && r.Header.Get("Authorization") == "" {
		for name, value := range map[string]string{"Limit": "60", "Remaining": "0", "Reset": fmt.Sprint(h.reset.Unix())} {
			w.Header().Set("X-Ratelimit-"+name, value)
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"message": "API rate limit exceeded for 192.0.2.1."}`))
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) < 4 || parts[0] != "repos" || parts[3] != "releases":
		http.NotFound(w, r)
	case len(parts) == 4:
		_ = json.NewEncoder(w).Encode([]any{release(parts[1:3], "1.1.0"), release(parts[1:3], "1.0.0")})
	case parts[4] == "latest":
		_ = json.NewEncoder(w).Encode(release(parts[1:3], "1.1.0"))
	default:
		_ = json.NewEncoder(w).Encode(release(parts[1:3], strings.TrimPrefix(parts[5], "v")))
	}
}

func release(repo []string, version string) map[string]any {
	var assets []any
	for _, arch := range []string{"x86_64", "aarch64"} {
		name := fmt.Sprintf("%s-%s-linux-%s.tar.gz", repo[1], version, arch)
		assets = append(assets, map[string]any{
			"name": name, "url": "https://api.github.com/repos/" + strings.Join(repo, "/") + "/releases/assets/1",
			"browser_download_url": "https://github.com/" + strings.Join(repo, "/") + "/releases/download/v" + version + "/" + name,
		})
	}
	return map[string]any{
		"tag_name": "v" + version, "name": version, "draft": false, "prerelease": false,
		"created_at": "2024-01-01T00:00:00Z", "published_at": "2024-01-01T00:00:00Z", "assets": assets,
	}
}

// limit has the API refuse until then, and starts counting anew.
func (h *hub) limit(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reset, h.asked = until, 0
}

func (h *hub) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// sent gives the logins that came since it was last called, by path.
func (h *hub) sent() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	sent := h.tokens
	h.tokens = map[string]string{}
	return sent
}

func (h *hub) toldVersions() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

func (h *hub) requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

// certify makes a certificate for names, and the certificate of the authority that signed it.
func certify(t *testing.T, names ...string) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	authority, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	check(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		KeyUsage: x509.KeyUsageDigitalSignature, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
	}
	signed, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, key)
	check(t, err)
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority})
}

// hubNames resolves GitHub's names to the hub, those of the registries as the host does, and no others.
func hubNames(t *testing.T, hub net.IP) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	check(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(answer(buf[:n], hub), from)
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answer is that of a name server (RFC 1035) to a question for an address.
func answer(q []byte, hub net.IP) []byte {
	var labels []string
	i := 12
	for ; q[i] != 0; i += 1 + int(q[i]) {
		labels = append(labels, string(q[i+1:i+1+int(q[i])]))
	}
	var found []net.IP
	switch name := strings.Join(labels, "."); {
	case q[i+2] != 1: // IPv4 alone
	case name == "github.com" || name == "api.github.com" || name == versionsHost:
		found = []net.IP{hub}
	case strings.HasSuffix(name, ".npmjs.org"):
		found, _ = net.DefaultResolver.LookupIP(context.Background(), "ip4", name)
	}
	out := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, byte(len(found)), 0, 0, 0, 0}, q[12:i+5]...)
	for _, ip := range found {
		out = append(append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4), ip.To4()...)
	}
	return out
}
