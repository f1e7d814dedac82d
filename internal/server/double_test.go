package server_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace"
	"enplace/client"
	"enplace/internal/project"
	"enplace/internal/server"
	"enplace/internal/store/sqlite"
	"enplace/internal/transcript"
)

// The doubles stand where the capabilities do: what the edge makes of a request and of an answer is tested against them,
// and what a capability decides is tested elsewhere. A method that a test does not set panics.

type projects struct {
	server.Projects
	create       func(enplace.CreateEnvironment) (enplace.Environment, error)
	update       func(string, enplace.UpdateEnvironment) (enplace.Environment, error)
	list         func(enplace.Page) (enplace.List[enplace.Environment], error)
	get          func(string) (enplace.Environment, error)
	listFiles    func(string, enplace.Page) (enplace.List[enplace.TreeEntry], error)
	openFile     func(string) (project.File, error)
	putFile      func(string, io.Reader, bool) (enplace.TreeEntry, bool, error)
	importTar    func(io.Reader, project.ImportOptions) (enplace.ImportReport, error)
	importGit    func(enplace.GitSource, project.ImportOptions) (enplace.ImportReport, error)
	checkPackage func(enplace.PackageQuery) (enplace.PackageCheck, error)
	build        func() (enplace.Build, error)
	getBuild     func(context.Context, int, time.Duration) (enplace.Build, error)
	buildLog     func() (*transcript.Reader, error)
}

func (p *projects) Create(_ context.Context, _ enplace.Caller, in enplace.CreateEnvironment) (enplace.Environment, error) {
	return p.create(in)
}
func (p *projects) Update(_ context.Context, _ enplace.Caller, id string, in enplace.UpdateEnvironment) (enplace.Environment, error) {
	return p.update(id, in)
}
func (p *projects) List(_ context.Context, _ enplace.Caller, page enplace.Page) (enplace.List[enplace.Environment], error) {
	return p.list(page)
}
func (p *projects) Get(_ context.Context, _ enplace.Caller, id string) (enplace.Environment, error) {
	return p.get(id)
}
func (p *projects) ListFiles(_ context.Context, _ enplace.Caller, _, prefix string, page enplace.Page) (enplace.List[enplace.TreeEntry], error) {
	return p.listFiles(prefix, page)
}
func (p *projects) OpenFile(_ context.Context, _ enplace.Caller, _, path string) (project.File, error) {
	return p.openFile(path)
}
func (p *projects) PutFile(_ context.Context, _ enplace.Caller, _, path string, r io.Reader, executable bool) (enplace.TreeEntry, bool, error) {
	return p.putFile(path, r, executable)
}
func (p *projects) ImportArchive(_ context.Context, _ enplace.Caller, _ string, r io.Reader, o project.ImportOptions) (enplace.ImportReport, error) {
	return p.importTar(r, o)
}
func (p *projects) ImportGit(_ context.Context, _ enplace.Caller, _ string, g enplace.GitSource, o project.ImportOptions) (enplace.ImportReport, error) {
	return p.importGit(g, o)
}
func (p *projects) CheckPackage(_ context.Context, _ enplace.Caller, q enplace.PackageQuery) (enplace.PackageCheck, error) {
	return p.checkPackage(q)
}
func (p *projects) Build(context.Context, enplace.Caller, string) (enplace.Build, error) {
	return p.build()
}
func (p *projects) GetBuild(ctx context.Context, _ enplace.Caller, _ string, n int, wait time.Duration) (enplace.Build, error) {
	return p.getBuild(ctx, n, wait)
}
func (p *projects) BuildLog(context.Context, enplace.Caller, string, int) (*transcript.Reader, error) {
	return p.buildLog()
}

