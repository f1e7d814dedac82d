package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"enplace"
	"enplace/internal/durable"
	"enplace/internal/project"
	"enplace/internal/sandbox/oci"
	"enplace/internal/server"
	"enplace/internal/toolchain"
)

// serveOptions are the flags of serve.
type serveOptions struct {
	listen       string
	runtime      string
	guest        string
	base         baseOptions
	pythonMirror string
	pythonList   string
	allow        []string
	allowHosts   []string
	deny         []string
	gitHTTP      bool
	buildEgress  string
	buildHosts   []string
	workers      int
	buildLimits  enplace.Limits
	maxTasks     int
	retention    time.Duration
	stepKeep     time.Duration
	collectEvery time.Duration
	spareDisk    int
	pool         int
	logFormat    string
	openMetrics  bool
	quota        server.Quota

	syncEvery      time.Duration
	computerLimits enplace.Limits
	maxComputers   int
	githubToken    string // the file
	idle           time.Duration
	retry          time.Duration
}

func newServe(c *cli) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server: API, builds and tasks in one process, with everything it keeps in one directory.

The first start makes the base system, which takes a few minutes, and writes an operator key to
DIR/operator.key. /readyz answers 200 once tasks and builds can run.`,
		Example: `  enplace serve --data /var/lib/enplace --listen 127.0.0.1:8470
  enplace serve --data /srv/enplace --base oci:registry.example.org/agents/base:2026-11`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.data == "" {
				c.data = defaultData
			}
			return serve(cmd.Context(), c, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:8470", "address to listen on")
	f.StringVar(&o.runtime, "runtime", "runc", "OCI runtime: runc, crun, runsc, or a path")
	f.StringVar(&o.guest, "guest", "", "the folder of enplace-guest and enplace-shim (default: that of this program)")
	o.base.flags(f)
	f.StringVar(&o.pythonMirror, "python-mirror", "", "mirror of uv's managed Pythons")
	f.StringVar(&o.pythonList, "python-list", "", "address of a JSON list of managed Pythons, instead of uv's own")
	f.StringSliceVar(&o.allow, "allow-address", nil, "private address or network that sandboxes may reach all the same, such as 10.1.2.0/24")
	f.StringSliceVar(&o.allowHosts, "allow-host", nil, "host that may stand at a private address, such as your git server or mirror")
	f.StringSliceVar(&o.deny, "deny-address", nil, "address or network that nothing may reach, whatever else is allowed")
	f.BoolVar(&o.gitHTTP, "git-http", false, "also import git repositories by http://")
	f.StringVar(&o.buildEgress, "build-egress", string(enplace.EgressOpen), "what builds may reach: open, allowlist or none")
	f.StringSliceVar(&o.buildHosts, "build-host", nil, "host that builds may reach under --build-egress allowlist")
	f.IntVar(&o.workers, "builds", 2, "builds at once")
	f.IntVar(&o.buildLimits.TimeoutSeconds, "build-timeout", enplace.DefaultBuildLimits.TimeoutSeconds, "seconds that a build may take")
	f.IntVar(&o.buildLimits.MemoryMiB, "build-memory", enplace.DefaultBuildLimits.MemoryMiB, "MiB of memory that a build may use")
	f.IntVar(&o.buildLimits.DiskMiB, "build-disk", enplace.DefaultBuildLimits.DiskMiB, "MiB that a build may write")
	f.IntVar(&o.maxTasks, "tasks", 400, "tasks at once; more wait")
	f.IntVar(&o.spareDisk, "disk-spare", 1024, "MiB of the disk that are kept free: below them no task, build or import starts")
	f.DurationVar(&o.retention, "retention", enplace.DefaultTaskRetention, "how long logs and files of ended tasks are kept")
	f.DurationVar(&o.stepKeep, "step-retention", project.DefaultStepRetention, "how long results of build steps are kept that no version and no build uses")
	f.DurationVar(&o.collectEvery, "collect-every", project.DefaultCollectEvery, "how often what nothing needs any more is removed")
	f.IntVar(&o.pool, "pool", 8, "sandboxes held ready for each root, at most")
	f.DurationVar(&o.syncEvery, "sync-every", toolchain.DefaultSyncEvery, "how often plugins of git repositories are synced; negative for never")
	f.IntVar(&o.maxComputers, "computers", 200, "computers of people and rooms that run at once")
	f.DurationVar(&o.idle, "computer-idle", enplace.DefaultIdle, "how long a computer may be unused before it is stopped; its files are kept")
	f.IntVar(&o.computerLimits.MemoryMiB, "computer-memory", enplace.DefaultComputerLimits.MemoryMiB, "MiB of memory that a computer may use")
	f.IntVar(&o.computerLimits.DiskMiB, "computer-disk", enplace.DefaultComputerLimits.DiskMiB, "MiB that a computer may write, for those made from now on")
	f.DurationVar(&o.retry, "set-retry", enplace.FailedRetry, "after which time a failed set is tried again by itself")
	f.StringVar(&o.githubToken, "github-token-file", "", "file with a token for GitHub, by which bundles fetch releases; give it no permissions, and nobody else the file")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
	f.Float64Var(&o.quota.PerSecond, "key-rate", server.DefaultQuota.PerSecond, "requests a second that one key may send")
	f.IntVar(&o.quota.Burst, "key-burst", server.DefaultQuota.Burst, "requests that one key may send at once, after a pause")
	f.IntVar(&o.quota.AtOnce, "key-requests", server.DefaultQuota.AtOnce, "requests that one key may have under way, waits and streams among them")
	f.BoolVar(&o.openMetrics, "open-metrics", false, "let /metrics be read without a key")
	return cmd
}

// check refuses times that would have no end, or none at all.
func (o serveOptions) check() error {
	if min(o.collectEvery, o.stepKeep, o.retention, o.idle, o.retry) <= 0 {
		return useError{errors.New("--collect-every, --step-retention, --retention, --computer-idle and --set-retry take a time above zero, such as 1h")}
	}
	return nil
}

// serve runs the server until ctx ends.
func serve(ctx context.Context, c *cli, o serveOptions) error {
	if os.Getuid() != 0 {
		return enplace.Errorf(enplace.KindUnavailable, "the server mounts images and starts sandboxes, so it runs as root").WithFix("sudo enplace serve …")
	}
	if err := oci.OwnMounts(); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	logger, err := newLogger(c, o.logFormat)
	if err != nil {
		return err
	}
	lock, err := openData(c.data)
	if err != nil {
		return err
	}
	defer lock.Close()
	a, err := assemble(ctx, c.data, o, logger)
	if err != nil {
		return err
	}
	defer a.close()

	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return enplace.Errorf(enplace.KindUnavailable, "cannot listen on %s", o.listen).WithCause(err).WithFix("choose another address with --listen")
	}
	if err := durable.WriteFile(filepath.Join(c.data, addressFile), []byte(ln.Addr().String()+"\n"), 0o600); err != nil {
		return err
	}
	logger.Info("listening", "address", ln.Addr().String(), "data", c.data, "version", version)
	return a.answer(ctx, ln)
}

// answer answers requests until ctx ends. What is needed for all but a few of them starts beside.
func (a *app) answer(ctx context.Context, ln net.Listener) (err error) {
	web := a.server.HTTP()
	web.Handler = withMCP(web.Handler, a, ln)
	failed, started := make(chan error, 2), make(chan struct{})
	starting, giveUp := context.WithCancel(ctx)
	go func() { failed <- web.Serve(ln) }()
	go func() {
		defer close(started)
		if err := a.start(starting); err != nil {
			failed <- err
		}
	}()
	defer func() { // what it has begun is to be stopped, and what it makes removed
		giveUp()
		<-started
	}()
	select {
	case <-ctx.Done():
		a.log.Info("stopping")
	case err = <-failed:
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
	}
	drain, done := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer done()
	if down := web.Shutdown(drain); down != nil {
		a.log.Warn("some requests were cut off", "err", down)
	}
	return err
}

func newLogger(c *cli, format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(c.err, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(c.err, nil)), nil
	}
	return nil, useError{fmt.Errorf("--log-format %s: there are text and json", format)}
}

// openData makes the data directory and takes its lock, which lasts as long as the file is open.
func openData(dir string) (*os.File, error) {
	// Others may pass through, as the sandboxes' own users must; they can list nothing, and what is below is closed.
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, enplace.Errorf(enplace.KindUnavailable, "cannot make the data directory %s", dir).WithCause(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of %s: %w", dir, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, enplace.Conflictf("another server uses %s", dir).WithFix("stop it, or choose another directory with --data")
	}
	if err := durable.Clear(dir); err != nil {
		lock.Close()
		return nil, fmt.Errorf("clearing what was never finished in %s: %w", dir, err)
	}
	return lock, nil
}

// prefixes reads addresses and networks.
func prefixes(flag string, list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range list {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked())
			continue
		}
		a, err := netip.ParseAddr(s)
		if err != nil {
			return nil, useError{fmt.Errorf("%s %s: not an address or network", flag, s)}
		}
		out = append(out, netip.PrefixFrom(a, a.BitLen()))
	}
	return out, nil
}
