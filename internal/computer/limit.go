package computer

import (
	"math/rand/v2"
	"time"
)

// limitSpread is over how long those come back whom a source refused: they stand behind one address, and would all come at once.
const limitSpread = 2 * time.Minute

// afterLimit gives when a set that failed is tried again: after the usual time, and not while a source refuses to be asked.
func afterLimit(usual, limited time.Duration) time.Duration {
	if limited <= 0 {
		return usual
	}
	return max(usual, limited+5*time.Second+rand.N(limitSpread)) // clocks differ by some seconds
}
