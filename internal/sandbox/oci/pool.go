package oci

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"enplace"
)

const (
	// demandWindow is how far back claims count for how many sandboxes are held ready.
	demandWindow = time.Minute
	// idleTime is how long a root that nobody claims, and nobody asked to be warm, keeps one sandbox ready.
	idleTime = 10 * time.Minute
	// claimPause is how long a claim holds back the making of the next one, so that they do not compete for processors.
	claimPause = 50 * time.Millisecond
	// failurePause holds back a root whose last sandbox could not be made.
	failurePause = 10 * time.Second
	// sweepTime is how often demand is looked at when nothing happens.
	sweepTime = 20 * time.Second
)

// pool holds sandboxes that wait for an owner. One goroutine makes them, one at a time.
type pool struct {
	r   *Runtime
	max int

	mu      sync.Mutex
	shelves map[key]*shelf
	last    time.Time // of the last claim
	stop    context.CancelFunc
	stopped chan struct{}
	wake    chan struct{}
}

// shelf is what the pool holds for one root and size.
type shelf struct {
	ready  []*container
	asked  int         // by Warm
	claims []time.Time // within the window, and the last one
	failed time.Time
	// expect is what sandboxes were claimed with that have no successor yet. Each successor gets ready for the same, so that
	// those that wait mirror what is asked for.
	expect [][]enplace.Digest
}

func newPool(r *Runtime, most int) *pool {
	return &pool{r: r, max: most, shelves: map[key]*shelf{}, wake: make(chan struct{}, 1)}
}

// take gives a waiting sandbox, or nil when there is none, and counts as demand. It prefers one that has the images at hand.
func (p *pool) take(k key, images []enplace.Digest) *container {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = p.r.now()
	s := p.shelf(k)
	s.claims = append(s.claims, p.last)
	s.expect = append(s.expect, images)
	if over := len(s.expect) - max(p.max, s.asked); over > 0 {
		s.expect = slices.Delete(s.expect, 0, over)
	}
	p.rouse()
	for len(s.ready) > 0 {
		i := max(slices.IndexFunc(s.ready, func(c *container) bool { return c.has(images) }), 0)
		c := s.ready[i]
		s.ready = slices.Delete(s.ready, i, i+1)
		if c.alive() {
			return c
		}
	}
	return nil
}

// ask sets how many are held ready however few are claimed.
func (p *pool) ask(k key, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shelf(k).asked = max(n, 0)
	p.rouse()
}

// drop takes out a sandbox that has ended.
func (p *pool) drop(c *container) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.shelves[c.key]; s != nil {
		s.ready = slices.DeleteFunc(s.ready, func(x *container) bool { return x == c })
	}
	if p.stop != nil {
		p.rouse()
	}
}

func (p *pool) shelf(k key) *shelf {
	s := p.shelves[k]
	if s == nil {
		s = &shelf{}
		p.shelves[k] = s
	}
	return s
}

// rouse has the goroutine look at demand, and starts it at first. The lock is held.
func (p *pool) rouse() {
	if p.stopped == nil {
		ctx, stop := context.WithCancel(context.Background())
		p.stop, p.stopped = stop, make(chan struct{})
		go p.run(ctx)
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// close ends the goroutine. What is ready is the runtime's to stop.
func (p *pool) close() {
	p.mu.Lock()
	if p.stopped == nil { // never to be started from here on
		p.stop, p.stopped = func() {}, make(chan struct{})
		close(p.stopped)
	}
	stop, stopped := p.stop, p.stopped
	p.mu.Unlock()
	stop()
	<-stopped
}

func (p *pool) run(ctx context.Context) {
	defer close(p.stopped)
	for {
		k, wait, ok := p.next()
		if ok {
			p.fill(ctx, k)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-time.After(wait):
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// next gives the root that most lacks a sandbox, or how long to wait before looking again.
func (p *pool) next() (best key, wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.r.now()
	lack := 0
	for k, s := range p.shelves {
		want := p.want(s, now)
		if want == 0 && len(s.claims) == 0 && len(s.ready) == 0 {
			delete(p.shelves, k)
			continue
		}
		for len(s.ready) > want { // stopping one takes it off the shelf by itself
			c := s.ready[len(s.ready)-1]
			s.ready = s.ready[:len(s.ready)-1]
			c.kill()
		}
		for _, c := range s.ready {
			if a := c.ahead.Load(); a != nil && now.Sub(a.made) > idleTime {
				c.dropAhead(c.ahead.Swap(nil)) // or it would hold the disk space of images that nobody wants
			}
		}
		if now.Sub(s.failed) < failurePause {
			continue
		}
		if n := want - len(s.ready); n > lack {
			best, lack = k, n
		}
	}
	if lack == 0 {
		return key{}, sweepTime, false
	}
	if since := now.Sub(p.last); since < claimPause {
		return key{}, claimPause - since, false
	}
	return best, 0, true
}

// want says how many a shelf should hold: as many as were claimed in the last minute, one for a while after that, and never fewer
// than were asked for.
func (p *pool) want(s *shelf, now time.Time) int {
	recent := slices.IndexFunc(s.claims, func(t time.Time) bool { return now.Sub(t) < demandWindow })
	if recent < 0 {
		recent = max(len(s.claims)-1, 0) // the last claim stays, to be idle from
	}
	s.claims = s.claims[recent:]
	demand := len(s.claims)
	if demand == 1 && now.Sub(s.claims[0]) > idleTime {
		s.claims, demand = nil, 0
	}
	return max(s.asked, min(demand, p.max))
}

func (p *pool) fill(ctx context.Context, k key) {
	c, err := p.r.create(ctx, k, enplace.DefaultTaskLimits, nil)
	if err == nil {
		// What waits has to be on the disk: one that fills up meanwhile would take from it what the kernel has not written yet.
		if err = c.volume.sync(); err != nil {
			err = errors.Join(err, c.Stop(ctx))
		}
	}
	if err == nil {
		if images := p.expectation(k); len(images) > 0 {
			if err := c.stackAhead(ctx, images); err != nil { // its owner will see, if that matters then
				p.r.log.Debug("stacking images ahead", "sandbox", c.name, "error", err)
			}
		}
		p.put(c)
		return
	}
	if ctx.Err() == nil {
		p.r.log.Error("making a sandbox ahead", "root", k.root, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shelf(k).failed = p.r.now()
}

// expectation takes what the next sandbox is to be ready for.
func (p *pool) expectation(k key) []enplace.Digest {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shelf(k)
	if len(s.expect) == 0 {
		return nil
	}
	images := s.expect[0]
	s.expect = s.expect[1:]
	return images
}

// put holds a sandbox ready, unless it has ended already.
func (p *pool) put(c *container) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.alive() {
		s := p.shelf(c.key)
		s.ready = append(s.ready, c)
	}
}
