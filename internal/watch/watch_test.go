package watch_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"enplace/internal/watch"
)

func TestUntilIsWokenByItsOwnKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hub watch.Hub
		var done atomic.Bool
		var looks atomic.Int32
		ended := make(chan time.Duration, 1)
		start := time.Now()
		go func() {
			err := hub.Until(t.Context(), "a", time.Minute, func() (bool, error) {
				looks.Add(1)
				return done.Load(), nil
			})
			if err != nil {
				t.Error(err)
			}
			ended <- time.Since(start)
		}()
		synctest.Wait()
		hub.Notify("b")
		synctest.Wait()
		if n := looks.Load(); n != 1 {
			t.Errorf("another's key made it look: %d times", n)
		}
		hub.Notify("a")
		synctest.Wait()
		time.Sleep(time.Second)
		done.Store(true)
		hub.Notify("a")
		if took := <-ended; took != time.Second || looks.Load() != 3 {
			t.Errorf("it ended after %s and %d looks", took, looks.Load())
		}
	})
}

func TestUntilEndsWithTimeContextOrError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hub watch.Hub
		never := func() (bool, error) { return false, nil }
		start := time.Now()
		if err := hub.Until(t.Context(), "a", 30*time.Second, never); err != nil || time.Since(start) != 30*time.Second {
			t.Errorf("time: %v after %s", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := hub.Until(ctx, "a", time.Minute, never); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("context: %v", err)
		}
		broken := errors.New("broken")
		if err := hub.Until(t.Context(), "a", time.Minute, func() (bool, error) { return false, broken }); !errors.Is(err, broken) {
			t.Errorf("error: %v", err)
		}
		looked := 0
		if err := hub.Until(t.Context(), "a", 0, func() (bool, error) { looked++; return false, nil }); err != nil || looked != 1 {
			t.Errorf("no wait: %v, %d looks", err, looked)
		}
	})
}

// A change that falls between looking and waiting must not be missed.
func TestNotifyWhileLooking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hub watch.Hub
		first := true
		start := time.Now()
		err := hub.Until(t.Context(), "a", time.Hour, func() (bool, error) {
			if first {
				first = false
				hub.Notify("a")
				return false, nil
			}
			return true, nil
		})
		if err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}
