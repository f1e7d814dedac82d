package provision

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"enplace"
)

// postinstall writes down what an install script is and sees.
const postinstall = `{ id -u; env; for a in 169.254.169.254 10.0.0.1; do curl -s -o /dev/null -w '%{http_code}\n' http://$a/; done; } >ran`

// packages is a registry of npm's with one package, which has an install script.
func packages(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.7:0")
	check(t, err)
	server := &httptest.Server{Listener: l}
	manifest := map[string]any{"name": "scripted", "version": "1.0.0", "bin": map[string]string{"scripted": "scripted.sh"}, "scripts": map[string]string{"postinstall": postinstall}}
	text, err := json.Marshal(manifest)
	check(t, err)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, content := range map[string]string{"package.json": string(text), "scripted.sh": "#!/bin/sh\ncat \"$(dirname \"$(realpath \"$0\")\")/ran\" 2>/dev/null || echo hollow\n"} {
		check(t, w.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o755, Size: int64(len(content))}))
		_, err = w.Write([]byte(content))
		check(t, err)
	}
	check(t, w.Close())
	check(t, z.Close())
	digest := sha512.Sum512(b.Bytes())
	server.Config = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, ".tgz"):
			_, _ = w.Write(b.Bytes())
		case r.URL.Path == "/scripted":
			manifest["hasInstallScript"] = true
			manifest["dist"] = map[string]string{"tarball": server.URL + "/scripted/-/scripted-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(digest[:])}
			_ = json.NewEncoder(w).Encode(map[string]any{"name": "scripted", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": manifest}})
		default:
			http.NotFound(w, r)
		}
	})}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// Install scripts of npm's packages run where an item lets them, and it is told whose did; they see no secret and no other network.
func TestCase35LifecycleScripts(t *testing.T) {
	t.Parallel()
	registry := packages(t)
	item := func(more string) enplace.Item {
		return newItem(org, "own", fmt.Sprintf("%s\"npm:scripted\" = { version = \"1.0.0\", install_env = { npm_config_registry = %q }%s }\n", tools, registry, more), "")
	}
	b := newHouse(t).start(t, "case35", enplace.EgressOpen, 1024)
	r := b.apply(b.job(item("")))
	r.stands(t, installed)
	b.says("scripted", "hollow")
	has(t, strings.Join(r.Items[0].Notes, ";"), `npm:scripted has install scripts (postinstall), which did not run; allow_builds = ["scripted"] in mise.toml lets them`)
	if scripts := r.Items[0].Tools[0].Scripts; len(scripts) != 0 {
		t.Errorf("these are said to have run: %q", scripts)
	}

	b.sh("rm -rf /opt/mise/installs/npm-scripted")
	j := b.job(item(`, allow_builds = ["scripted"]`))
	j.Token = "hub_secret_0123456789abcdef"
	r = b.apply(j)
	r.stands(t, installed)
	want := []string{"scripted@1.0.0 (postinstall)"}
	if scripts := r.Items[0].Tools[0].Scripts; !slices.Equal(scripts, want) {
		t.Errorf("%q ran, want %q", scripts, want)
	}
	has(t, strings.Join(r.Items[0].Notes, ";"), "install scripts of packages ran for npm:scripted: "+want[0])
	out, _ := b.sh("scripted")
	lines := strings.Split(out, "\n")
	if lines[0] != "0" || !slices.Equal(lines[len(lines)-2:], []string{"403", "403"}) {
		t.Errorf("it ran as %s, and was answered %v by metadata and internal hosts", lines[0], lines[len(lines)-2:])
	}
	if strings.Contains(out, "hub_secret") || strings.Contains(out, "TOKEN") {
		t.Errorf("it saw a secret: %s", out)
	}
	// What ran is known still when nothing is installed anew.
	again := b.apply(b.job(item(`, allow_builds = ["scripted"]`)))
	if scripts := again.Items[0].Tools[0].Scripts; !slices.Equal(scripts, want) {
		t.Errorf("afterwards %q are said to have run", scripts)
	}
}
