// Package pkgindex asks PyPI, npm and Debian about a name and a version. It is apart from project because what a registry
// says is hostile and slow: answers are bounded, kept for minutes, and one that did not come is an error of kind upstream,
// never "does not exist".
package pkgindex

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"enplace"
)

// Config is what an Index is made of. Every field but Apt and Foreign has a default.
type Config struct {
	PyPI     string           // simple index; https://pypi.org/simple
	NPM      string           // registry; https://registry.npmjs.org
	Apt      []AptSource      // what builds install from; without any, nothing is said of apt packages
	HTTP     *http.Client     // reaches the registries above, which the operator chose
	CacheDir string           // a folder for Debian's package lists between starts, made when it is missing; memory alone when empty
	Now      func() time.Time // time.Now
	TTL      time.Duration    // how long an answer of PyPI or npm holds; 5 minutes. Debian's lists hold for an hour

	// Foreign connects to indexes that users name, also where they redirect to, and must refuse whatever is no user's business:
	// loopback, private and metadata addresses. Without it such indexes are not asked.
	Foreign func(ctx context.Context, network, address string) (net.Conn, error)
}

// AptSource is a suite of a Debian mirror.
type AptSource struct {
	Mirror     string // such as http://deb.debian.org/debian
	Suite      string // such as bookworm
	Components []string
	Arch       string // Debian's name, such as amd64
}

// Target is what packages must be installable on. An empty field is not checked, but for Glibc.
type Target struct {
	Python      string // full version, such as 3.13.5
	Node        string // full version, such as 20.19.2
	Arch        string // x86_64 or aarch64
	Glibc       string // such as 2.41; 2.36 when empty
	PipIndexURL string // simple index to ask instead of Config.PyPI
}

// Index asks the registries. It is safe for concurrent use.
type Index struct {
	c       Config
	foreign *http.Client // nil when users may name no index
	flights singleflight.Group

	mu      sync.Mutex
	answers map[string]answer
	bytes   int64 // of all answers
	lists   map[string]*aptList
}

// answer is what a registry said of one name.
type answer struct {
	value any
	bytes int64 // that it had on the wire; what is held of it is in proportion
	until time.Time
}

// What is held of answers. Users can name indexes of their own, which say as much as they like.
const (
	maxAnswers     = 512
	maxAnswerBytes = 256 << 20
)

const concurrency = 8 // of CheckAll

// New makes an Index.
func New(c Config) *Index {
	def := func(s *string, v string) {
		if *s = strings.TrimRight(*s, "/"); *s == "" {
			*s = v
		}
	}
	def(&c.PyPI, "https://pypi.org/simple")
	def(&c.NPM, "https://registry.npmjs.org")
	if c.HTTP == nil {
		c.HTTP = &http.Client{Transport: ownTransport()}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.TTL == 0 {
		c.TTL = 5 * time.Minute
	}
	x := &Index{c: c, answers: map[string]answer{}, lists: map[string]*aptList{}}
	if c.Foreign != nil {
		x.foreign = &http.Client{Transport: transport(c.Foreign)}
	}
	x.prepareCache()
	return x
}

// Check says what the registry of pkg's manager knows of it. A registry that does not answer, refuses or talks nonsense is an
// enplace.Error of kind upstream.
func (x *Index) Check(ctx context.Context, pkg enplace.Package, t Target) (enplace.PackageCheck, error) {
	c := enplace.PackageCheck{Manager: pkg.Manager, Name: pkg.Name, CanonicalName: pkg.CanonicalName(), Version: pkg.Version}
	switch pkg.Manager {
	case enplace.Pip:
		return x.checkPip(ctx, c, pkg, t)
	case enplace.NPM:
		return x.checkNPM(ctx, c, pkg, t)
	case enplace.Apt:
		return x.checkApt(ctx, c, pkg)
	}
	return c, enplace.Invalidf("%q is no package manager; there are pip, npm and apt", pkg.Manager).WithField("manager")
}

// CheckAll checks each package, eight at a time, and answers in their order. Where a registry did not answer, the check is
// marked Unchecked and its message says why; an error that is no registry's fault is returned.
func (x *Index) CheckAll(ctx context.Context, pkgs []enplace.Package, t Target) ([]enplace.PackageCheck, error) {
	checks := make([]enplace.PackageCheck, len(pkgs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for i, pkg := range pkgs {
		g.Go(func() (err error) {
			checks[i], err = x.Check(ctx, pkg, t)
			if enplace.KindOf(err) == enplace.KindUpstream {
				checks[i].Unchecked, checks[i].Message = true, messageOf(err)
				return nil
			}
			return err
		})
	}
	return checks, g.Wait()
}

// remember gives the answer kept under the key, or asks once for all who want it at the same time. Errors are not kept.
func (x *Index) remember(ctx context.Context, key string, ask func(context.Context) (value any, bytes int64, err error)) (any, error) {
	x.mu.Lock()
	a, ok := x.answers[key]
	x.mu.Unlock()
	if ok && x.c.Now().Before(a.until) {
		return a.value, nil
	}
	return x.shared(ctx, key, func(ctx context.Context) (any, error) {
		value, bytes, err := ask(ctx)
		if err != nil {
			return nil, err
		}
		x.keep(key, answer{value, bytes, x.c.Now().Add(x.c.TTL)})
		return value, nil
	})
}

// keep holds an answer, and makes room for it: what is out of date goes, and if that is not enough, whatever comes first.
func (x *Index) keep(key string, a answer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(key)
	full := func() bool { return len(x.answers) >= maxAnswers || x.bytes+a.bytes > maxAnswerBytes }
	if full() {
		now := x.c.Now()
		for k, a := range x.answers {
			if !now.Before(a.until) {
				x.drop(k)
			}
		}
	}
	for k := range x.answers {
		if !full() {
			break
		}
		x.drop(k)
	}
	x.answers[key] = a
	x.bytes += a.bytes
}

// drop forgets an answer. The lock is held.
func (x *Index) drop(key string) {
	x.bytes -= x.answers[key].bytes
	delete(x.answers, key)
}

// shared runs ask once for all callers of a key. It goes on when the caller that began it goes away, since others may wait.
func (x *Index) shared(ctx context.Context, key string, ask func(context.Context) (any, error)) (any, error) {
	ch := x.flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		return ask(ctx)
	})
	select {
	case r := <-ch:
		return r.Val, r.Err
	case <-ctx.Done():
		return nil, couldNot("the registry", "did not answer in time").WithCause(ctx.Err())
	}
}
