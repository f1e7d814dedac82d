package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/audit"
	"enplace/internal/base"
	"enplace/internal/blob/dir"
	"enplace/internal/clock"
	"enplace/internal/clone"
	"enplace/internal/computer"
	"enplace/internal/durable"
	"enplace/internal/egress"
	"enplace/internal/image"
	"enplace/internal/pkgindex"
	"enplace/internal/project"
	"enplace/internal/redact"
	"enplace/internal/sandbox"
	"enplace/internal/sandbox/oci"
	"enplace/internal/seal"
	"enplace/internal/server"
	"enplace/internal/store"
	"enplace/internal/store/sqlite"
	"enplace/internal/task"
	"enplace/internal/toolchain"
)

// app is the whole server, put together.
type app struct {
	data      string
	log       *slog.Logger
	clock     *clock.Clock
	store     store.Store
	keys      *access.Keys
	base      *base.Builder
	runtime   sandbox.Runtime
	projects  *project.Service
	tasks     *task.Service
	toolchain *toolchain.Service
	computers *computer.Service
	server    *server.Server
	closers   []func() error // called last to first

	current atomic.Pointer[base.Base]
	state   atomic.Pointer[error] // why it is not ready; nil inside when it is
}

// warmAtStart is how many sandboxes of the bare base are held ready before anyone has asked.
const warmAtStart = 2

// assemble opens what the server keeps and puts its parts together. It runs nothing yet.
func assemble(ctx context.Context, data string, o serveOptions, log *slog.Logger) (_ *app, err error) {
	a := &app{data: data, log: log, clock: clock.New(log)}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	starting := error(enplace.Errorf(enplace.KindUnavailable, "the server is starting"))
	a.state.Store(&starting)

	st, err := sqlite.Open(ctx, filepath.Join(data, databaseFile))
	if err != nil {
		return nil, err
	}
	a.store = st
	a.closers = append(a.closers, st.Close)
	blobs, err := dir.Open(filepath.Join(data, "blobs"))
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, blobs.Close)
	images, err := image.Open(filepath.Join(data, "images"))
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, images.Close)
	if a.base, err = o.base.builder(data, images, log); err != nil {
		return nil, err
	}
	if err := laterIDs(ctx, st); err != nil {
		return nil, err
	}
	trail := audit.New(st, log, a.clock.Now)
	a.keys = access.NewKeys(st, st, a.clock.Now, trail)
	a.closers = append(a.closers, a.keys.Close)
	if err := a.operatorKey(ctx); err != nil {
		return nil, err
	}
	proxy, err := o.proxy(log)
	if err != nil {
		return nil, err
	}
	if err := a.sandboxes(ctx, o, images, proxy); err != nil {
		return nil, err
	}
	return a, a.capabilities(o, blobs, images, proxy, trail)
}

// laterIDs has the ids of this process sort after those of earlier ones.
func laterIDs(ctx context.Context, trail store.Audit) error {
	last, err := trail.ListAudit(ctx, "", enplace.Page{Limit: 1})
	if err != nil {
		return fmt.Errorf("reading the last record of the audit: %w", err)
	}
	for _, e := range last.Items {
		enplace.IDsAfter(e.ID) // every thing that has an id has a record that is later
	}
	return nil
}

// proxy makes the one way out of sandboxes.
func (o serveOptions) proxy(log *slog.Logger) (*egress.Proxy, error) {
	allow, err := prefixes("--allow-address", o.allow)
	if err != nil {
		return nil, err
	}
	deny, err := prefixes("--deny-address", o.deny)
	if err != nil {
		return nil, err
	}
	return egress.New(egress.Config{Allow: allow, AllowHosts: o.allowHosts, Deny: deny, Logger: log}), nil
}

// operatorKey writes the first operator key where only root can read it.
func (a *app) operatorKey(ctx context.Context) error {
	path := filepath.Join(a.data, keyFile)
	made, err := a.keys.Bootstrap(ctx, func(secret string) error { return durable.WriteFile(path, []byte(secret+"\n"), 0o600) })
	if err != nil {
		return fmt.Errorf("making the operator key: %w", err)
	}
	if made {
		a.log.Info("operator key written", "file", path)
	}
	return nil
}

