// Package clock is what the server knows of the machine's clock, which may be set while it runs. Dates come from here. It is apart
// because trust in dates is nobody's own: what is kept for a time must not be dropped because a clock was wrong, by whichever part.
//
// Durations need nothing of this: time.Now and time.Since measure by the kernel's monotonic clock, which no setting touches.
package clock

import (
	"log/slog"
	"sync"
	"time"
)

// leap is by how much the clock may go otherwise than time did, before that counts as a jump.
const leap = time.Minute

// Clock gives the time, and sees jumps. It is safe for concurrent use.
type Clock struct {
	read func() (wall time.Time, steady time.Duration)
	log  *slog.Logger

	mu     sync.Mutex
	start  time.Time // what the clock said when steady was zero
	wall   time.Time // what it said when it was last read, at steady time at
	at     time.Duration
	jumped bool
	jump   time.Duration // the steady time of the last jump
}

// New starts a Clock, which believes what the machine's says now.
func New(log *slog.Logger) *Clock {
	start := time.Now()
	return newClock(log, func() (time.Time, time.Duration) {
		now := time.Now()
		return now, now.Sub(start)
	})
}

func newClock(log *slog.Logger, read func() (time.Time, time.Duration)) *Clock {
	wall, at := read()
	return &Clock{read: read, log: log, start: wall.Round(0).Add(-at), wall: wall.Round(0), at: at}
}

// Now gives the date.
func (c *Clock) Now() time.Time {
	now, _ := c.look()
	return now
}

// Steady gives the date that it would be had the clock not been set since the start: for dates that only this server compares with
// each other.
func (c *Clock) Steady() time.Time {
	_, steady := c.look()
	return c.start.Add(steady)
}

// Settled reports whether dates have told durations right for that long, or since the start. After a jump they do not: what
// was written before it looks older or younger than it is.
func (c *Clock) Settled(d time.Duration) bool {
	_, steady := c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.jumped || steady-c.jump >= d
}

func (c *Clock) look() (now time.Time, steady time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, steady = c.read()
	if by := now.Round(0).Sub(c.wall) - (steady - c.at); by.Abs() > leap {
		c.jumped, c.jump = true, steady
		c.log.Warn("the clock of this machine jumped: what is kept for a time is kept for that time from now on", "by", by.Round(time.Second).String())
	}
	c.wall, c.at = now.Round(0), steady
	return now, steady
}
