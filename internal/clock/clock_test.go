package clock

import (
	"log/slog"
	"testing"
	"time"
)

// machine is a clock that is set.
type machine struct {
	steady time.Duration
	ahead  time.Duration
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (m *machine) read() (time.Time, time.Duration) {
	return epoch.Add(m.steady + m.ahead), m.steady
}

func TestJumps(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for _, by := range []time.Duration{-time.Hour, time.Hour, -10 * year, 10 * year} {
		m := &machine{}
		c := newClock(slog.New(slog.DiscardHandler), m.read)
		m.steady = 30 * time.Minute
		if !c.Settled(8 * time.Hour) {
			t.Error("it is not settled from the start on")
		}
		m.ahead, m.steady = by, time.Hour
		if got := c.Now(); !got.Equal(epoch.Add(time.Hour + by)) {
			t.Errorf("after a jump by %s it is %s", by, got)
		}
		if got := c.Steady(); !got.Equal(epoch.Add(time.Hour)) {
			t.Errorf("after a jump by %s it would be %s", by, got)
		}
		for steady, settled := range map[time.Duration]bool{time.Hour: false, 3*time.Hour - 1: false, 3 * time.Hour: true} {
			m.steady = steady
			if c.Settled(2*time.Hour) != settled {
				t.Errorf("%s after the start, and a jump by %s after one hour: settled is %v", steady, by, !settled)
			}
		}
		m.ahead, m.steady = 0, 9*time.Hour // and back again
		if c.Settled(2 * time.Hour) {
			t.Error("a jump back to the right time is a jump too")
		}
	}
}

// A clock that is slewed goes a little faster or slower for long.
func TestSlewIsNoJump(t *testing.T) {
	t.Parallel()
	m := &machine{}
	c := newClock(slog.New(slog.DiscardHandler), m.read)
	for range 24 * 365 {
		m.steady += time.Hour
		m.ahead += 2 * time.Second
		if !c.Settled(time.Hour) {
			t.Fatalf("after %s", m.steady)
		}
	}
}

func TestTheMachinesClock(t *testing.T) {
	t.Parallel()
	c := New(slog.New(slog.DiscardHandler))
	for range 3 {
		if off := time.Since(c.Now()); off < 0 || off > time.Minute || !c.Settled(time.Hour) {
			t.Errorf("off by %s", off)
		}
		if off := time.Since(c.Steady()); off.Abs() > time.Minute {
			t.Errorf("steady is off by %s", off)
		}
	}
}
