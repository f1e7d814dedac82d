package redact_test

import (
	"encoding/base64"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"enplace/internal/redact"
)

const mark = "[redacted]"

// base64 breaks its lines wherever they are full: of a value in the middle of a text every piece is hidden, the last few characters
// too. Only of lines that come one by one a first piece of a few characters is not known yet.
func TestBase64BrokenOverLines(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{strings.Repeat("a long value, ", 12) + ".", "of 20 characters ...", "not so very long, but more than a line of it"} {
		r := redact.New("another", secret)
		for _, width := range []int{20, 57, 64, 76} {
			for before := range 80 {
				in := strings.Repeat("x", before) + secret + "yz\n"
				first, last := (before*8+5)/6, (before+len(secret))*8/6
				stream := base64.StdEncoding.EncodeToString([]byte(in))
				hide := r.Lines()
				var text, want strings.Builder
				for at := 0; at < len(stream); at += width {
					line := stream[at:min(at+width, len(stream))]
					from, to := max(first-at, 0), min(last-at, len(line))
					redacted := line
					if from < to {
						redacted = line[:from] + mark + line[to:]
					}
					text.WriteString(line + "\n")
					want.WriteString(redacted + "\n")
					if isFirst := at <= first; isFirst && to-from < 12 && to < last-at {
						redacted = line
					}
					if got := string(hide([]byte(line))); got != redacted {
						t.Fatalf("%d behind %d: %s\ngives %s, want %s", width, before, line, got, redacted)
					}
				}
				if got := string(r.Bytes([]byte(text.String()))); got != want.String() {
					t.Fatalf("%d behind %d: %s\ngives %s, want %s", width, before, text.String(), got, want.String())
				}
			}
		}
	}
}

// A value that repeats itself is found behind more of the same.
func TestBrokenValueThatRepeatsItself(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("abc", 20) + "the end!!"
	r := redact.New(secret)
	for before := range 20 {
		stream := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("abc", before) + secret))
		for _, width := range []int{48, 64, 76} {
			hide := r.Lines()
			var lines []string
			var out strings.Builder
			for at := 0; at < len(stream); at += width {
				lines = append(lines, stream[at:min(at+width, len(stream))])
				out.Write(hide([]byte(lines[len(lines)-1])))
			}
			last := lines[len(lines)-1]
			if text := r.Bytes([]byte(strings.Join(lines, "\n"))); strings.HasSuffix(out.String(), last[len(last)-3:]) || strings.HasSuffix(string(text), last[len(last)-3:]) {
				t.Errorf("%d behind %d: %s and %s", width, before, out.String(), text)
			}
		}
	}
}

// What tools really write: openssl and base64, indented as in YAML, with carriage returns, as JSON, and in hexadecimal by xxd's lines.
func TestBrokenValuesOfTools(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("some secret; ", 9) + "end."
	script := func(s string) string {
		out, err := exec.Command("bash", "-c", s, "sh", "user:"+secret).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v %s", s, err, out)
		}
		return string(out)
	}
	python := func(expression string) string {
		return script(`python3 -c 'import base64, json, sys; s = sys.argv[1].encode(); print(` + expression + `)' "$1"`)
	}
	r := redact.New(secret)
	for name, out := range map[string]string{
		"base64":   script(`printf %s "$1" | base64`),
		"indented": script(`printf %s "$1" | base64 -w 60 | sed "s/^/    /"`),
		"CRLF":     script(`printf %s "$1" | base64 | sed "s/$/\r/"`),
		"JSON":     python(`json.dumps(base64.encodebytes(s).decode())`),
		"hex":      python(`"\n".join(s.hex()[i:i+60] for i in range(0, 2*len(s), 60))`),
	} {
		hide, n := r.Lines(), 0
		for line := range strings.Lines(out) {
			got := string(hide([]byte(strings.TrimSuffix(line, "\n"))))
			if n++; strings.Count(got, mark) == 0 || len(got) > len(mark)*strings.Count(got, mark)+20 {
				t.Errorf("%s, line %d: %q gives %q", name, n, line, got)
			}
		}
		if got := string(r.Bytes([]byte(out))); strings.Count(got, "\n") != strings.Count(out, "\n") || len(got) > len(mark)*strings.Count(got, mark)+30 {
			t.Errorf("%s: %q gives %q", name, out, got)
		}
	}
}

// Lines that only begin as a value does are left as they are.
func TestWhatIsNoPieceStays(t *testing.T) {
	t.Parallel()
	secret := "a secret that is long enough to be broken over lines"
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	r := redact.New(secret)
	for _, lines := range [][]string{{encoded[:11], "and on"}, {encoded[:11], encoded[12:20]}, {encoded[:30] + "!", encoded[30:40]}, {"x", encoded[1:12] + "!"}, {encoded[:1], "", encoded[1:9]}} {
		hide := r.Lines()
		for _, line := range lines {
			if got := string(hide([]byte(line))); got != line {
				t.Errorf("%q: %q gives %q", lines, line, got)
			}
		}
		if text := strings.Join(lines, "\n"); string(r.Bytes([]byte(text))) != text {
			t.Errorf("%q as a text", lines)
		}
	}
}

// A line that is a value's beginning over and over costs its length and no more.
func BenchmarkBrokenValue(b *testing.B) {
	r := redact.New(strings.Repeat("\x00", 3000))
	for _, c := range []string{"A", "AA\n", "AAAAAAAAAAA\n"} {
		b.Run(fmt.Sprint(len(c)), func(b *testing.B) {
			log := []byte(strings.Repeat(c, (1<<16)/len(c)))
			b.SetBytes(int64(len(log)))
			for b.Loop() {
				r.Bytes(log)
			}
		})
	}
}
