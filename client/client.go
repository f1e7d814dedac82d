// Package client speaks to an Enplace server. It passes the domain's types unchanged, and rebuilds the domain's errors, so
// that enplace.KindOf works on both sides of the wire. It is apart from the server so that a program that uses Enplace
// links none of it: the standard library and the domain are all it needs.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"enplace"
)

// Config says which server to speak to, and as whom.
type Config struct {
	URL  string       // required: http:// or https://, with the path of a proxy if there is one
	Key  string       // the API key; without it only open routes answer
	HTTP *http.Client // its redirects are not followed. Default: one without a timeout, since answers may be streams
}

// Client speaks to one server. It is safe for concurrent use.
type Client struct {
	base string
	key  string
	http *http.Client
}

// New checks the configuration; it does not connect.
func New(cfg Config) (*Client, error) {
	u, err := url.Parse(strings.TrimRight(cfg.URL, "/"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, enplace.Invalidf("%q is not the address of a server; write it as http://host:port", cfg.URL).WithField("URL")
	}
	if strings.ContainsFunc(cfg.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, enplace.Invalidf("the key holds a character that no key has; copy it again, without spaces or line ends").WithField("Key")
	}
	hc := &http.Client{Transport: http.DefaultTransport}
	if cfg.HTTP != nil {
		copied := *cfg.HTTP
		hc = &copied
		if hc.Transport == nil {
			hc.Transport = http.DefaultTransport
		}
	}
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a key goes to one host
	return &Client{base: u.String(), key: cfg.Key, http: hc}, nil
}

// call is one request.
type call struct {
	method string
	path   string
	query  url.Values
	header http.Header
	body   io.Reader
	size   int64 // of body, when known and not found out by its type
}

// get, and the like, send a request without a body and read a JSON answer into out.
func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.json(ctx, call{method: http.MethodGet, path: path, query: query}, nil, out)
}

func (c *Client) post(ctx context.Context, path string, in, out any) error {
	return c.json(ctx, call{method: http.MethodPost, path: path}, in, out)
}

func (c *Client) put(ctx context.Context, path string, in, out any) error {
	return c.json(ctx, call{method: http.MethodPut, path: path}, in, out)
}

func (c *Client) delete(ctx context.Context, path string, out any) error {
	return c.json(ctx, call{method: http.MethodDelete, path: path}, nil, out)
}

// json sends in as JSON, unless nil, and reads the answer into out, unless nil.
func (c *Client) json(ctx context.Context, k call, in, out any) error {
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
		k.body = bytes.NewReader(b)
		k.header = http.Header{"Content-Type": {"application/json"}}
	}
	resp, err := c.do(ctx, k)
	if err != nil {
		return err
	}
	defer drain(resp.Body)
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return c.unreachable(fmt.Errorf("reading the answer to %s %s: %w", k.method, k.path, err))
	}
	return nil
}

// upload sends bytes and reads a JSON answer into out.
func (c *Client) upload(ctx context.Context, k call, content io.Reader, out any) error {
	k.body, k.size = content, sizeOf(content)
	k.header = http.Header{"Content-Type": {"application/octet-stream"}}
	resp, err := c.do(ctx, k)
	if err != nil {
		return err
	}
	defer drain(resp.Body)
	return c.decode(resp.Body, out)
}

// do sends a request and gives an answer of success, whose body the caller closes, or an error. A request that is safe to
// repeat is repeated when the connection was cut before an answer came.
func (c *Client) do(ctx context.Context, k call) (*http.Response, error) {
	safe := (k.method == http.MethodGet || k.method == http.MethodHead) && k.body == nil
	for attempt := 0; ; attempt++ {
		req, err := c.request(ctx, k)
		if err != nil {
			return nil, err
		}
		resp, err := c.http.Do(req)
		switch {
		case err == nil && resp.StatusCode < 300 || err == nil && resp.StatusCode == http.StatusSwitchingProtocols:
			return resp, nil
		case err == nil:
			defer drain(resp.Body)
			return nil, c.problem(resp)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !safe || attempt >= 2 || !cut(err):
			return nil, c.unreachable(err)
		}
	}
}

func (c *Client) request(ctx context.Context, k call) (*http.Request, error) {
	if strings.Contains(k.path+"/", "//") {
		return nil, enplace.Errorf(enplace.KindMalformed, "a name is empty: %s", k.path)
	}
	target := c.base + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, k.method, target, k.body)
	if err != nil {
		return nil, enplace.Invalidf("cannot make a request of %s: %v", k.path, err)
	}
	if k.size > 0 {
		req.ContentLength = k.size
	}
	for name, values := range k.header {
		req.Header[name] = values
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	return req, nil
}

// cut reports whether the connection broke before an answer came.
func cut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// unreachable is the error of a connection that could not be made, or broke.
func (c *Client) unreachable(err error) error {
	return enplace.Errorf(enplace.KindUnavailable, "cannot reach the server at %s", c.base).WithCause(err).
		WithFix("is `enplace serve` running? Start it, or set ENPLACE_URL to the address of one that is")
}

// problem rebuilds the error of an answer.
func (c *Client) problem(resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var p enplace.Problem
	if json.Unmarshal(b, &p) == nil && p.Kind != "" && p.Detail != "" {
		return p.Err()
	}
	// Something in between answered, or a server that is no Enplace; a HEAD has no body to tell.
	kind := enplace.KindUpstream
	switch resp.StatusCode {
	case http.StatusNotFound:
		kind = enplace.KindNotFound
	case http.StatusUnauthorized:
		kind = enplace.KindUnauthenticated
	case http.StatusForbidden:
		kind = enplace.KindForbidden
	case http.StatusRequestEntityTooLarge:
		kind = enplace.KindTooLarge
	case http.StatusTooManyRequests:
		kind = enplace.KindBusy
	case http.StatusServiceUnavailable:
		kind = enplace.KindUnavailable
	}
	return enplace.Errorf(kind, "%s answered %s, without saying why", c.base, resp.Status).
		WithFix("check that ENPLACE_URL is the address of an Enplace server, and what proxies are in between")
}

// drain lets the connection be used again.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	_ = body.Close()
}

// page writes a Page as a query.
func page(p enplace.Page) url.Values {
	q := url.Values{}
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	set(q, "cursor", p.Cursor)
	return q
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// waiting writes a wait as a query.
func waiting(d time.Duration) url.Values {
	q := url.Values{}
	if d > 0 {
		q.Set("wait", min(d, enplace.MaxWait).String())
	}
	return q
}

// at makes a path of segments, each escaped.
func at(segments ...string) string {
	var b strings.Builder
	b.WriteString("/v1")
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// below adds a file's path, escaped part by part.
func below(prefix, path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return prefix + "/" + strings.Join(parts, "/")
}
