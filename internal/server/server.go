// Package server is the HTTP edge: it turns requests into calls of the capabilities and their answers into responses, and
// decides nothing itself. What every route needs (decoding, limits, identity, idempotency, problem details, log, metrics)
// belongs to one adapter, so that a handler is a request and a caller in, a response and an error out. Permission checks
// and audit entries are the capabilities'. The OpenAPI document is derived from the handlers.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"enplace"
	"enplace/internal/project"
	"enplace/internal/store"
	"enplace/internal/transcript"
)

// Projects is the capability around environments; *project.Service is it.
type Projects interface {
	Create(context.Context, enplace.Caller, enplace.CreateEnvironment) (enplace.Environment, error)
	List(context.Context, enplace.Caller, enplace.Page) (enplace.List[enplace.Environment], error)
	Get(ctx context.Context, c enplace.Caller, id string) (enplace.Environment, error)
	Update(ctx context.Context, c enplace.Caller, id string, in enplace.UpdateEnvironment) (enplace.Environment, error)
	Delete(ctx context.Context, c enplace.Caller, id string) error
	ListFiles(ctx context.Context, c enplace.Caller, id, prefix string, p enplace.Page) (enplace.List[enplace.TreeEntry], error)
	OpenFile(ctx context.Context, c enplace.Caller, id, path string) (project.File, error)
	PutFile(ctx context.Context, c enplace.Caller, id, path string, content io.Reader, executable bool) (enplace.TreeEntry, bool, error)
	DeleteFile(ctx context.Context, c enplace.Caller, id, path string) error
	ImportArchive(ctx context.Context, c enplace.Caller, id string, archive io.Reader, o project.ImportOptions) (enplace.ImportReport, error)
	ImportGit(ctx context.Context, c enplace.Caller, id string, g enplace.GitSource, o project.ImportOptions) (enplace.ImportReport, error)
	CheckPackage(context.Context, enplace.Caller, enplace.PackageQuery) (enplace.PackageCheck, error)
	Build(ctx context.Context, c enplace.Caller, id string) (enplace.Build, error)
	GetBuild(ctx context.Context, c enplace.Caller, id string, n int, wait time.Duration) (enplace.Build, error)
	ListBuilds(ctx context.Context, c enplace.Caller, id string, p enplace.Page) (enplace.List[enplace.Build], error)
	CancelBuild(ctx context.Context, c enplace.Caller, id string, n int) (enplace.Build, error)
	BuildLog(ctx context.Context, c enplace.Caller, id string, n int) (*transcript.Reader, error)
	ListVersions(ctx context.Context, c enplace.Caller, id string, p enplace.Page) (enplace.List[enplace.VersionSummary], error)
	GetVersion(ctx context.Context, c enplace.Caller, id string, n int) (enplace.Version, error)
	DeleteVersion(ctx context.Context, c enplace.Caller, id string, n int) error
	Activate(ctx context.Context, c enplace.Caller, id string, n int) (enplace.Environment, error)
	Diff(ctx context.Context, c enplace.Caller, id string, from, to int) (enplace.VersionDiff, error)
}

// Tasks is the capability around harnesses and tasks; *task.Service is it.
type Tasks interface {
	CreateHarness(context.Context, enplace.Caller, enplace.CreateHarness) (enplace.Harness, error)
	ListHarnesses(context.Context, enplace.Caller, enplace.Page) (enplace.List[enplace.Harness], error)
	GetHarness(ctx context.Context, c enplace.Caller, id string) (enplace.Harness, error)
	DeleteHarness(ctx context.Context, c enplace.Caller, id string) error
	Create(context.Context, enplace.Caller, enplace.CreateTask) (enplace.Task, error)
	List(context.Context, enplace.Caller, enplace.TaskQuery, enplace.Page) (enplace.List[enplace.Task], error)
	Get(ctx context.Context, c enplace.Caller, id string, wait time.Duration) (enplace.Task, error)
	Cancel(ctx context.Context, c enplace.Caller, id string) (enplace.Task, error)
	Log(ctx context.Context, c enplace.Caller, id string) (*transcript.Reader, error)
	ListFiles(ctx context.Context, c enplace.Caller, id string, p enplace.Page) (enplace.List[enplace.WorkFile], error)
	OpenFile(ctx context.Context, c enplace.Caller, id, path string) (enplace.WorkFile, io.ReadCloser, error)
	Archive(ctx context.Context, c enplace.Caller, id string) (io.ReadCloser, error)
	Exec(ctx context.Context, c enplace.Caller, id string, in enplace.ExecRequest, each func(enplace.ExecEvent) error) (enplace.ExecResult, error)
	Dial(ctx context.Context, c enplace.Caller, id string) (net.Conn, error)
}

