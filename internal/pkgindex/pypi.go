package pkgindex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"enplace"
)

const (
	pypiAccept  = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
	maxPyPI     = 64 << 20
	maxPyPIHTML = 32 << 20
	maxPyFiles  = 200_000
)

// pyProject is what an index says of a project.
type pyProject struct {
	releases []*pyRelease // oldest first
}

// pyRelease is a version with its files.
type pyRelease struct {
	raw     string
	version pyVersion
	files   []pyFile
	reason  string // why it was withdrawn, of the first file that says
}

type pyFile struct {
	wheel    []string // its python, abi and platform tags; nil for a source archive
	requires string   // requires-python
	yanked   bool
}

// yanked reports whether every file was withdrawn.
func (r *pyRelease) yanked() bool {
	return len(r.files) > 0 && !slices.ContainsFunc(r.files, func(f pyFile) bool { return !f.yanked })
}

// checkPip asks the simple repository API (PEP 503, 691, 700).
func (x *Index) checkPip(ctx context.Context, c enplace.PackageCheck, pkg enplace.Package, t Target) (enplace.PackageCheck, error) {
	spec, ok := parsePySpec(pkg.Version)
	if !ok {
		return c, enplace.Invalidf("%q is no version or range of versions; write ==1.2.3 or >=1,<2", pkg.Version).WithField("version")
	}
	base, client := x.c.PyPI, x.c.HTTP
	if t.PipIndexURL != "" {
		u, err := url.Parse(t.PipIndexURL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return c, enplace.Invalidf("is no address of a package index; write https://host/simple").WithField("pip_index_url")
		}
		if x.foreign == nil {
			return c, enplace.Errorf(enplace.KindUnavailable, "this server asks no package index but its own; leave it out, or ask the operator").WithField("pip_index_url")
		}
		base, client = strings.TrimRight(t.PipIndexURL, "/"), x.foreign
	}
	target := base + "/" + url.PathEscape(c.CanonicalName) + "/"
	v, err := x.remember(ctx, "pip "+target, func(ctx context.Context) (any, int64, error) {
		var p *pyProject
		n, err := get(ctx, request{client: client, url: target, accept: pypiAccept, limit: maxPyPI, read: func(h http.Header, body io.Reader) (err error) {
			p, err = parsePyPI(c.CanonicalName, h.Get("Content-Type"), body)
			return err
		}})
		return p, n, err
	})
	host := hostOf(base)
	if errors.Is(err, errAbsent) {
		c.Message = fmt.Sprintf("%s has no project %q; check the spelling", host, c.CanonicalName)
		return c, nil
	}
	if err != nil {
		return c, err
	}
	return judgePip(c, v.(*pyProject), spec, t, host), nil
}

// judgePip says what a project means for a specifier and a target.
func judgePip(c enplace.PackageCheck, p *pyProject, spec pySpec, t Target, host string) enplace.PackageCheck {
	c.Exists, c.VersionExists = true, c.Version == ""
	c.Latest = p.latest()
	if len(p.releases) == 0 {
		c.VersionExists = false
		c.Message = fmt.Sprintf("%s knows the name %q, but nothing was published under it; check the spelling", host, c.CanonicalName)
		return c
	}
	var matching []*pyRelease
	for _, r := range p.releases {
		if spec.holds(r.version, r.raw) {
			matching = append(matching, r)
		}
	}
	if len(matching) == 0 {
		c.VersionExists = false
		c.Message = fmt.Sprintf("%s has no version %s of %s; the newest is %s", host, c.Version, c.CanonicalName, c.Latest)
		if spec.local() {
			c.Message += "; versions with a + are on an index of their own, which pip_index_url names"
		}
		return c
	}
	c.VersionExists = true
	allowed := allowedReleases(p, matching, spec)
	if len(allowed) == 0 {
		newest := matching[len(matching)-1]
		if c.Yanked = newest.yanked(); c.Yanked {
			c.Message = fmt.Sprintf("every version that fits was withdrawn by its authors (%s); choose another, or pin one with == to take it all the same", newest.why())
		} else {
			c.Message = fmt.Sprintf("only pre-releases fit, and those must be named: write ==%s", newest.raw)
		}
		return c
	}
	return judgeFiles(c, allowed, t, spec)
}

