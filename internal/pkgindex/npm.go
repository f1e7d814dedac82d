package pkgindex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"enplace"
)

const (
	npmAccept    = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8"
	maxPackument = 100 << 20
	maxNPM       = 100_000 // versions and tags of a package
)

// npmPackage is what the registry says of a package.
type npmPackage struct {
	tags     map[string]string
	versions map[string]npmVersion
	sorted   []*semver.Version // those that are versions, oldest first
}

type npmVersion struct {
	deprecated string
	node       string // engines.node
	os, cpu    []string
}

// checkNPM asks for the abbreviated packument.
func (x *Index) checkNPM(ctx context.Context, c enplace.PackageCheck, pkg enplace.Package, t Target) (enplace.PackageCheck, error) {
	target := x.c.NPM + "/" + strings.ReplaceAll(url.PathEscape(pkg.Name), "%40", "@") // the slash of a scope as %2F
	v, err := x.remember(ctx, "npm "+pkg.Name, func(ctx context.Context) (any, int64, error) {
		var p *npmPackage
		n, err := get(ctx, request{client: x.c.HTTP, url: target, accept: npmAccept, limit: maxPackument, read: func(_ http.Header, body io.Reader) (err error) {
			p, err = parsePackument(body)
			return err
		}})
		return p, n, err
	})
	if errors.Is(err, errAbsent) {
		c.Message = fmt.Sprintf("%s has no package %q; check the spelling", hostOf(x.c.NPM), pkg.Name)
		return c, nil
	}
	if err != nil {
		return c, err
	}
	return judgeNPM(c, v.(*npmPackage), t, hostOf(x.c.NPM)), nil
}

// judgeNPM says what a package means for a version, range or tag, and a target.
func judgeNPM(c enplace.PackageCheck, p *npmPackage, t Target, host string) enplace.PackageCheck {
	c.Exists, c.Latest = true, p.latest()
	if len(p.versions) == 0 {
		c.Message = fmt.Sprintf("%s knows the name %q, but all its versions were removed; choose another package", host, c.Name)
		return c
	}
	pick, ok := p.pick(c.Version)
	if !ok {
		c.Message = fmt.Sprintf("%s has no version %s of %s; the newest is %s", host, c.Version, c.Name, c.Latest)
		return c
	}
	c.VersionExists = true
	v := p.versions[pick]
	switch {
	case !allows(v.os, "linux") || !allows(v.cpu, nodeArch(t.Arch)):
		c.Message = fmt.Sprintf("%s %s is not for Linux %s, but for %s; choose the package for this system", c.Name, pick, t.Arch, quoted(strings.Join(append(slices.Clone(v.os), v.cpu...), ", ")))
		return c
	case strings.HasSuffix(pick, "-security"):
		c.Message = fmt.Sprintf("%s %s is a placeholder that the registry keeps in place of a removed package; choose another package", c.Name, pick)
		return c
	}
	c.Installable = true
	c.Message = fmt.Sprintf("%s %s will be installed", c.Name, pick)
	if r, ok := parseNPMRange(v.node); ok && v.node != "" {
		if node, err := semver.NewVersion(t.Node); err == nil && !r.holds(node) {
			c.Message += fmt.Sprintf("; it asks for Node %s and this environment has %s, which npm warns of but does not refuse", quoted(v.node), t.Node)
		}
	}
	if v.deprecated != "" {
		c.Message += "; its authors say it is deprecated: " + quoted(v.deprecated)
	}
	return c
}

