package pkgindex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"enplace"
)

const (
	requestTimeout = time.Minute
	retryAfter     = 200 * time.Millisecond
)

// dialer connects to an address, as net.Dialer.DialContext does.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// transport bounds each phase of a request.
func transport(dial dialer) *http.Transport {
	return &http.Transport{
		DialContext: dial, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 20 * time.Second,
		MaxIdleConns: 8 * concurrency, MaxIdleConnsPerHost: concurrency, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 1 << 20,
	}
}

// ownTransport reaches the registries that the operator chose, by the operator's proxy if there is one.
func ownTransport() *http.Transport {
	t := transport((&net.Dialer{Timeout: 10 * time.Second}).DialContext)
	t.Proxy = http.ProxyFromEnvironment
	return t
}

// couldNot is the error for every way in which a registry does not answer the question.
func couldNot(who, why string) *enplace.Error {
	return enplace.Errorf(enplace.KindUpstream, "could not check: %s %s; it can be saved as it is, and the build will tell", who, why)
}

// request is a GET whose answer is read by read, which sees at most limit bytes.
type request struct {
	client *http.Client
	url    string
	accept string
	since  string // If-Modified-Since
	limit  int64
	read   func(h http.Header, body io.Reader) error
}

// errAbsent is 404 and 410, errUnchanged 304.
var (
	errAbsent    = errors.New("no such page")
	errUnchanged = errors.New("not modified")
)

// get asks, and once more after a moment if the server failed or the connection broke. It gives the bytes of the answer.
func get(ctx context.Context, r request) (int64, error) {
	body := &bounded{left: r.limit}
	again, err := getOnce(ctx, r, body)
	if again {
		select {
		case <-time.After(retryAfter):
			*body = bounded{left: r.limit}
			_, err = getOnce(ctx, r, body)
		case <-ctx.Done():
		}
	}
	return r.limit - body.left, err
}

func getOnce(ctx context.Context, r request, body *bounded) (again bool, err error) {
	who := hostOf(r.url)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return false, couldNot(who, "has no valid address").WithCause(errors.New("parsing the URL failed"))
	}
	req.Header.Set("User-Agent", "enplace")
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	if r.since != "" {
		req.Header.Set("If-Modified-Since", r.since)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		// A url.Error repeats the URL, in which there may be a password.
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return true, couldNot(who, "did not answer").WithCause(err)
	}
	defer resp.Body.Close()
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound, code == http.StatusGone:
		return false, errAbsent
	case code == http.StatusNotModified && r.since != "":
		return false, errUnchanged
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return false, couldNot(who, fmt.Sprintf("asks for a login or refuses it (%d)", code))
	case code == http.StatusTooManyRequests:
		return false, couldNot(who, "had too many requests from here (429)")
	case code != http.StatusOK:
		return code >= 500, couldNot(who, fmt.Sprintf("answered %d", code))
	}
	body.r = resp.Body
	if err := r.read(resp.Header, body); err != nil {
		switch {
		case body.over:
			return false, couldNot(who, fmt.Sprintf("answers with more than %d MiB", r.limit>>20))
		case body.err != nil:
			return true, couldNot(who, "broke off its answer").WithCause(body.err)
		case enplace.KindOf(err) != enplace.KindInternal:
			return false, err
		}
		return false, couldNot(who, "answered with something that is no package index").WithCause(err)
	}
	return false, nil
}

// bounded ends with an error, not with io.EOF, at its limit, and tells errors of the connection from those of a parser.
type bounded struct {
	r    io.Reader
	left int64
	over bool
	err  error
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		b.over = true
		return 0, errors.New("answer too large")
	}
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// hostOf names a registry without what a URL may hold beside.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "the index"
	}
	return u.Host
}

func messageOf(err error) string {
	var e *enplace.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return "could not check"
}

// quoted puts a registry's own words into a message: short, on one line, without control characters.
func quoted(s string) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\uFFFD' {
			return ' '
		}
		return r
	}, s)), " ")
	if runes := []rune(s); len(runes) > 200 {
		s = string(runes[:200]) + "…"
	}
	return s
}
