package server

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"enplace"
)

// Quota bounds what one key may ask for, so that a loop that ran wild takes the server from nobody else.
type Quota struct {
	PerSecond float64 // requests a second, over time
	Burst     int     // requests at once, after a pause
	AtOnce    int     // requests under way at the same time, waits and streams among them
}

// DefaultQuota is far above what a harness at work asks for.
var DefaultQuota = Quota{PerSecond: 500, Burst: 1000, AtOnce: 1000}

// forgetAfter is how long a key may be silent before its use is forgotten: its burst has long been restored by then.
const forgetAfter = 10 * time.Minute

// quotas holds keys to a Quota. It is safe for concurrent use.
type quotas struct {
	quota Quota
	now   func() time.Time

	mu    sync.Mutex
	uses  map[string]*use
	swept time.Time
}

// use is what one key has under way.
type use struct {
	bucket *rate.Limiter
	atOnce int
	last   time.Time
}

func newQuotas(q Quota, now func() time.Time) *quotas {
	return &quotas{quota: q, now: now, uses: map[string]*use{}}
}

// enter admits a request of a key, or says why not. leave is called at the request's end.
func (q *quotas) enter(key string) (leave func(), err error) {
	now := q.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sweep(now)
	u := q.uses[key]
	if u == nil {
		u = &use{bucket: rate.NewLimiter(rate.Limit(q.quota.PerSecond), q.quota.Burst)}
		q.uses[key] = u
	}
	u.last = now
	if u.atOnce >= q.quota.AtOnce {
		return nil, enplace.Errorf(enplace.KindBusy, "this key has %d requests under way, its limit", q.quota.AtOnce).
			WithFix("let some end, or wait with ?wait= rather than by asking often")
	}
	if !u.bucket.AllowN(now, 1) {
		return nil, enplace.Errorf(enplace.KindBusy, "this key sends more than %g requests a second", q.quota.PerSecond).
			WithFix("wait a moment, and use ?wait= rather than asking often")
	}
	u.atOnce++
	return func() {
		q.mu.Lock()
		u.atOnce--
		q.mu.Unlock()
	}, nil
}

// sweep forgets silent keys, now and then.
func (q *quotas) sweep(now time.Time) {
	if now.Sub(q.swept) < forgetAfter {
		return
	}
	q.swept = now
	for key, u := range q.uses {
		if u.atOnce == 0 && now.Sub(u.last) > forgetAfter {
			delete(q.uses, key)
		}
	}
}
