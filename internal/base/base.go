package base

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"enplace"
	"enplace/internal/durable"
	"enplace/internal/image"
)

// Config says what the base is made of and where it is kept.
type Config struct {
	Dir    string       // required; the record, the downloads and the root that is being made; others must be able to pass (0711)
	Images *image.Store // required

	Source     Source   // default Debian
	Suite      string   // default "stable", which is the release that this version of Enplace is made for
	Mirror     string   // default deb.debian.org
	Security   string   // mirror of the security archive; default Mirror + "-security"; "none" for none
	Components []string // default main
	PyPI       string   // simple index that uv comes from; default pypi.org
	NPM        string   // registry that npm and mise come from; default registry.npmjs.org
	Tools      []Tool   // default DefaultTools of this machine; empty and not nil for none

	// ExtraCAs are PEM files that the sandboxes trust besides the usual authorities. Nil means those that the host's
	// administrator added, /usr/local/share/ca-certificates/*.crt.
	ExtraCAs []string

	Runtime string       // runc, or what takes its place; default "runc"
	Logger  *slog.Logger // default discards
}

// Base is a base as it was made.
type Base struct {
	Digest     enplace.Digest `json:"digest"`
	Key        string         `json:"key"`    // hash of what it was made from
	Source     string         `json:"source"` // an OCI reference with the digest it stood for
	Suite      string         `json:"suite,omitempty"`
	Mirror     string         `json:"mirror,omitempty"`
	Components []string       `json:"components,omitempty"`
	Arch       string         `json:"arch"`

	// The versions that the programs of those names gave inside; empty when there is no such program.
	Python string `json:"python"`
	Node   string `json:"node"`
	NPM    string `json:"npm"`
	UV     string `json:"uv"`
	Mise   string `json:"mise"`
	Git    string `json:"git"`

	Warnings  []string      `json:"warnings,omitempty"`
	Bytes     int64         `json:"bytes"` // of the image
	Files     int           `json:"files"`
	Took      time.Duration `json:"took_ns"`
	CreatedAt time.Time     `json:"created_at"`
}

// Builder makes the base. It is safe for concurrent use, by several processes too: one makes it, the others wait.
type Builder struct {
	cfg Config
}

const (
	// DefaultMirror is where Debian comes from when the configuration names no other.
	DefaultMirror = "http://deb.debian.org/debian"
	defaultPyPI   = "https://pypi.org/simple"
	defaultNPM    = "https://registry.npmjs.org"
	noSecurity    = "none"
	hostCAs       = "/usr/local/share/ca-certificates/*.crt"
)

// New fills in the defaults and checks the configuration. It makes nothing.
func New(cfg Config) (*Builder, error) {
	if cfg.Dir == "" || cfg.Images == nil {
		return nil, errors.New("base: Dir and Images are required")
	}
	if cfg.Source.Kind == "" {
		cfg.Source.Kind = Debian
	}
	if cfg.Suite == "" || cfg.Suite == "stable" {
		cfg.Suite = stable
	}
	setDefault(&cfg.Mirror, DefaultMirror)
	setDefault(&cfg.Security, securityOf(cfg.Mirror))
	setDefault(&cfg.PyPI, defaultPyPI)
	setDefault(&cfg.NPM, defaultNPM)
	setDefault(&cfg.Runtime, "runc")
	if len(cfg.Components) == 0 {
		cfg.Components = []string{"main"}
	}
	if cfg.Tools == nil {
		cfg.Tools = DefaultTools(runtime.GOARCH)
	}
	if cfg.ExtraCAs == nil {
		cfg.ExtraCAs, _ = filepath.Glob(hostCAs) // the pattern is well formed
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Builder{cfg: cfg}, nil
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// Ensure gives the base of the configuration, and makes it when there is none yet or what it is made from has changed: the
// source, the mirrors, the pinned tools, the authorities, the recipe itself. What an archive or a registry holds under the
// same name is not looked at; Rebuild is. Lines that say how far it is go to progress, which may be nil.
//
// A run that was killed leaves nothing that a later one counts as done.
func (b *Builder) Ensure(ctx context.Context, progress io.Writer) (Base, error) {
	return b.locked(ctx, progress, false)
}

// Rebuild makes the base again although nothing of its configuration has changed: for the updates of the archive, or what a
// tag stands for now. The old base stays the current one until the new one is sealed.
func (b *Builder) Rebuild(ctx context.Context, progress io.Writer) (Base, error) {
	return b.locked(ctx, progress, true)
}

// Current gives the base that was made last, whatever the configuration says now.
func (b *Builder) Current() (Base, bool) {
	rec, err := b.read()
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			b.cfg.Logger.Warn("the record of the base cannot be read", "error", err)
		}
		return Base{}, false
	}
	if _, err := b.cfg.Images.Stat(rec.Digest); err != nil {
		return Base{}, false
	}
	return rec, true
}

// settle removes what a killed making left. The caller holds the lock.
func (b *Builder) settle(ctx context.Context) error {
	if err := errors.Join(durable.Clear(b.cfg.Dir), durable.Clear(filepath.Join(b.cfg.Dir, "downloads"))); err != nil {
		return err
	}
	if _, err := os.Lstat(b.work()); err != nil {
		return nil
	}
	return b.clear(ctx)
}

func (b *Builder) locked(ctx context.Context, progress io.Writer, again bool) (Base, error) {
	out := newLines(progress)
	// Others may pass through: the root of the last step's container is one of them. What is below is closed.
	if err := errors.Join(os.MkdirAll(b.cfg.Dir, 0o711), os.Chmod(b.cfg.Dir, 0o711)); err != nil {
		return Base{}, err
	}
	unlock, err := lockFile(ctx, filepath.Join(b.cfg.Dir, "lock"), func() { out.printf("waiting for another build of the base") })
	if err != nil {
		return Base{}, err
	}
	defer unlock()
	if err := b.settle(ctx); err != nil {
		return Base{}, fmt.Errorf("clearing what was never finished: %w", err)
	}
	key, err := b.key()
	if err != nil {
		return Base{}, err
	}
	if rec, ok := b.Current(); ok && rec.Key == key && !again {
		return rec, nil
	}
	if err := reachable(b.cfg.Dir); err != nil {
		return Base{}, err
	}
	rec, err := b.make(ctx, key, out)
	if err != nil {
		return Base{}, err
	}
	b.cfg.Logger.Info("base made", "digest", rec.Digest, "source", rec.Source, "bytes", rec.Bytes, "took", rec.Took)
	return rec, nil
}