func (a *app) sandboxes(ctx context.Context, o serveOptions, images *image.Store, proxy *egress.Proxy) error {
	guest := o.guest
	if guest == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding this program: %w", err)
		}
		guest = filepath.Dir(self)
	}
	for _, program := range []string{"enplace-guest", "enplace-shim"} {
		if _, err := os.Stat(filepath.Join(guest, program)); err != nil {
			return enplace.Errorf(enplace.KindUnavailable, "there is no %s in %s", program, guest).
				WithFix("put enplace-guest and enplace-shim beside enplace (make build makes all three), or name their folder with --guest")
		}
	}
	pool := o.pool
	if pool <= 0 {
		pool = -1
	}
	spare := int64(o.spareDisk) << 20
	if spare <= 0 {
		spare = -1
	}
	rt, err := oci.New(ctx, oci.Config{
		Dir: filepath.Join(a.data, "sandboxes"), Runtime: o.runtime, Guest: guest, Images: images, Egress: proxy, CABundle: caBundle,
		PoolMax: pool, Spare: spare, Logger: a.log, Now: time.Now,
	})
	if err != nil {
		return err
	}
	a.runtime = rt
	a.closers = append(a.closers, func() error { return rt.Close(context.Background()) })
	return nil
}

// caBundle is where Debian keeps the trusted certificates, the operator's among them.
const caBundle = "/etc/ssl/certs/ca-certificates.crt"

func (a *app) capabilities(o serveOptions, blobs *dir.Store, images *image.Store, proxy *egress.Proxy, trail *audit.Log) error {
	scratch := filepath.Join(a.data, "scratch")
	if err := errors.Join(os.RemoveAll(scratch), os.MkdirAll(scratch, 0o700)); err != nil {
		return fmt.Errorf("clearing %s: %w", scratch, err)
	}
	build := enplace.Egress{Policy: enplace.EgressPolicy(o.buildEgress), Hosts: o.buildHosts}
	if err := errors.Join(build.Check(""), o.buildLimits.Check()); err != nil {
		return err
	}
	secrets := redact.New()
	git := clone.New(clone.Config{
		Runtime: a.runtime, Egress: enplace.Egress{Policy: enplace.EgressOpen}, AllowHTTP: o.gitHTTP, Logger: a.log, Now: time.Now,
		Base: func() (enplace.Digest, bool) {
			b, ok := a.baseNow()
			return b.Digest, ok
		},
	})
	a.projects = project.New(project.Config{
		Store: a.store, Blobs: blobs, Images: images, Runtime: a.runtime, Base: a.baseNow, Audit: trail, Redact: secrets, Logger: a.log, Now: a.clock.Now, Settled: a.clock.Settled,
		Index:  pkgindex.New(o.base.index(filepath.Join(a.data, "pkgindex"), a.base.Archives(), proxy)),
		LogDir: filepath.Join(a.data, "logs", "builds"), Scratch: scratch, Workers: o.workers, BuildLimits: o.buildLimits, BuildEgress: build, Git: git,
		CollectEvery: o.collectEvery, StepRetention: o.stepKeep,
		Registries: project.Registries{PyPI: o.base.pypi, NPM: o.base.npm, PythonMirror: o.pythonMirror, PythonList: o.pythonList},
	})
	a.tasks = task.New(task.Config{
		Store: a.store, Runtime: a.runtime, Base: a.baseNow, Audit: trail, Redact: secrets, Logger: a.log, Now: a.clock.Now, Settled: a.clock.Settled,
		LogDir: filepath.Join(a.data, "logs", "tasks"), MaxRunning: o.maxTasks, Retention: o.retention,
	})
	if err := a.toolchains(o, blobs, git, scratch, trail); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "enplace_sandboxes", Help: "Sandboxes that have an owner."},
			func() float64 { return float64(len(a.runtime.List())) }))
	var err error
	a.server, err = server.New(server.Config{
		Projects: a.projects, Tasks: a.tasks, Toolchain: a.toolchain, Computers: a.computers, Keys: a.keys, Audit: a.store, Idempotency: a.store, Ready: a.ready, Logger: a.log, Now: a.clock.Steady,
		Version: version, Registry: registry, OpenMetrics: o.openMetrics, Quota: o.quota,
		Status: func(context.Context) any {
			b, _ := a.baseNow()
			return map[string]any{"base": b, "sandboxes": len(a.runtime.List())}
		},
	})
	return err
}

