package transcript_test

import (
	"bytes"
	"strings"
	"testing"

	"enplace/internal/redact"
)

// Lines without an end are cut; wherever the cut falls, the real redactor finds the secret.
func TestSecretsAreFoundWhereverALongLineIsCut(t *testing.T) {
	t.Parallel()
	const secret = "a-known-secret-of-some-length"
	r := redact.New(secret)
	for at := 54 << 10; at < 66<<10; at += 397 {
		line := bytes.Repeat([]byte("x "), 70<<10)
		copy(line[at:], secret)
		copy(line[at+60<<10:], " https://user:password@host/ ")
		w, path := create(t, big, r.Lines())
		write(t, w, string(line))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got := read(t, path)
		if len(got) < len(line)/2 {
			t.Fatalf("secret at %d: %d bytes", at, len(got))
		}
		// A line of the log is a piece of the line: what stands on both sides of a break is put together again.
		whole := strings.ReplaceAll(got, "…\n…", "")
		if strings.Contains(whole, secret) || strings.Contains(whole, "user:password") {
			t.Fatalf("secret at %d came through", at)
		}
	}
}
