package transcript

import (
	"io"
	"sync"
	"time"
)

// silentFor is how long a command may print nothing before the log says so.
const silentFor = 3 * time.Minute

// Silence passes output on and knows when the last came, so that who follows a log sees whether a command still does something.
// The zero value is ready; it is safe for concurrent use.
type Silence struct {
	mu   sync.Mutex
	last time.Time
}

// Of gives a writer that passes on to w.
func (s *Silence) Of(w io.Writer) io.Writer { return heard{s, w} }

type heard struct {
	s *Silence
	w io.Writer
}

func (h heard) Write(p []byte) (int, error) {
	h.s.mu.Lock()
	h.s.last = time.Now()
	h.s.mu.Unlock()
	return h.w.Write(p)
}

// Watch notes each further spell of three minutes without output, from a goroutine of its own, until stop is called. Nothing is
// noted once stop has returned: the log may be closed then.
func (s *Silence) Watch(name string, note func(format string, args ...any)) (stop func()) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(done, name, note) })
	return func() {
		close(done)
		watching.Wait()
	}
}

func (s *Silence) watch(done <-chan struct{}, name string, note func(format string, args ...any)) {
	start := time.Now()
	tick := time.NewTicker(silentFor)
	defer tick.Stop()
	for {
		select {
		case <-done:
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
