package transcript

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Case 30: who waits for a command that prints nothing is told so, and is not told of one that prints.
func TestCase30SilenceIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s Silence
		out := s.Of(io.Discard)
		var said []string
		stop := s.Watch("npm", func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
		time.Sleep(4 * time.Minute) // said at three minutes
		if _, err := out.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		time.Sleep(6 * time.Minute) // silent from four minutes on: said at nine, not at six
		stop()
		want := []string{"no output of npm for 3m0s; it still runs", "no output of npm for 5m0s; it still runs"}
		if !slices.Equal(said, want) {
			t.Errorf("got %q", said)
		}
		time.Sleep(4 * time.Minute) // the log may be closed by now
		if len(said) != len(want) {
			t.Errorf("said behind the end: %q", said)
		}
	})
}
