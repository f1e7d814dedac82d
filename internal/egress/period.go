package egress

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"enplace"
)

const (
	maxRefused  = 100                   // hosts that Refused gives, and refusals that are answered at once
	refusalPace = 50 * time.Millisecond // between two of the refusals after that
)

// period is the time between two calls of Gate.Set. Connections to either side live no longer than it.
type period struct {
	proxy   *Proxy
	ctx     context.Context
	end     context.CancelFunc
	policy  enplace.Egress
	forward http.Handler // plain requests
	log     *slog.Logger

	mu      sync.Mutex
	refused []string
	count   int
	next    time.Time // when the next refusal may be answered
}

func (p *Proxy) newPeriod(name string, policy enplace.Egress) *period {
	policy.Hosts = slices.Clone(policy.Hosts)
	e := &period{proxy: p, policy: policy, log: p.log.With("sandbox", name, "policy", policy.Policy)}
	e.ctx, e.end = context.WithCancel(context.Background())
	e.forward = e.forwarder()
	return e
}

func (e *period) hosts() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.refused)
}

// dial connects; the connection ends with the period.
func (e *period) dial(ctx context.Context, t target) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	conn, err := e.proxy.dial(ctx, t)
	if err != nil {
		return nil, err
	}
	return bind(e.ctx, conn, func() {}), nil
}

// failed gives the client's answer to a connection that was not made; a refusal is kept as such.
func (e *period) failed(t target, err error) answer {
	var refused *RefusedError
	if errors.As(err, &refused) {
		e.refuse(t, refused.Reason, "address", refused.Address)
	}
	return toFailure(t, err)
}

// refuse logs a refusal and remembers its host. Once there were many, the next ones are held back: a sandbox that tries all
// day must not fill the operator's disk. A client that hangs up does not shorten the wait, and counts as connected until then.
func (e *period) refuse(t target, reason string, detail ...any) {
	if wait := e.remember(t.host); wait > 0 {
		select {
		case <-time.After(wait):
		case <-e.ctx.Done():
		}
	}
	e.log.Warn("egress refused", append([]any{"host", t.host, "port", t.port, "reason", reason}, detail...)...)
}

// remember remembers a refused host, and says how long its answer is to wait.
func (e *period) remember(host string) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.refused) < maxRefused && !slices.Contains(e.refused, host) {
		e.refused = append(e.refused, host)
	}
	if e.count++; e.count <= maxRefused {
		return 0
	}
	now := time.Now()
	if e.next.Before(now) {
		e.next = now
	}
	wait := e.next.Sub(now)
	e.next = e.next.Add(refusalPace)
	return wait
}

// bound is a connection that a context ends.
type bound struct {
	net.Conn
	stop    func() bool
	release func()
	once    sync.Once
	err     error
}

// bind lets the end of ctx close the connection. release is called once, when it is closed by whomever.
func bind(ctx context.Context, conn net.Conn, release func()) *bound {
	b := &bound{Conn: conn, release: release}
	b.stop = context.AfterFunc(ctx, b.shut)
	return b
}

func (b *bound) Close() error {
	b.stop()
	b.shut()
	return b.err
}

func (b *bound) shut() {
	b.once.Do(func() {
		b.err = b.Conn.Close()
		b.release()
	})
}

// CloseWrite tells the other side that nothing more comes.
func (b *bound) CloseWrite() error {
	if c, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}
