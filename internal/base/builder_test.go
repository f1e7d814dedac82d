package base

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"enplace"
	"enplace/internal/image"
)

func rootTarball(t testing.TB) Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "root.tar")
	write(t, path, string(archive(t, small(t)...)))
	return Source{Tarball, path}
}

func TestEnsureMakesItOnce(t *testing.T) {
	t.Parallel()
	b := newBuilder(t, Config{Source: rootTarball(t)})
	if _, ok := b.Current(); ok {
		t.Error("there is one before it was made")
	}
	var wg sync.WaitGroup
	made := make([]Base, 3)
	for i := range made {
		wg.Go(func() {
			rec, err := b.Ensure(context.Background(), nil)
			if err != nil {
				t.Error(err)
			}
			made[i] = rec
		})
	}
	wg.Wait()
	for _, rec := range made {
		if rec.Digest != made[0].Digest || !rec.CreatedAt.Equal(made[0].CreatedAt) {
			t.Errorf("made twice: %v and %v", rec, made[0])
		}
	}
	if now, ok := b.Current(); !ok || now.Digest != made[0].Digest {
		t.Errorf("current is %v %v", now, ok)
	}
	for _, left := range []string{"work", "mnt"} {
		if _, err := os.Lstat(filepath.Join(b.cfg.Dir, left)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", left, err)
		}
	}
}