// allowedReleases leaves out what an installer leaves out: withdrawn versions unless pinned, and pre-releases unless named or
// nothing else was ever published.
func allowedReleases(p *pyProject, matching []*pyRelease, spec pySpec) []*pyRelease {
	pre := spec.namesPreRelease() || !slices.ContainsFunc(p.releases, func(r *pyRelease) bool { return !r.version.preRelease() && !r.yanked() })
	var out []*pyRelease
	for _, r := range matching {
		if (pre || !r.version.preRelease()) && (spec.pins() || !r.yanked()) {
			out = append(out, r)
		}
	}
	return out
}

// judgeFiles finds the newest release that has a file for the target.
func judgeFiles(c enplace.PackageCheck, allowed []*pyRelease, t Target, spec pySpec) enplace.PackageCheck {
	newest := allowed[len(allowed)-1]
	for _, r := range slices.Backward(allowed) {
		wheel, source := r.fits(t)
		if !wheel && !source {
			continue
		}
		c.Installable, c.Yanked = true, r.yanked()
		switch {
		case c.Yanked:
			c.Message = fmt.Sprintf("%s %s was withdrawn by its authors (%s); it installs because it is pinned, but choose another", c.CanonicalName, r.raw, r.why())
		case !wheel:
			c.Message = fmt.Sprintf("%s %s has no ready-made package for %s, so the build compiles it from source, which takes longer and needs its build tools", c.CanonicalName, r.raw, shortPython(t.Python))
		case r != newest:
			c.Message = fmt.Sprintf("%s %s will be installed, the newest that %s can use; %s is not for it", c.CanonicalName, r.raw, shortPython(t.Python), newest.raw)
		case r.version.preRelease() && !spec.namesPreRelease():
			c.Message = fmt.Sprintf("%s %s will be installed; only pre-releases were ever published", c.CanonicalName, r.raw)
		default:
			c.Message = fmt.Sprintf("%s %s will be installed", c.CanonicalName, r.raw)
		}
		return c
	}
	c.Yanked = newest.yanked()
	c.Message = newest.whyNot(c.CanonicalName, t)
	return c
}

// whyNot says why a release has no file for the target.
func (r *pyRelease) whyNot(name string, t Target) string {
	if len(r.files) == 0 {
		return fmt.Sprintf("%s %s has no files that can be installed; choose another version", name, r.raw)
	}
	for _, f := range r.files {
		if f.requires != "" && !f.runsOn(t.Python) {
			return fmt.Sprintf("%s %s is for Python %s, and this environment has %s; choose another version, or another python_version", name, r.raw, quoted(f.requires), t.Python)
		}
	}
	return fmt.Sprintf("%s %s has neither a ready-made package for %s on Linux %s nor its source; choose another version, or another python_version", name, r.raw, shortPython(t.Python), t.Arch)
}

func (r *pyRelease) why() string {
	if r.reason == "" {
		return "no reason given"
	}
	return quoted(r.reason)
}

// latest is the newest release that was not withdrawn, stable if there is one.
func (p *pyProject) latest() string {
	pre := ""
	for _, r := range slices.Backward(p.releases) {
		switch {
		case r.yanked():
		case !r.version.preRelease():
			return r.raw
		case pre == "":
			pre = r.raw
		}
	}
	return pre
}

// parsePyPI reads either form of the API.
func parsePyPI(name, contentType string, body io.Reader) (*pyProject, error) {
	b := &pyBuilder{name: name, releases: map[string]*pyRelease{}}
	media, _, _ := mime.ParseMediaType(contentType)
	var err error
	switch {
	case strings.HasSuffix(media, "json"):
		err = b.json(body)
	case strings.HasSuffix(media, "html"), media == "":
		err = b.html(body)
	default:
		err = fmt.Errorf("unexpected type %q", media)
	}
	if err != nil {
		return nil, err
	}
	p := &pyProject{}
	for _, r := range b.releases {
		p.releases = append(p.releases, r)
	}
	slices.SortFunc(p.releases, func(a, b *pyRelease) int {
		if c := a.version.compare(b.version); c != 0 {
			return c
		}
		return strings.Compare(a.raw, b.raw)
	})
	return p, nil
}