// Keys is the capability around API keys; *access.Keys is it.
type Keys interface {
	Create(context.Context, enplace.Caller, enplace.CreateKey) (enplace.Key, error)
	List(context.Context, enplace.Caller, enplace.Page) (enplace.List[enplace.Key], error)
	Revoke(ctx context.Context, c enplace.Caller, id string) (enplace.Key, error)
	Authenticate(ctx context.Context, secret string) (enplace.Caller, error)
}

// Audit lists the record of changes; a store.Store is one.
type Audit interface {
	ListAudit(ctx context.Context, target string, p enplace.Page) (enplace.List[enplace.AuditEntry], error)
}

// Config is what a server stands on.
type Config struct {
	Projects    Projects          // required
	Tasks       Tasks             // required
	Toolchain   Toolchain         // required
	Computers   Computers         // required
	Keys        Keys              // required
	Audit       Audit             // required
	Idempotency store.Idempotency // required

	// Ready gives nil once tasks and builds can run, else why not (an *enplace.Error when a person can mend it). Required.
	Ready func(context.Context) error
	// Status gives what GET /v1/status shows beside the version: anything that encodes as JSON. Default: nothing.
	Status func(context.Context) any

	Logger *slog.Logger     // required
	Quota  Quota            // of each key; default DefaultQuota
	Now    func() time.Time // default time.Now
	// StallTimeout is how long a client may read nothing of an answer. Default: a minute.
	StallTimeout time.Duration
	Version      string               // default "dev"
	Registry     *prometheus.Registry // where metrics are kept, others' too. Default: a new one
	OpenMetrics  bool                 // let /metrics be read without a key
}

// Server is the HTTP edge, an http.Handler. It is safe for concurrent use.
type Server struct {
	cfg     Config
	mux     *http.ServeMux
	api     huma.API
	rules   map[string]rule // by pattern; complete once New has returned
	metrics *metrics
	quotas  *quotas
	stop    context.Context // ends when streams and waits must
	stopped context.CancelCauseFunc
	doc     []byte // the OpenAPI document
}

// New makes a server. It fails when something required is missing.
func New(cfg Config) (*Server, error) {
	for name, missing := range map[string]bool{
		"Projects": cfg.Projects == nil, "Tasks": cfg.Tasks == nil, "Toolchain": cfg.Toolchain == nil, "Computers": cfg.Computers == nil,
		"Keys": cfg.Keys == nil, "Audit": cfg.Audit == nil, "Idempotency": cfg.Idempotency == nil, "Ready": cfg.Ready == nil, "Logger": cfg.Logger == nil,
	} {
		if missing {
			return nil, fmt.Errorf("server: Config.%s is required", name)
		}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.StallTimeout == 0 {
		cfg.StallTimeout = stallTimeout
	}
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	if cfg.Quota == (Quota{}) {
		cfg.Quota = DefaultQuota
	}
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	s := &Server{cfg: cfg, mux: http.NewServeMux(), rules: map[string]rule{}, quotas: newQuotas(cfg.Quota, cfg.Now)}
	s.stop, s.stopped = context.WithCancelCause(context.Background())
	var err error
	if s.metrics, err = newMetrics(cfg.Registry); err != nil {
		return nil, err
	}
	s.api = newAPI(s)
	s.routes()
	s.mux.HandleFunc("/", s.unmatched)
	if s.doc, err = finishDocument(s.api.OpenAPI()); err != nil {
		return nil, err
	}
	return s, nil
}

// errStopping ends streams and waits when the server goes down.
var errStopping = errors.New("the server is stopping")

// HTTP gives an http.Server around s with limits that suit it: none on writing, since logs and archives are streams. Its
// Shutdown ends streams and waits first, and lets other requests finish.
func (s *Server) HTTP() *http.Server {
	h := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelWarn),
	}
	h.RegisterOnShutdown(func() { s.stopped(errStopping) })
	return h
}

// untilStop gives a context that also ends when the server stops, for requests that could go on for long.
func (s *Server) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(s.stop, func() { cancel(errStopping) })
	return ctx, func() { release(); cancel(nil) }
}

// OpenAPI gives the document that /openapi.json answers.
func (s *Server) OpenAPI() []byte { return s.doc }
