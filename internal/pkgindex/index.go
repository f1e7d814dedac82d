// Package pkgindex asks PyPI, npm and Debian about a name and a version. It is apart from project because what a registry
// says is hostile and slow: answers are bounded, cached for minutes, and one that did not come is an error of kind upstream,
// never "does not exist".
package pkgindex

import (
	"context"
	"net/http"
	"time"

	"enplace"
)

// Config is what an Index is made of. Every field has a default.
type Config struct {
	PyPI     string           // simple index; https://pypi.org/simple
	NPM      string           // registry; https://registry.npmjs.org
	Apt      []AptSource      // what builds install from; Debian stable main of the host's architecture, its updates and security
	HTTP     *http.Client     // reaches the registries above; a client with sane timeouts
	Foreign  *http.Client     // reaches indexes that users name; one that refuses loopback, private and metadata addresses
	CacheDir string           // where Debian's package lists are kept between starts; memory alone when empty
	Now      func() time.Time // time.Now
	TTL      time.Duration    // how long an answer of PyPI or npm holds; 5 minutes. Debian's lists hold for an hour
}

// AptSource is a suite of a Debian mirror.
type AptSource struct {
	Mirror     string // such as http://deb.debian.org/debian
	Suite      string // such as bookworm
	Components []string
	Arch       string // Debian's name, such as amd64
}

// Target is what packages must be installable on.
type Target struct {
	Python      string // full version, such as 3.13.5
	Node        string // full version, such as 20.19.2
	Arch        string // x86_64 or aarch64
	Glibc       string // such as 2.36, which is the default
	PipIndexURL string // simple index to ask instead of Config.PyPI
}

// Index asks the registries. It is safe for concurrent use.
type Index struct{ c Config }

// New makes an Index.
func New(c Config) *Index { return &Index{c: c} }

// Check says what the registry of pkg's manager knows of it. A registry that does not answer, refuses or talks nonsense is an
// enplace.Error of kind upstream.
func (x *Index) Check(ctx context.Context, pkg enplace.Package, t Target) (enplace.PackageCheck, error) {
	return enplace.PackageCheck{}, enplace.Errorf(enplace.KindUpstream, "not yet")
}

// CheckAll checks each package, eight at a time, and answers in their order. Where a registry did not answer, the check says
// so in its message, and the first such error is given beside all the checks.
func (x *Index) CheckAll(ctx context.Context, pkgs []enplace.Package, t Target) ([]enplace.PackageCheck, error) {
	return nil, nil
}
