package egress

import (
	"testing"
	"time"

	"enplace"
)

// However many ask at once, what is logged keeps a pace.
func TestManyRefusalsAreSlowedDown(t *testing.T) {
	t.Parallel()
	e := New(Config{}).newPeriod("task_1", enplace.Egress{})
	defer e.end()
	for i := range maxRefused {
		if wait := e.remember("refused.example"); wait != 0 {
			t.Fatalf("refusal %d waits %v", i, wait)
		}
	}
	begin := time.Now()
	var wait time.Duration
	for range 200 {
		wait = e.remember("refused.example")
	}
	if end := begin.Add(199 * refusalPace); time.Now().Add(wait).Before(end) {
		t.Errorf("the last of 200 waits %v", wait)
	}
}
