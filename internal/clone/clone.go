// Package clone fetches git repositories in sandboxes of their own: what a stranger's repository makes git do, it does there.
// It is apart from source, which knows git's words and no sandbox, and from the capabilities, which fetch alike.
package clone

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"enplace"
	"enplace/internal/sandbox"
	"enplace/internal/source"
)

const (
	deadline = 10 * time.Minute
	atOnce   = 8 // each has a sandbox, beside those of tasks and builds
)

// Config is what a Cloner needs. All fields are required.
type Config struct {
	Runtime   sandbox.Runtime
	Base      func() (enplace.Digest, bool) // the root of the sandboxes; false while it is being made
	Egress    enplace.Egress
	AllowHTTP bool // also take http:// URLs, for a host inside the site
	Logger    *slog.Logger
	Now       func() time.Time
}

// Cloner fetches repositories. It is safe for concurrent use.
type Cloner struct {
	cfg   Config
	under chan struct{} // holds one for each fetch under way
}

// New makes a Cloner.
func New(cfg Config) *Cloner { return &Cloner{cfg: cfg, under: make(chan struct{}, atOnce)} }

// Check refuses a source that Fetch would refuse before it runs anything.
func (c *Cloner) Check(g enplace.GitSource) error { return source.CheckGit(g, c.options()) }

func (c *Cloner) options() source.GitOptions { return source.GitOptions{AllowHTTP: c.cfg.AllowHTTP} }

// Fetch gives the files of a repository at a ref. Errors for people are those of source.Git, and of kind busy when as many as
// the limit are under way, upstream when the repository did not arrive in time, and unavailable without a base.
func (c *Cloner) Fetch(ctx context.Context, g enplace.GitSource, sink source.Sink) (source.Result, error) {
	return c.FetchPart(ctx, g, source.Part{}, sink)
}

// FetchPart gives a part of the files, as Fetch does all.
func (c *Cloner) FetchPart(ctx context.Context, g enplace.GitSource, part source.Part, sink source.Sink) (source.Result, error) {
	if err := c.Check(g); err != nil {
		return source.Result{}, err
	}
	base, ok := c.cfg.Base()
	if !ok {
		return source.Result{}, enplace.Errorf(enplace.KindUnavailable, "the base system is not there yet").
			WithFix("wait for /readyz, or run enplace base build on the server")
	}
	select {
	case c.under <- struct{}{}:
		defer func() { <-c.under }()
	default:
		return source.Result{}, enplace.Errorf(enplace.KindBusy, "%d repositories are being imported, the limit; try again in a moment", atOnce)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, enplace.Errorf(enplace.KindUpstream, "the repository did not arrive within %s; try again, or import an archive of it", deadline))
	defer cancel()
	res, err := c.fetch(ctx, base, g, part, sink)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return res, err
}

func (c *Cloner) fetch(ctx context.Context, base enplace.Digest, g enplace.GitSource, part source.Part, sink source.Sink) (source.Result, error) {
	box, err := c.cfg.Runtime.Start(ctx, sandbox.Spec{
		ID: enplace.NewID("git", c.cfg.Now()), Root: []enplace.Digest{base},
		Limits: enplace.Limits{DiskMiB: enplace.DefaultTaskLimits.DiskMiB}.Or(enplace.DefaultTaskLimits), Egress: c.cfg.Egress,
	})
	if err != nil {
		return source.Result{}, fmt.Errorf("starting the sandbox of a git import: %w", err)
	}
	defer func() {
		if err := box.Stop(context.WithoutCancel(ctx)); err != nil {
			c.cfg.Logger.Error("stopping the sandbox of a git import", "err", err)
		}
	}()
	run := func(ctx context.Context, argv, env []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
		exit, err := box.Exec(ctx, sandbox.Command{Argv: argv, Env: append(sandbox.BaseEnv(), env...), Dir: enplace.WorkDir,
			Stdin: stdin, Stdout: stdout, Stderr: stderr})
		return exit.Code, err
	}
	o := c.options()
	o.Part = part
	return source.Git(ctx, run, g, sink, o)
}
