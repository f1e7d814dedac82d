package build

import (
	"context"
	"io"
	"sync"
	"time"
)

// silentFor is how long a command may print nothing before the log says so.
const silentFor = 3 * time.Minute

// silence passes output on and knows when the last came, so that who follows a log sees whether a command still does something.
type silence struct {
	mu   sync.Mutex
	last time.Time
}

func (s *silence) of(w io.Writer) io.Writer { return heard{s, w} }

type heard struct {
	s *silence
	w io.Writer
}

func (h heard) Write(p []byte) (int, error) {
	h.s.mu.Lock()
	h.s.last = time.Now()
	h.s.mu.Unlock()
	return h.w.Write(p)
}

// watch notes each further spell without output until ctx ends.
func (s *silence) watch(ctx context.Context, name string, note func(format string, args ...any)) {
	start := time.Now()
	tick := time.NewTicker(silentFor)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		last := s.last
		s.mu.Unlock()
		if last.IsZero() {
			last = start
		}
		if quiet := time.Since(last); quiet >= silentFor {
			note("no output of %s for %s; it still runs", name, quiet.Round(time.Second))
		}
	}
}
