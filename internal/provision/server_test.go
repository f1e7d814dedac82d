package provision

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
)

// shop serves archives of tools to mise's http backend: NAME-VERSION.tgz holds a program that prints its name and version.
type shop struct {
	url string

	mu      sync.Mutex
	missing map[string]bool          // by name of the tool
	held    map[string]chan struct{} // closed when somebody asks; the answer never comes
	asked   int

	authorized bool // somebody sent a login

	lists    map[string]string // published versions by name, a line each: those of latest
	programs map[string]string // what is served instead of the usual program, by name
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{missing: map[string]bool{}, held: map[string]chan struct{}{}, lists: map[string]string{}, programs: map[string]string{}}
	// Inside a box 127.0.0.1 is the box itself; what is asked for at another address of the loopback goes through the proxy.
	l, err := net.Listen("tcp", "127.0.0.7:0")
	check(t, err)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: s}}
	server.Start()
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, version, _ := strings.Cut(strings.TrimSuffix(path.Base(r.URL.Path), ".tgz"), "-")
	s.mu.Lock()
	if list, ok := s.lists[name]; ok && version == "versions" {
		s.mu.Unlock()
		_, _ = io.WriteString(w, list)
		return
	}
	s.asked++
	s.authorized = s.authorized || r.Header.Get("Authorization") != ""
	missing, held, program := s.missing[name], s.held[name], s.programs[name]
	s.mu.Unlock()
	if missing {
		http.NotFound(w, r)
		return
	}
	if held != nil {
		close(held)
		<-r.Context().Done()
		return
	}
	if program == "" {
		program = fmt.Sprintf("#!/bin/sh\necho %s %s\n", name, version)
	}
	_, _ = w.Write(archive(name, program))
}

// archive holds one program.
func archive(name, program string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	tw := tar.NewWriter(z)
	_ = tw.WriteHeader(&tar.Header{Name: "bin/" + name, Mode: 0o755, Size: int64(len(program))})
	_, _ = tw.Write([]byte(program))
	_ = tw.Close()
	_ = z.Close()
	return b.Bytes()
}

func (s *shop) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// requests gives how often it was asked.
func (s *shop) requests() (n int) {
	s.set(func() { n = s.asked })
	return n
}

// tool gives the line of a mise.toml for a tool of the shop.
func (s *shop) tool(name, version string) string {
	return fmt.Sprintf("\"http:%s\" = {version = %q, url = \"%s/%s-{{version}}.tgz\"}\n", name, version, s.url, name)
}

// latest gives the line for a tool of which the shop publishes a list of versions.
func (s *shop) latest(name string) string {
	return fmt.Sprintf("\"http:%s\" = {version = \"latest\", url = \"%s/%s-{{version}}.tgz\", version_list_url = \"%s/%s-versions\"}\n", name, s.url, name, s.url, name)
}