// toolchains makes the capabilities around what is declared, and the computers that it is brought onto.
func (a *app) toolchains(o serveOptions, blobs *dir.Store, git *clone.Cloner, scratch string, trail *audit.Log) error {
	sealer, err := seal.Open(filepath.Join(a.data, "keychain.key"))
	if err != nil {
		return err
	}
	token, err := readToken(o.githubToken)
	if err != nil {
		return err
	}
	a.toolchain = toolchain.New(toolchain.Config{
		Store: a.store, Blobs: blobs, Git: git, Runtime: a.runtime, Base: a.baseNow, Sealer: sealer, Audit: trail, Logger: a.log, Now: a.clock.Now, Settled: a.clock.Settled,
		Retire: a.keys.Retire, GitHubToken: token,
		LogDir: filepath.Join(a.data, "logs", "sets"), Scratch: scratch, Limits: o.buildLimits, SyncEvery: o.syncEvery,
	})
	a.computers = computer.New(computer.Config{
		Store: a.store, Toolchain: a.toolchain, Runtime: a.runtime, Audit: trail, Logger: a.log, Now: a.clock.Now,
		LogDir: filepath.Join(a.data, "logs", "computers"), Limits: o.computerLimits, Idle: o.idle, Retry: o.retry, MaxRunning: o.maxComputers,
	})
	return nil
}

// baseNow gives the base that new work starts from.
func (a *app) baseNow() (base.Base, bool) {
	if b := a.current.Load(); b != nil {
		return *b, true
	}
	return base.Base{}, false
}

// ready says whether tasks and builds can run.
func (a *app) ready(ctx context.Context) error {
	if err := *a.state.Load(); err != nil {
		return err
	}
	return a.store.Ping(ctx)
}

// start settles what an earlier process left, makes the base, and runs what is queued.
func (a *app) start(ctx context.Context) error {
	if err := a.runtime.Recover(ctx, a.tasks.Keeps); err != nil {
		return fmt.Errorf("settling what an earlier server left: %w", err)
	}
	if err := a.store.ForgetRequests(ctx, time.Now().Add(-enplace.IdempotencyRetention), true); err != nil {
		return fmt.Errorf("settling requests: %w", err)
	}
	making := error(enplace.Errorf(enplace.KindUnavailable, "the base system is being made; this takes a few minutes, once").WithFix("follow the server's log"))
	a.state.Store(&making)
	b, err := a.base.Ensure(ctx, &lineLog{log: a.log})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("making the base: %w", err)
	}
	a.current.Store(&b)
	a.log.Info("base", "digest", b.Digest, "python", b.Python, "node", b.Node)
	a.runtime.Warm([]enplace.Digest{b.Digest}, warmAtStart)
	if err := errors.Join(a.projects.Start(ctx), a.tasks.Start(ctx), a.toolchain.Start(ctx), a.computers.Start(ctx)); err != nil {
		return err
	}
	var ready error
	a.state.Store(&ready)
	a.log.Info("ready")
	return nil
}

// close stops tasks and builds, then closes what was opened, last to first.
func (a *app) close() {
	if a.computers != nil {
		a.computers.Close()
	}
	if a.toolchain != nil {
		a.toolchain.Close()
	}
	if a.tasks != nil {
		a.tasks.Close()
	}
	if a.projects != nil {
		a.projects.Close()
	}
	for i := len(a.closers) - 1; i >= 0; i-- {
		if err := a.closers[i](); err != nil {
			a.log.Error("closing", "err", err)
		}
	}
}

// lineLog writes the lines of a program's progress to the log.
type lineLog struct {
	log  *slog.Logger
	rest []byte
}

func (l *lineLog) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		if i > 0 {
			l.log.Info("base: " + string(l.rest[:i]))
		}
		l.rest = l.rest[i+1:]
	}
}
