package pkgindex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"enplace"
)

const (
	requestTimeout = time.Minute
	retryAfter     = 200 * time.Millisecond
)

// transport bounds each phase of a request. A guarded one checks the address that it connects to, after names are resolved and
// redirects followed.
func transport(guarded bool) *http.Transport {
	d := &net.Dialer{Timeout: 10 * time.Second}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: d.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
		ResponseHeaderTimeout: 20 * time.Second, MaxIdleConnsPerHost: concurrency, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 1 << 20,
	}
	if guarded {
		t.Proxy = nil // a proxy would connect in its stead
		d.Control = func(_, address string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(address)
			if err != nil || !publicAddr(a.Addr()) {
				return errPrivate
			}
			return nil
		}
	}
	return t
}

var errPrivate = errors.New("the address is not public")

var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"),
}

func publicAddr(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Zone() != "" {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
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

// get asks, and once more after a moment if the server failed or the connection broke.
func get(ctx context.Context, r request) error {
	again, err := getOnce(ctx, r)
	if !again {
		return err
	}
	select {
	case <-time.After(retryAfter):
	case <-ctx.Done():
		return err
	}
	_, err = getOnce(ctx, r)
	return err
}

func getOnce(ctx context.Context, r request) (again bool, err error) {
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
		return !errors.Is(err, errPrivate), couldNot(who, "did not answer").WithCause(err)
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
	body := &bounded{r: resp.Body, left: r.limit}
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
