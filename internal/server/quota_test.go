package server

import (
	"testing"
	"time"

	"enplace"
)

func TestQuotaOfEachKey(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	q := newQuotas(Quota{PerSecond: 2, Burst: 4, AtOnce: 3}, func() time.Time { return now })
	enter := func(key string) func() {
		t.Helper()
		leave, err := q.enter(key)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	busy := func(key string) {
		t.Helper()
		if _, err := q.enter(key); enplace.KindOf(err) != enplace.KindBusy {
			t.Fatalf("%v; want it refused as busy", err)
		}
	}
	one, two, three := enter("a"), enter("a"), enter("a")
	busy("a") // three at once
	enter("b")()
	one()
	two()
	three()
	enter("a")()
	busy("a") // the burst is used up
	now = now.Add(500 * time.Millisecond)
	enter("a")()
	busy("a")
	now = now.Add(time.Hour)
	enter("c")()
	if len(q.uses) != 1 {
		t.Errorf("%d keys are remembered an hour later", len(q.uses))
	}
	for range 4 {
		enter("a")()
	}
	busy("a") // an hour restores the burst, and no more
}

func TestQuotaGoesBackward(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	q := newQuotas(Quota{PerSecond: 1, Burst: 2, AtOnce: 9}, func() time.Time { return now })
	now = now.Add(-time.Hour) // a clock that jumps back must not shut a key out
	for range 2 {
		leave, err := q.enter("a")
		if err != nil {
			t.Fatal(err)
		}
		leave()
	}
}
