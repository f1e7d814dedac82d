package transcript

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"unicode/utf8"
)

const followBytes = 32 << 10 // of one piece given to a follower

// Reader reads a log, while it grows or after. It serves one goroutine at a time.
type Reader struct {
	tape  *tape
	at    int64  // in the log as it was written, left-out bytes counted
	gap   []byte // the line about left-out bytes, as far as it is still to be read
	inner bool   // at stands within a line
	close sync.Once
}

// Read reads what is there now, then io.EOF; after the log has grown it reads on. Where lines were left out, or were dropped
// before this reader came to them, one line says how many bytes they had.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.gap) == 0 {
		n, gap, err := r.tape.read(r.at, p)
		if gap == 0 {
			if n > 0 {
				r.at += int64(n)
				r.inner = p[n-1] != '\n'
			}
			return n, err
		}
		r.at += gap
		r.gap = leftOut(gap)
		if r.inner {
			r.gap = slices.Concat([]byte(more+"\n"), r.gap)
		}
		r.inner = false
	}
	n := copy(p, r.gap)
	r.gap = r.gap[n:]
	return n, nil
}

// Follow calls each with every piece of text from the reader's place on, and returns when the log has ended: nil, the error
// of each, or the context's. A piece is whole lines. It waits for the writer without asking again and again.
func (r *Reader) Follow(ctx context.Context, each func(text string) error) error {
	buf := make([]byte, followBytes)
	kept := 0
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(buf[kept:])
		kept += n
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		ended := false
		var grown <-chan struct{}
		if err != nil {
			grown, ended = r.tape.wait(r.at)
		}
		if n := whole(buf[:kept], ended); n > 0 {
			if err := each(string(bytes.ToValidUTF8(buf[:n], []byte("\uFFFD")))); err != nil {
				return err
			}
			kept = copy(buf, buf[n:kept])
		}
		if ended {
			return nil
		}
		if grown != nil {
			select {
			case <-grown:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// whole gives the length of the whole lines at the start of p; of all of p when nothing comes after it, and of its whole
// characters when it is full without a newline.
func whole(p []byte, last bool) int {
	if last {
		return len(p)
	}
	if n := bytes.LastIndexByte(p, '\n'); n >= 0 {
		return n + 1
	}
	if len(p) < followBytes {
		return 0
	}
	n := len(p)
	for i := 1; i < utf8.UTFMax; i++ {
		if utf8.RuneStart(p[n-i]) {
			if !utf8.FullRune(p[n-i:]) {
				n -= i
			}
			break
		}
	}
	return n
}

// Close ends the reading. Closing twice is no error.
func (r *Reader) Close() error {
	var err error
	r.close.Do(func() { err = r.tape.release() })
	return err
}