// pick chooses the version that npm would: the tag of that name; else the latest if it is in the range; else the highest that is
// not deprecated; else the highest.
func (p *npmPackage) pick(want string) (string, bool) {
	want = strings.TrimSpace(want)
	if want == "" {
		if v, ok := p.tags["latest"]; ok {
			return v, p.has(v)
		}
		want = "*"
	}
	if v := strings.TrimLeft(want, "=v "); p.has(v) {
		return v, true
	}
	r, ok := parseNPMRange(want)
	if !ok {
		v, ok := p.tags[want]
		return v, ok && p.has(v)
	}
	latest := p.tags["latest"]
	best := ""
	for _, v := range slices.Backward(p.sorted) {
		if !r.holds(v) {
			continue
		}
		raw := v.Original()
		if latest == raw || best == "" || p.versions[best].deprecated != "" && p.versions[raw].deprecated == "" {
			best = raw
		}
		if latest == raw {
			break
		}
	}
	return best, best != ""
}

func (p *npmPackage) has(v string) bool {
	_, ok := p.versions[v]
	return ok
}

// latest is the tag of that name, else the highest version.
func (p *npmPackage) latest() string {
	if v := p.tags["latest"]; p.has(v) {
		return v
	}
	if len(p.sorted) > 0 {
		return p.sorted[len(p.sorted)-1].Original()
	}
	return ""
}

// allows reads package.json's os and cpu: names, or names behind ! for all others.
func allows(list []string, name string) bool {
	if len(list) == 0 || name == "" {
		return true
	}
	named, negative := false, true
	for _, s := range list {
		if not, ok := strings.CutPrefix(s, "!"); ok {
			if not == name {
				return false
			}
			continue
		}
		negative = false
		named = named || s == name || s == "any"
	}
	return named || negative
}

// nodeArch gives Node's name of an architecture.
func nodeArch(arch string) string {
	switch arch {
	case "x86_64":
		return "x64"
	case "aarch64":
		return "arm64"
	}
	return arch
}

// parsePackument walks the document, so that only one version of it is held at a time. Fields of a wrong type, of which old
// packages have many, count as absent.
func parsePackument(body io.Reader) (*npmPackage, error) {
	p := &npmPackage{tags: map[string]string{}, versions: map[string]npmVersion{}}
	known := false
	err := eachField(json.NewDecoder(body), func(d *json.Decoder, key string) error {
		switch key {
		case "dist-tags":
			known = true
			return eachField(d, func(d *json.Decoder, tag string) error {
				var v any
				err := d.Decode(&v)
				if s, ok := v.(string); ok && len(p.tags) < maxNPM && printable(s) {
					p.tags[tag] = s
				}
				return err
			})
		case "versions":
			known = true
			return eachField(d, p.addVersion)
		case "name", "time":
			known = true
		}
		return d.Decode(new(json.RawMessage))
	})
	if err == nil && !known {
		err = errors.New("no package document")
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(p.sorted, (*semver.Version).Compare)
	return p, nil
}

func (p *npmPackage) addVersion(d *json.Decoder, key string) error {
	var fields map[string]json.RawMessage
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return err
	}
	if json.Unmarshal(raw, &fields) != nil || !printable(key) {
		return nil
	}
	if len(p.versions) >= maxNPM {
		return fmt.Errorf("more than %d versions", maxNPM)
	}
	var v npmVersion
	var engines map[string]json.RawMessage
	if json.Unmarshal(fields["engines"], &engines) == nil {
		_ = json.Unmarshal(engines["node"], &v.node)
	}
	if json.Unmarshal(fields["deprecated"], &v.deprecated) != nil {
		var yes bool
		if _ = json.Unmarshal(fields["deprecated"], &yes); yes {
			v.deprecated = "without a reason"
		}
	}
	v.os, v.cpu = stringOrList(fields["os"]), stringOrList(fields["cpu"])
	if parsed, err := semver.StrictNewVersion(key); err == nil && !p.has(key) {
		p.sorted = append(p.sorted, parsed)
	}
	p.versions[key] = v
	return nil
}

func stringOrList(raw json.RawMessage) []string {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return []string{one}
	}
	return nil
}

// printable reports whether a version or tag may be repeated to a person as it is.
func printable(s string) bool { return len(s) <= 256 && quoted(s) == s }
