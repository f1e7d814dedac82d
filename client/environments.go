package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"enplace"
)

const environments = "environments"

// CreateEnvironment makes an environment.
func (c *Client) CreateEnvironment(ctx context.Context, in enplace.CreateEnvironment) (e enplace.Environment, err error) {
	return e, c.post(ctx, at(environments), in, &e)
}

// ListEnvironments gives the environments that the key can see, newest first.
func (c *Client) ListEnvironments(ctx context.Context, p enplace.Page) (l enplace.List[enplace.Environment], err error) {
	return l, c.get(ctx, at(environments), page(p), &l)
}

// Environment gives one environment with its versions.
func (c *Client) Environment(ctx context.Context, id string) (e enplace.Environment, err error) {
	return e, c.get(ctx, at(environments, id), nil, &e)
}

// UpdateEnvironment changes what in names, and leaves the rest.
func (c *Client) UpdateEnvironment(ctx context.Context, id string, in enplace.UpdateEnvironment) (e enplace.Environment, err error) {
	return e, c.put(ctx, at(environments, id), in, &e)
}

// DeleteEnvironment removes an environment with its tree, builds and versions.
func (c *Client) DeleteEnvironment(ctx context.Context, id string) error {
	return c.delete(ctx, at(environments, id), nil)
}

// ListFiles gives the entries of the tree below prefix, ordered by path.
func (c *Client) ListFiles(ctx context.Context, id, prefix string, p enplace.Page) (l enplace.List[enplace.TreeEntry], err error) {
	q := page(p)
	set(q, "prefix", prefix)
	return l, c.get(ctx, at(environments, id, "files"), q, &l)
}

// OpenFile gives the bytes of one file of the tree. The caller closes it.
func (c *Client) OpenFile(ctx context.Context, id, path string) (io.ReadCloser, error) {
	return c.open(ctx, call{path: below(at(environments, id, "files"), path)})
}

// PutFile writes one file of the tree, and reports whether it is new. The content is read once, to its end.
func (c *Client) PutFile(ctx context.Context, id, path string, content io.Reader, executable bool) (entry enplace.TreeEntry, created bool, err error) {
	k := call{method: http.MethodPut, path: below(at(environments, id, "files"), path), body: content, size: sizeOf(content)}
	k.header = http.Header{"Content-Type": {"application/octet-stream"}}
	if executable {
		k.query = url.Values{"executable": {"true"}}
	}
	resp, err := c.do(ctx, k)
	if err != nil {
		return entry, false, err
	}
	defer drain(resp.Body)
	return entry, resp.StatusCode == http.StatusCreated, c.decode(resp.Body, &entry)
}

// DeleteFile removes a file, or a folder with all below it.
func (c *Client) DeleteFile(ctx context.Context, id, path string) error {
	return c.delete(ctx, below(at(environments, id, "files"), path), nil)
}

// Import brings an archive into the tree: zip, tar, or tar with gzip, bzip2, xz or zstd. With merge, what the archive does not
// bring stays; without it, the tree is replaced. The archive is read once, to its end.
func (c *Client) Import(ctx context.Context, id string, archive io.Reader, merge bool) (r enplace.ImportReport, err error) {
	return r, c.upload(ctx, call{method: http.MethodPost, path: at(environments, id, "import"), query: importMode(merge)}, archive, &r)
}

// ImportGit brings a git repository into the tree.
func (c *Client) ImportGit(ctx context.Context, id string, g enplace.GitSource, merge bool) (r enplace.ImportReport, err error) {
	return r, c.json(ctx, call{method: http.MethodPost, path: at(environments, id, "import"), query: importMode(merge)}, g, &r)
}

func importMode(merge bool) url.Values {
	if merge {
		return url.Values{"mode": {"merge"}}
	}
	return nil
}

// CheckPackage asks a registry about a name and, if one is given, a version.
func (c *Client) CheckPackage(ctx context.Context, q enplace.PackageQuery) (r enplace.PackageCheck, err error) {
	v := url.Values{"manager": {string(q.Manager)}, "name": {q.Name}}
	set(v, "version", q.Version)
	set(v, "environment", q.Environment)
	return r, c.get(ctx, at(environments, "packages", "check"), v, &r)
}

// StartBuild queues the next build.
func (c *Client) StartBuild(ctx context.Context, id string) (b enplace.Build, err error) {
	return b, c.post(ctx, at(environments, id, "build"), nil, &b)
}

// Build gives a build. With wait, it answers when the build ends or the time is up, at most enplace.MaxWait.
func (c *Client) Build(ctx context.Context, id string, n int, wait time.Duration) (b enplace.Build, err error) {
	return b, c.get(ctx, at(environments, id, "builds", strconv.Itoa(n)), waiting(wait), &b)
}

// WaitBuild waits for a build to end, as long as ctx lets it.
func (c *Client) WaitBuild(ctx context.Context, id string, n int) (enplace.Build, error) {
	for {
		b, err := c.Build(ctx, id, n, time.Minute)
		if err != nil || b.Status.Ended() {
			return b, err
		}
	}
}

// ListBuilds gives the builds of an environment, newest first.
func (c *Client) ListBuilds(ctx context.Context, id string, p enplace.Page) (l enplace.List[enplace.Build], err error) {
	return l, c.get(ctx, at(environments, id, "builds"), page(p), &l)
}

// CancelBuild stops a build and everything it started.
func (c *Client) CancelBuild(ctx context.Context, id string, n int) (b enplace.Build, err error) {
	return b, c.post(ctx, at(environments, id, "builds", strconv.Itoa(n), "cancel"), nil, &b)
}

// BuildLog gives the log of a build as it is now. The caller closes it.
func (c *Client) BuildLog(ctx context.Context, id string, n int) (io.ReadCloser, error) {
	return c.open(ctx, call{path: at(environments, id, "builds", strconv.Itoa(n), "log")})
}

// FollowBuildLog writes the log of a build to w as it grows, and gives the build's status when it has ended.
func (c *Client) FollowBuildLog(ctx context.Context, id string, n int, w io.Writer) (enplace.BuildStatus, error) {
	status, err := c.follow(ctx, call{path: at(environments, id, "builds", strconv.Itoa(n), "log")}, w)
	return enplace.BuildStatus(status), err
}

// ListVersions gives the versions of an environment, newest first.
func (c *Client) ListVersions(ctx context.Context, id string, p enplace.Page) (l enplace.List[enplace.VersionSummary], err error) {
	return l, c.get(ctx, at(environments, id, "versions"), page(p), &l)
}

// Version gives a version with its manifest.
func (c *Client) Version(ctx context.Context, id string, n int) (v enplace.Version, err error) {
	return v, c.get(ctx, at(environments, id, "versions", strconv.Itoa(n)), nil, &v)
}

// DeleteVersion removes a version that is not the active one.
func (c *Client) DeleteVersion(ctx context.Context, id string, n int) error {
	return c.delete(ctx, at(environments, id, "versions", strconv.Itoa(n)), nil)
}

// Activate makes a version the one that new tasks read.
func (c *Client) Activate(ctx context.Context, id string, n int) (e enplace.Environment, err error) {
	return e, c.post(ctx, at(environments, id, "versions", strconv.Itoa(n), "activate"), nil, &e)
}

// Diff gives the files and packages that differ between two versions.
func (c *Client) Diff(ctx context.Context, id string, from, to int) (d enplace.VersionDiff, err error) {
	q := url.Values{"from": {strconv.Itoa(from)}, "to": {strconv.Itoa(to)}}
	return d, c.get(ctx, at(environments, id, "diff"), q, &d)
}