// pyBuilder gathers files by version.
type pyBuilder struct {
	name     string
	releases map[string]*pyRelease // by the version's normal form
	count    int
}

// pyJSONFile is a file in the JSON form. Yanked is a boolean or a reason.
type pyJSONFile struct {
	Filename string          `json:"filename"`
	Requires *string         `json:"requires-python"`
	Yanked   json.RawMessage `json:"yanked"`
}

// json walks the document, so that only one file of it is held at a time.
func (b *pyBuilder) json(r io.Reader) error {
	sawFiles := false
	err := eachField(json.NewDecoder(r), func(d *json.Decoder, key string) error {
		switch key {
		case "files":
			sawFiles = true
			return eachElement(d, func() error {
				var f pyJSONFile
				if err := d.Decode(&f); err != nil {
					return err
				}
				requires, reason, yanked := "", "", false
				if f.Requires != nil {
					requires = *f.Requires
				}
				if json.Unmarshal(f.Yanked, &reason) == nil && reason != "" {
					yanked = true
				} else {
					_ = json.Unmarshal(f.Yanked, &yanked)
				}
				return b.add(f.Filename, requires, reason, yanked)
			})
		case "versions":
			return eachElement(d, func() error {
				var v string
				if err := d.Decode(&v); err != nil {
					return err
				}
				b.release(v)
				return nil
			})
		}
		return d.Decode(new(json.RawMessage))
	})
	if err == nil && !sawFiles {
		err = errors.New("no list of files")
	}
	return err
}

var (
	anchor    = regexp.MustCompile(`(?is)<a((?:\s+[^\s=<>"'/]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s<>"']+))?)*)\s*>([^<]*)</a`)
	attribute = regexp.MustCompile(`(?is)([^\s=<>"'/]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s<>"']+)))?`)
	looksHTML = regexp.MustCompile(`(?i)<(!doctype html|html|body|a)[\s>]`)
)

// html reads the older form: an anchor for each file.
func (b *pyBuilder) html(r io.Reader) error {
	page, err := io.ReadAll(io.LimitReader(r, maxPyPIHTML+1))
	if err != nil {
		return err
	}
	if len(page) > maxPyPIHTML {
		return fmt.Errorf("page of more than %d bytes", maxPyPIHTML)
	}
	if !looksHTML.Match(page) {
		return errors.New("no HTML")
	}
	for _, m := range anchor.FindAllSubmatch(page, maxPyFiles+1) {
		requires, reason, yanked := "", "", false
		for _, a := range attribute.FindAllStringSubmatch(string(m[1]), 64) {
			value := html.UnescapeString(a[2] + a[3] + a[4])
			switch strings.ToLower(a[1]) {
			case "data-requires-python":
				requires = value
			case "data-yanked":
				yanked, reason = true, value
			}
		}
		if err := b.add(strings.TrimSpace(html.UnescapeString(string(m[2]))), requires, reason, yanked); err != nil {
			return err
		}
	}
	return nil
}

// release gives the release of a version, or nil for one that installers ignore too.
func (b *pyBuilder) release(raw string) *pyRelease {
	v, ok := parsePyVersion(raw)
	if !ok {
		return nil
	}
	// A file may spell the version otherwise than the list of versions does.
	if r, ok := b.releases[v.String()]; ok {
		return r
	}
	if len(b.releases) >= maxPyFiles {
		return nil
	}
	r := &pyRelease{raw: strings.TrimSpace(raw), version: v}
	b.releases[v.String()] = r
	return r
}

// add files a file under its version. What is neither a wheel nor a source archive, installers ignore.
func (b *pyBuilder) add(filename, requires, reason string, yanked bool) error {
	if b.count++; b.count > maxPyFiles {
		return fmt.Errorf("more than %d files", maxPyFiles)
	}
	version, tags, ok := splitFilename(b.name, filename)
	if !ok {
		return nil
	}
	if r := b.release(version); r != nil {
		r.files = append(r.files, pyFile{wheel: tags, requires: requires, yanked: yanked})
		if r.reason == "" {
			r.reason = reason
		}
	}
	return nil
}
