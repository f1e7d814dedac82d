package oci

import (
	"context"
	"sync"
)

// holds says which names are taken. Each has one holder at a time.
type holds struct {
	mu    sync.Mutex
	taken map[string]chan struct{} // closed when the holder lets go
}

// try takes a name unless somebody has it.
func (h *holds) try(name string) bool {
	_, ok := h.tryOrWait(name)
	return ok
}

func (h *holds) tryOrWait(name string) (free <-chan struct{}, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if free, taken := h.taken[name]; taken {
		return free, false
	}
	if h.taken == nil {
		h.taken = map[string]chan struct{}{}
	}
	h.taken[name] = make(chan struct{})
	return nil, true
}

// take waits for a name to be free and takes it. The error is that of the context.
func (h *holds) take(ctx context.Context, name string) error {
	for {
		free, ok := h.tryOrWait(name)
		if ok {
			return nil
		}
		select {
		case <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (h *holds) release(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.taken[name])
	delete(h.taken, name)
}
