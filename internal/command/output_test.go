package command

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"enplace"
)

// kept gives what is kept of a text that is written in pieces of that size.
func kept(t *testing.T, text string, piece int) (string, int64) {
	t.Helper()
	var o output
	for len(text) > 0 {
		n := min(piece, len(text))
		if err := o.add("stdout", []byte(text[:n])); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
	o.finish()
	return o.text("stdout")
}

// The last lines of long output were dropped, which are those that say how a build ended.
func TestStartAndEndOfLongOutputAreKept(t *testing.T) {
	t.Parallel()
	const limit = enplace.MaxExecOutputBytes
	lines := strings.Repeat("0123456789abcde\n", limit/16)
	for name, text := range map[string]string{"the limit": lines, "less": lines[1:], "nothing": "", "a rune across the middle": strings.Repeat("x", limit/2-1) + "é" + strings.Repeat("y", limit/2-1)} {
		for _, piece := range []int{1 << 10, 4097, limit + 1} {
			if got, whole := kept(t, text, piece); got != text || whole != 0 {
				t.Errorf("%s in pieces of %d: %d bytes of %d, told as %d", name, piece, len(got), len(text), whole)
			}
		}
	}
	for name, c := range map[string]struct {
		text       string
		head, tail int
	}{
		"a byte more":  {lines + "z", limit / 2, limit / 2},
		"far more":     {lines + lines + lines + "the end", limit / 2, limit / 2},
		"wide letters": {strings.Repeat("€", limit), limit/2 - 2, limit/2 - 2}, // of three bytes, and the limit is no multiple of that
	} {
		for _, piece := range []int{1021, 65537, limit * 4} {
			got, whole := kept(t, c.text, piece)
			head, tail := c.text[:c.head], c.text[len(c.text)-c.tail:]
			want := fmt.Sprintf("%s\n[enplace] … %d bytes left out …\n%s", strings.TrimSuffix(head, "\n"), len(c.text)-c.head-c.tail, tail)
			if got != want || whole != int64(len(c.text)) || !utf8.ValidString(got) {
				t.Errorf("%s in pieces of %d: %d bytes, want %d; told as %d of %d", name, piece, len(got), len(want), whole, len(c.text))
			}
		}
	}
}
