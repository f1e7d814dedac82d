package faulttest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	"enplace"
	"enplace/client"
)

// shop serves programs to mise's http backend, so that tools cost nothing and fail when they are to: NAME-VERSION.tgz holds one
// that prints its version.
type shop struct {
	url string

	mu    sync.Mutex
	shut  bool            // nothing is there
	slow  map[string]bool // those whose archive never comes
	asked chan string     // gets the name of each that was asked for, where somebody listens
}

// shopAddress is one of the loopback that is not the sandbox's own: what is asked for there goes through the proxy.
const shopAddress = "127.0.0.7"

// ofShop is what a server needs to let sandboxes into the shop.
var ofShop = []string{"--allow-address", shopAddress + "/32"}

func newShop(t *testing.T) *shop {
	t.Helper()
	l, err := net.Listen("tcp", shopAddress+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{slow: map[string]bool{}, asked: make(chan string, 100)}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: s}}
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.url = server.URL
	return s
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, version, _ := strings.Cut(strings.TrimSuffix(path.Base(r.URL.Path), ".tgz"), "-")
	s.mu.Lock()
	shut, slow := s.shut, s.slow[name]
	s.mu.Unlock()
	select {
	case s.asked <- name:
	default:
	}
	if shut {
		http.NotFound(w, r)
		return
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	tw := tar.NewWriter(z)
	program := "#!/bin/sh\necho " + version + "\n"
	_ = tw.WriteHeader(&tar.Header{Name: "bin/" + name, Mode: 0o755, Size: int64(len(program))}) // to memory
	_, _ = tw.Write([]byte(program))
	_ = tw.Close()
	_ = z.Close()
	if slow { // the first bytes of an archive, and then none
		w.Header().Set("Content-Length", fmt.Sprint(b.Len()))
		_, _ = w.Write(b.Bytes()[:20])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	_, _ = w.Write(b.Bytes())
}

func (s *shop) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// folder is an item as a plugin has it.
type folder struct {
	script string // what its setup.sh does before it writes its program; with writes, it has one
	writes bool
	tool   string // with its version, in a mise.toml
	option string // of the tool
	broken bool   // its mise.toml is none
	nonce  int    // tells versions of a script from each other
}

// program is the name of what an item's script writes into /usr/local/bin.
func program(scope enplace.Scope, key string) string {
	return strings.NewReplacer(":", "-").Replace(string(scope)) + "-" + key
}

// setup gives the item's setup.sh: it writes a program that prints the hash of the script that wrote it.
func (f folder) setup(scope enplace.Scope, key string) string {
	return fmt.Sprintf("#!/bin/sh\nset -eu\n# version %d\n%s\nto=/usr/local/bin/%s\nprintf '#!/bin/sh\\necho %%s\\n' $(sha256sum <\"$0\" | cut -d' ' -f1) >$to.new\nchmod +x $to.new\nmv $to.new $to\n",
		f.nonce, f.script, program(scope, key))
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// plugin is what is attached to a scope.
type plugin struct {
	scope enplace.Scope
	id    string
	items map[string]folder
}

func (p *plugin) archive() *bytes.Buffer {
	files := map[string]string{}
	for key, f := range p.items {
		in := "environments/" + key + "/"
		files[in+"environment.json"] = fmt.Sprintf(`{"name": %q, "description": "An item of %s."}`, key, p.scope)
		if f.writes {
			files[in+"setup.sh"] = f.setup(p.scope, key)
		}
		if f.tool != "" {
			name, version, _ := strings.Cut(f.tool, "@")
			files[in+"mise.toml"] = fmt.Sprintf("[tools]\n%q = {version = %q%s}\n", name, version, f.option)
		}
		if f.broken {
			files[in+"mise.toml"] = "[tools\n"
		}
	}
	return tarOf(files)
}

// attach attaches a plugin; sync replaces its content.
func (p *plugin) attach(ctx context.Context, c *client.Client) error {
	made, err := c.CreatePluginArchive(ctx, p.scope, "soak", p.archive())
	p.id = made.ID
	return err
}

func (p *plugin) sync(ctx context.Context, c *client.Client) error {
	_, err := c.SyncPluginArchive(ctx, p.id, p.archive())
	return err
}

// from gives the version of a tool of the shop.
func (s *shop) from(name, version string) folder {
	return folder{tool: "http:" + name + "@" + version, option: fmt.Sprintf(", url = \"%s/%s-{{version}}.tgz\"", s.url, name)}
}

// direct makes a person with a conversation of the same name.
func direct(ctx context.Context, t *testing.T, c *client.Client, login string) {
	t.Helper()
	if _, err := c.PutPerson(ctx, login); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutConversation(ctx, login, enplace.PutConversation{Kind: enplace.ConversationDirect, Person: login}); err != nil {
		t.Fatal(err)
	}
}

// script gives a command for a conversation's computer.
func script(text string) enplace.ConversationExec {
	return enplace.ConversationExec{ExecRequest: enplace.ExecRequest{Command: []string{"sh", "-c", text}, Timeout: 240}, Trigger: enplace.TriggerAgent}
}