type tasks struct {
	server.Tasks
	create   func(enplace.Caller, enplace.CreateTask) (enplace.Task, error)
	list     func(enplace.TaskQuery) (enplace.List[enplace.Task], error)
	get      func(context.Context, time.Duration) (enplace.Task, error)
	openFile func(string) (enplace.WorkFile, io.ReadCloser, error)
	archive  func() (io.ReadCloser, error)
	exec     func(context.Context, enplace.ExecRequest, func(enplace.ExecEvent) error) (enplace.ExecResult, error)
	dial     func() (net.Conn, error)
	harness  func(enplace.CreateHarness) (enplace.Harness, error)
}

func (d *tasks) CreateHarness(_ context.Context, _ enplace.Caller, in enplace.CreateHarness) (enplace.Harness, error) {
	return d.harness(in)
}
func (d *tasks) Create(_ context.Context, c enplace.Caller, in enplace.CreateTask) (enplace.Task, error) {
	return d.create(c, in)
}
func (d *tasks) List(_ context.Context, _ enplace.Caller, f enplace.TaskQuery, _ enplace.Page) (enplace.List[enplace.Task], error) {
	return d.list(f)
}
func (d *tasks) Get(ctx context.Context, _ enplace.Caller, _ string, wait time.Duration) (enplace.Task, error) {
	return d.get(ctx, wait)
}
func (d *tasks) OpenFile(_ context.Context, _ enplace.Caller, _, path string) (enplace.WorkFile, io.ReadCloser, error) {
	return d.openFile(path)
}
func (d *tasks) Archive(context.Context, enplace.Caller, string) (io.ReadCloser, error) {
	return d.archive()
}
func (d *tasks) Exec(ctx context.Context, _ enplace.Caller, _ string, in enplace.ExecRequest, each func(enplace.ExecEvent) error) (enplace.ExecResult, error) {
	return d.exec(ctx, in, each)
}
func (d *tasks) Dial(context.Context, enplace.Caller, string) (net.Conn, error) { return d.dial() }

const (
	operatorKey = "enp_operator"
	personKey   = "enp_alice"
)

type keys struct{ server.Keys }

func (keys) Authenticate(_ context.Context, secret string) (enplace.Caller, error) {
	switch secret {
	case operatorKey:
		return enplace.Caller{KeyID: "key_1", Kind: enplace.KeyOperator}, nil
	case personKey:
		return enplace.Caller{KeyID: "key_2", Kind: enplace.KeyPerson, Subject: "alice"}, nil
	}
	return enplace.Caller{}, enplace.Errorf(enplace.KindUnauthenticated, "this key is not known").WithFix("check ENPLACE_KEY")
}

func (keys) Create(_ context.Context, _ enplace.Caller, in enplace.CreateKey) (enplace.Key, error) {
	return enplace.Key{ID: "key_3", Name: in.Name, Kind: in.Kind, Secret: "enp_new"}, nil
}

// bench is a server around doubles, with a client of the operator's.
type bench struct {
	projects  projects
	tasks     tasks
	toolchain toolchain
	computers computers
	ready     error
	log       syncBuffer
	srv       *server.Server
	url       string
	client    *client.Client
}

func start(t testing.TB, change ...func(*server.Config)) *bench {
	t.Helper()
	b := &bench{}
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "enplace.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	cfg := server.Config{
		Projects: &b.projects, Tasks: &b.tasks, Toolchain: &b.toolchain, Computers: &b.computers, Keys: keys{}, Audit: st, Idempotency: st,
		Ready: func(context.Context) error { return b.ready }, Version: "1.0.0",
		Logger: slog.New(slog.NewJSONHandler(&b.log, nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	if b.srv, err = server.New(cfg); err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(b.srv)
	t.Cleanup(ts.Close)
	b.url = ts.URL
	b.client = b.as(t, operatorKey)
	return b
}

func (b *bench) as(t testing.TB, key string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: b.url, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// request makes a request with the operator's key; headers come in pairs, and an empty value takes one off.
func (b *bench) request(t testing.TB, method, path string, body io.Reader, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operatorKey)
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: reading the answer: %v", method, path, err)
	}
	return resp, string(got)
}

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// file is content that can be sought.
type file struct{ *strings.Reader }

func (file) Close() error { return nil }