func TestEnsureFollowsItsInputs(t *testing.T) {
	t.Parallel()
	b := newBuilder(t, Config{Source: rootTarball(t)})
	first := ensure(t, b)
	write(t, b.cfg.Source.Ref, string(archive(t, append(small(t), file("etc/more", "x"))...)))
	second := ensure(t, b)
	if second.Digest == first.Digest || second.Key == first.Key {
		t.Error("a changed tarball gave the same base")
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	write(t, ca, "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
	b.cfg.ExtraCAs = []string{ca}
	third := ensure(t, b)
	if third.Key == second.Key || len(third.Warnings) <= len(second.Warnings) {
		t.Errorf("an authority that came gave %v", third)
	}
}

func TestKeyCoversEveryInput(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, change := range map[string]func(*Config){
		"none":       func(*Config) {},
		"source":     func(c *Config) { c.Source = Source{OCI, "example.org/x"} },
		"suite":      func(c *Config) { c.Suite = "forky" },
		"mirror":     func(c *Config) { c.Mirror = "http://mirror.example.org/debian" },
		"security":   func(c *Config) { c.Security = noSecurity },
		"components": func(c *Config) { c.Components = []string{"main", "contrib"} },
		"tools":      func(c *Config) { c.Tools[0].SHA256 = strings.Repeat("0", 64) },
	} {
		cfg := Config{Source: Source{Kind: Debian}, Suite: stable, Mirror: DefaultMirror, Security: securityOf(DefaultMirror),
			Components: []string{"main"}, Tools: DefaultTools("amd64")}
		change(&cfg)
		key, err := (&Builder{cfg: cfg}).key()
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have one key", name, other)
		}
		seen[key] = name
	}
}

// Whatever a killed run left, a mount of the machine's own folders among it, the next run neither counts it as done nor
// deletes through it.
func TestLeftoversOfAKilledRun(t *testing.T) {
	t.Parallel()
	b := newBuilder(t, Config{Source: rootTarball(t)})
	host := filepath.Join(t.TempDir(), "host")
	write(t, filepath.Join(host, "file"), "kept")
	inside := filepath.Join(b.work(), "root", "dev")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := bindShifted(context.Background(), host, inside); err != nil {
		t.Fatal(err)
	}
	rec := ensure(t, b)
	if _, err := os.Stat(filepath.Join(host, "file")); err != nil {
		t.Error(err)
	}
	if got := contents(t, b, rec); got["dev/file"] != "" {
		t.Error("the leftovers are part of the base")
	}
}

func TestCancelledRunLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBuilder(t, Config{Source: rootTarball(t)})
	ctx, cancel := context.WithCancel(context.Background())
	_, err := b.Ensure(ctx, writerFunc(func(line string) {
		if strings.HasPrefix(line, "compiling") {
			cancel()
		}
	}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, ok := b.Current(); ok {
		t.Error("it counts as made")
	}
	if _, err := os.Lstat(b.work()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
	ensure(t, b)
}

type writerFunc func(line string)

func (f writerFunc) Write(p []byte) (int, error) {
	f(string(p))
	return len(p), nil
}

func TestToolsAreCheckedByHash(t *testing.T) {
	t.Parallel()
	page := `{"files":[{"filename":"tool.whl","url":"../files/tool.whl"}]}`
	bytes := "the bytes"
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/simple/uv/":
			_, _ = w.Write([]byte(page))
		case "/simple/files/tool.whl":
			asked++
			_, _ = w.Write([]byte(bytes))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	b := &Builder{cfg: Config{Dir: t.TempDir(), PyPI: server.URL + "/simple"}}
	tool := Tool{Name: ToolUV, Version: "1.0", Registry: PyPI, Package: "uv", File: "tool.whl", SHA256: strings.Repeat("0", 64)}
	fetch := func() (string, error) { return b.fetch(context.Background(), tool, newLines(nil)) }

	if _, err := fetch(); enplace.KindOf(err) != enplace.KindUpstream || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("other bytes: %v", err)
	}
	sum := sha256.Sum256([]byte(bytes))
	tool.SHA256 = hex.EncodeToString(sum[:])
	path, err := fetch()
	if err != nil {
		t.Fatal(err)
	}
	asked = 0
	if _, err := fetch(); err != nil || asked != 0 {
		t.Errorf("asked %d times for what is there: %v", asked, err)
	}
	write(t, path, "changed on disk")
	if _, err := fetch(); err != nil || asked != 1 {
		t.Errorf("asked %d times for what was changed: %v", asked, err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != bytes {
		t.Errorf("it holds %q, %v", got, err)
	}
}

func TestParseSource(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Source{
		"": {Kind: Debian}, "debian": {Kind: Debian}, "oci:debian:13": {OCI, "debian:13"},
		"tarball:/a/b.tar": {Tarball, "/a/b.tar"}, "dir:/a//b/": {Dir, "/a/b"},
	} {
		if got, err := ParseSource(in); err != nil || got != want {
			t.Errorf("%q: %v %v", in, got, err)
		}
	}
	for _, in := range []string{"oci:", "dir:relative", "tarball:", "http://x", "debian:12", "x"} {
		if _, err := ParseSource(in); enplace.KindOf(err) != enplace.KindInvalid {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// What packages are checked against is what builds install from, whatever the base is made from.
func TestArchivesAreThoseOfTheBase(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		cfg  Config
		want []string
	}{
		{Config{}, []string{DefaultMirror + " trixie main", DefaultMirror + " trixie-updates main", DefaultMirror + "-security trixie-security main"}},
		{Config{Suite: "bookworm", Components: []string{"main", "contrib"}, Security: "none"}, []string{
			DefaultMirror + " bookworm main contrib", DefaultMirror + " bookworm-updates main contrib"}},
		{Config{Mirror: "http://mirror.example/debian"}, []string{"http://mirror.example/debian trixie main",
			"http://mirror.example/debian trixie-updates main", "http://mirror.example/debian-security trixie-security main"}},
		{Config{Source: Source{Kind: OCI, Ref: "ubuntu"}}, nil},
	} {
		tc.cfg.Dir, tc.cfg.Images = t.TempDir(), &image.Store{}
		b, err := New(tc.cfg)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range b.Archives() {
			got = append(got, a.Mirror+" "+a.Suite+" "+strings.Join(a.Components, " "))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%+v: %q, want %q", tc.cfg, got, tc.want)
		}
	}
}

// Two bases that are made at once shared the cgroup of their last step, and one of them failed.
func TestTwoBasesAtOnceHaveContainersOfTheirOwn(t *testing.T) {
	t.Parallel()
	one, two := &Builder{cfg: Config{Dir: "/a/base"}}, &Builder{cfg: Config{Dir: "/b/base"}}
	if one.container() == two.container() || one.container() != (&Builder{cfg: Config{Dir: "/a/base"}}).container() {
		t.Errorf("%s and %s", one.container(), two.container())
	}
}
