// Package watch lets a caller wait for a record to change, without polling. It belongs to no capability because builds and
// tasks wait alike. It works within one process: the one that holds the lock on the data directory makes every change.
package watch

import (
	"context"
	"sync"
	"time"
)

// Hub wakes those who wait for a key. The zero value is ready. It is safe for concurrent use.
type Hub struct {
	mu    sync.Mutex
	waits map[string]*wait
}

type wait struct {
	changed chan struct{}
	waiting int
}

// Notify wakes everyone who waits for the key.
func (h *Hub) Notify(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.waits[key]; w != nil {
		close(w.changed)
		delete(h.waits, key)
	}
}

// Until calls look at once, and again after each Notify of the key, until it reports done, the time is up (0: at once), or
// ctx ends. Time that runs out is no error: the caller has what look saw last.
func (h *Hub) Until(ctx context.Context, key string, limit time.Duration, look func() (done bool, err error)) error {
	if limit <= 0 {
		_, err := look()
		return err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		changed, leave := h.join(key) // before looking, so that no change falls between
		done, err := look()
		if done || err != nil {
			leave()
			return err
		}
		select {
		case <-changed:
		case <-timer.C:
			leave()
			return nil
		case <-ctx.Done():
			leave()
			return ctx.Err()
		}
	}
}

func (h *Hub) join(key string) (changed <-chan struct{}, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waits == nil {
		h.waits = map[string]*wait{}
	}
	w := h.waits[key]
	if w == nil {
		w = &wait{changed: make(chan struct{})}
		h.waits[key] = w
	}
	w.waiting++
	return w.changed, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if w.waiting--; w.waiting == 0 && h.waits[key] == w {
			delete(h.waits, key)
		}
	}
}
