package transcript_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"enplace/internal/transcript"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const big = 1 << 20

func create(t testing.TB, limit int64, redact func([]byte) []byte) (*transcript.Writer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	w, err := transcript.Create(path, limit, redact)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w, path
}

func write(t testing.TB, w io.Writer, s string) {
	t.Helper()
	if n, err := io.WriteString(w, s); n != len(s) || err != nil {
		t.Fatal(n, err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	r, err := transcript.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// finished gives the log of what was written and closed.
func finished(t testing.TB, s string) string {
	t.Helper()
	w, path := create(t, big, nil)
	write(t, w, s)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return read(t, path)
}

func TestFolding(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\rb\r\033[31mred\033]0;title\007\xff\n": "red\ufffd\n", // the field's own case
		"plain\n":            "plain\n",
		"no newline":         "no newline\n",
		"\n\n":               "\n\n",
		"dos\r\nline\r\r\n":  "dos\nline\n",
		" 10%\r 50%\r100%\n": "100%\n",
		"progress\r\n":       "progress\n",
		"abc\rx\n":           "x\n",
		"abc\r":              "abc\n",
		"\x1b[1;31mred\x1b[0m \x1b[38;2;1;2;3mx\n":   "red x\n",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n": "link\n",
		"\x1b]0;never ends\nnext\n":                  "\nnext\n",
		"\x1b[12\nnext\n":                            "\nnext\n",
		"\x1b(B\x1b=\x1b7text\x1bc\n":                "text\n",
		"\x1bPdcs\x1b\\\x1b_apc\x1b\\\x1b^pm\x07x\n": "x\n",
		"\u009b31mred\u009d0;t\u009cx\n":             "redx\n",
		"⠙\x1b[1G\x1b[0K⠹\x1b[1G\x1b[0Kdone\n":       "done\n",
		"old\r\x1b[K\n":                              "\n",
		"old\x1b[2Knew\n":                            "new\n",
		"abx\bc\n":                                   "abc\n",
		"é\b\b\bx\n":                                 "x\n",
		"a\tb\x00\x01\v\f\x7f\u0085c\n":              "a\tbc\n",
		"right\u202eleft\u2066\n":                    "rightleft\n",
		"one\u2028two\u2029\n":                       "one two \n",
		"\xc3\x28\xe2\x82\n":                         "\ufffd(\ufffd\ufffd\n",
		"half \xe2\x82":                              "half \ufffd\ufffd\n",
		"日本\n":                                       "日本\n",
		"\x1b日\n":                                    "日\n",
	} {
		if got := finished(t, in); got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}

func TestRedrawsDoNotGrowTheLog(t *testing.T) {
	t.Parallel()
	if got := finished(t, strings.Repeat("\r####      ", 100_000)+"\rdone\n"); got != "done\n" {
		t.Errorf("%d bytes", len(got))
	}
}

func TestUnendingSequencesHideNothing(t *testing.T) {
	t.Parallel()
	for _, start := range []string{"\x1b]0;", "\x1bP", "\x1b["} {
		if got := finished(t, start+strings.Repeat("1", 100_000)+" here"); !strings.HasSuffix(got, " here\n") {
			t.Errorf("%q hides the rest", start)
		}
	}
}

func TestLongLinesAreBroken(t *testing.T) {
	t.Parallel()
	in := strings.Repeat("0123456789日本 ", 20_000)
	got := finished(t, in+"\nnext\n")
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	var joined strings.Builder
	for i, l := range lines[:len(lines)-1] {
		if len(l) > 8<<10+6 || !utf8.ValidString(l) {
			t.Fatalf("line %d has %d bytes", i, len(l))
		}
		if i > 0 {
			var ok bool
			if l, ok = strings.CutPrefix(l, "…"); !ok {
				t.Fatalf("line %d: %.20q", i, l)
			}
		}
		joined.WriteString(strings.TrimSuffix(l, "…"))
	}
	if joined.String() != in || lines[len(lines)-1] != "next" {
		t.Errorf("%d bytes, want %d", joined.Len(), len(in))
	}
}

func TestRedactionOfWholeLines(t *testing.T) {
	t.Parallel()
	const secret = "correct horse battery"
	hide := func(p []byte) []byte { return bytes.ReplaceAll(p, []byte(secret), []byte("[redacted]")) }
	for at := 40 << 10; at < 70<<10; at += 501 { // across every place where a long line might be cut
		w, path := create(t, 4*big, hide)
		write(t, w, strings.Repeat("x", at)+"corr\x1b[0mect hor"+"se battery"+strings.Repeat("y", 100<<10)+"\n")
		write(t, w, secret+"\n")
		w.Note("we use %s", secret)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(string(raw), "…\n…", "")
		if strings.Contains(got, "battery") || strings.Count(got, "[redacted]") != 3 || strings.Count(got, "y") != 100<<10 {
			t.Fatalf("secret at %d: %d redacted", at, strings.Count(got, "[redacted]"))
		}
	}
}

// Where a secret is as long as all that is held of a line, the rest of the line is left out rather than shown.
func TestRestOfALineIsLeftOutWhenNoCutIsSafe(t *testing.T) {
	t.Parallel()
	hide := func(p []byte) []byte {
		at := bytes.Index(p, []byte("key="))
		if at < 0 {
			return p
		}
		return append(bytes.Clone(p[:at]), "[redacted]"...)
	}
	w, path := create(t, big, hide)
	write(t, w, "key="+strings.Repeat("s", 200<<10)+"\nnext\n")
	_ = w.Close()
	if got := read(t, path); strings.Contains(got, "ss") || !strings.HasPrefix(got, "[redacted]…\n… ") || !strings.HasSuffix(got, "bytes of this line left out \nnext\n") {
		t.Errorf("%.300q", got)
	}
}

func TestStreamsDoNotCutEachOther(t *testing.T) {
	t.Parallel()
	w, path := create(t, big, nil)
	a, b := w.Stream(), w.Stream()
	write(t, a, "from \x1b[3")
	write(t, b, "and ")
	write(t, w, "own\n")
	write(t, a, "1ma\nrest")
	w.Note("between")
	write(t, b, "b\n")
	_, _ = a.Close(), a.Close()
	if got, want := read(t, path), "own\nfrom a\n[enplace] between\nand b\nrest\n"; got != want {
		t.Errorf("%q", got)
	}
	write(t, b, "left open")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); !strings.HasSuffix(got, "\nleft open\n") {
		t.Errorf("%q", got)
	}
	for _, s := range []io.Writer{a, b, w, w.Stream()} {
		if _, err := s.Write([]byte("late")); !errors.Is(err, transcript.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
	w.Note("late")
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestNotesCannotBeForged(t *testing.T) {
	t.Parallel()
	w, path := create(t, big, nil)
	w.Note("took %d ms\nand\x1b[31m more", 5)
	for _, forged := range []string{"[enplace] x", "\x1b[1m[enplace] x", "x\r[enplace] x", "\u200b[enplace] x", "  [enplace] x", "[\bz\b[enplace]", "\ufeff\u2800\u3164[enplace] x"} {
		write(t, w, forged+"\n")
	}
	write(t, w, strings.Repeat("x", 8<<10)+"[enplace] x\n")
	write(t, w, "a [enplace] line of no harm\n")
	_ = w.Close()
	lines := strings.Split(read(t, path), "\n")
	if lines[0] != "[enplace] took 5 ms and more" || lines[1] != `\[enplace] x` {
		t.Errorf("%q", lines[:2])
	}
	for _, l := range lines[1:] {
		l = strings.TrimLeftFunc(l, func(r rune) bool {
			return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == '\u2800' || r == '\u3164'
		})
		if strings.HasPrefix(l, "[enplace]") {
			t.Errorf("%q", l)
		}
	}
}

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "line %05d of the output\n", i) // 25 bytes
	}
	return b.String()
}

func onDisk(t *testing.T, path string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(filepath.Dir(path), func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, err := d.Info()
			if err != nil {
				return err
			}
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestBound(t *testing.T) {
	t.Parallel()
	const limit = 25 * 1000
	for _, lines := range []int{999, 1000, 1001, 1200, 5000, 40_000} {
		w, path := create(t, limit, nil)
		for i := 0; i < lines; i += 100 {
			write(t, w, numbered(i, min(i+100, lines)))
			if n := onDisk(t, path); n > limit {
				t.Fatalf("%d bytes on the disk", n)
			}
		}
		growing := read(t, path)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got := read(t, path)
		raw, _ := os.ReadFile(path)
		entries, _ := os.ReadDir(filepath.Dir(path))
		if got != growing || got != string(raw) || len(entries) != 1 {
			t.Errorf("%d lines: %d bytes while growing, %d read, %d on the disk in %d files", lines, len(growing), len(got), len(raw), len(entries))
		}
		if lines <= 1000 {
			if got != numbered(0, lines) {
				t.Errorf("%d lines: %d bytes", lines, len(got))
			}
			continue
		}
		head, tail, ok := strings.Cut(got, "[enplace] … ")
		var dropped int
		if _, err := fmt.Sscanf(tail, "%d bytes left out …\n", &dropped); !ok || err != nil {
			t.Fatalf("%d lines: no line says what was left out: %v", lines, err)
		}
		_, tail, _ = strings.Cut(tail, "\n")
		if len(head)+dropped+len(tail) != lines*25 || len(head)+len(tail) > limit || len(head) != limit/2 || len(tail) < limit/3 {
			t.Errorf("%d lines: %d + %d + %d", lines, len(head), dropped, len(tail))
		}
		if all := numbered(0, lines); !strings.HasPrefix(all, head) || !strings.HasSuffix(all, tail) {
			t.Errorf("%d lines: head or tail is wrong", lines)
		}
	}
}

func TestLimitBelowTheLeast(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	if _, err := transcript.Create(path, transcript.MinLimit-1, nil); err == nil {
		t.Error("taken")
	}
	w, err := transcript.Create(path, transcript.MinLimit, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, strings.Repeat(strings.Repeat("日", 3000)+"\n", 20))
	if n := onDisk(t, path); n > transcript.MinLimit {
		t.Errorf("%d bytes", n)
	}
	_ = w.Close()
}

// follow collects what a follower is given, and the error at the end.
func follow(t *testing.T, ctx context.Context, path string, each func(string) error) (wait func() (string, error)) {
	t.Helper()
	r, err := transcript.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	done := make(chan error, 1)
	go func() {
		defer r.Close()
		done <- r.Follow(ctx, func(s string) error {
			b.WriteString(s)
			if each != nil {
				return each(s)
			}
			return nil
		})
	}()
	return func() (string, error) {
		err := <-done
		return b.String(), err
	}
}

func TestFollowersSeeLinesAsTheyComeAndTheEnd(t *testing.T) {
	t.Parallel()
	w, path := create(t, big, nil)
	write(t, w, "before\npart")
	pieces := make(chan string)
	wait := follow(t, context.Background(), path, func(s string) error { pieces <- s; return nil })
	if got := <-pieces; got != "before\n" {
		t.Errorf("%q", got)
	}
	write(t, w, "ial\n")
	if got := <-pieces; got != "partial\n" {
		t.Errorf("%q", got)
	}
	write(t, w, "the end")
	go w.Close()
	if got := <-pieces; got != "the end\n" {
		t.Errorf("%q", got)
	}
	if got, err := wait(); got != "before\npartial\nthe end\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

func TestFollowEndsByItsContextAndByItsCaller(t *testing.T) {
	t.Parallel()
	w, path := create(t, big, nil)
	ctx, cancel := context.WithCancel(context.Background())
	waitCtx := follow(t, ctx, path, nil)
	stop := errors.New("enough")
	waitEach := follow(t, context.Background(), path, func(string) error { return stop })
	cancel()
	if _, err := waitCtx(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	write(t, w, "x\n")
	if _, err := waitEach(); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// A follower that has stopped reading holds nothing up; when it reads on it is told what it missed.
func TestSlowFollowerDoesNotBlock(t *testing.T) {
	t.Parallel()
	w, path := create(t, 25*1000, nil)
	write(t, w, numbered(0, 10))
	started, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	wait := follow(t, context.Background(), path, func(string) error {
		once.Do(func() { close(started); <-release })
		return nil
	})
	<-started
	write(t, w, numbered(10, 20_000))
	close(release)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := wait()
	if err != nil || got != read(t, path) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestManyWritersAndFollowers(t *testing.T) {
	t.Parallel()
	w, path := create(t, 64*big, nil)
	var waits []func() (string, error)
	for range 8 {
		waits = append(waits, follow(t, context.Background(), path, nil))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s := w.Stream()
			defer s.Close()
			for i := range 2000 {
				fmt.Fprintf(s, "line %d\n", i)
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	all := read(t, path)
	if n := strings.Count(all, "\n"); n != 16_000 {
		t.Errorf("%d lines", n)
	}
	for _, wait := range waits {
		if got, err := wait(); got != all || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

func TestReadingOn(t *testing.T) {
	t.Parallel()
	w, path := create(t, big, nil)
	r, err := transcript.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, s := range []string{"one\n", "two\n", ""} {
		write(t, w, s)
		if got, err := io.ReadAll(r); string(got) != s || err != nil {
			t.Errorf("%q %v", got, err)
		}
	}
}

func TestFinishedLogOfAnEarlierProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	if _, err := transcript.Open(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(path, []byte("whole\ntorn \xe2\x82"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := follow(t, context.Background(), path, nil)()
	if got != "whole\ntorn \ufffd" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

// What a crash left is joined by whoever opens it first, at whichever step it happened.
func TestLogThatACrashLeft(t *testing.T) {
	t.Parallel()
	joined := "head\n[enplace] … 95 bytes left out …\ntail 100\ntail 109\n"
	for name, files := range map[string]map[string]string{
		"writing":          {"log": "head\n", "log.parts/0000000000000000100": "tail 100\n", "log.parts/0000000000000000109": "tail 109\n"},
		"joining":          {"log": "head\n", "log.parts/0000000000000000100": "tail 100\n", "log.parts/0000000000000000109": "tail 109\n", "log.parts/joining": "he"},
		"joined":           {"log": "head\n", "log.parts/0000000000000000100": "tail 100\n", "log.parts/done": joined},
		"parts removed":    {"log": "head\n", "log.parts/done": joined},
		"moved":            {"log": joined, "log.parts/": ""},
		"everything moved": {"log": joined},
	} {
		folder := t.TempDir()
		for path, content := range files {
			path = filepath.Join(folder, path)
			_ = os.MkdirAll(filepath.Dir(path), 0o700)
			if strings.HasSuffix(path, "parts") {
				_ = os.MkdirAll(path, 0o700)
				continue
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(folder, "log")
		if got := read(t, path); got != joined {
			t.Errorf("%s: %q", name, got)
		}
		if entries, _ := os.ReadDir(folder); len(entries) != 1 {
			t.Errorf("%s: %d entries stay", name, len(entries))
		}
	}
}

func TestCreateReplaces(t *testing.T) {
	t.Parallel()
	w, path := create(t, transcript.MinLimit, nil)
	if _, err := transcript.Create(path, big, nil); err == nil {
		t.Error("one log has two writers")
	}
	write(t, w, numbered(0, 1000))
	if err := os.MkdirAll(path+".old.parts", 0o700); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	w, err := transcript.Create(path, big, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if got := read(t, path); got != "" {
		t.Errorf("%q", got)
	}
}

func TestCreateWritesThroughNoLink(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	precious, path := filepath.Join(folder, "precious"), filepath.Join(folder, "log")
	if err := errors.Join(os.WriteFile(precious, []byte("kept"), 0o600), os.Symlink(precious, path)); err != nil {
		t.Fatal(err)
	}
	w, err := transcript.Create(path, big, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, w, "x\n")
	_ = w.Close()
	if b, _ := os.ReadFile(precious); string(b) != "kept" {
		t.Errorf("%q", b)
	}
}

// No control character comes out but tab and newline, all is UTF-8, and how the stream was cut makes no difference.
func FuzzFold(f *testing.F) {
	f.Add([]byte("a\rb\r\x1b[31mred\x1b]0;title\x07\xff\n"), 3)
	f.Add([]byte("日\b\u009b1\u2028[enplace] x\xe2\x82"), 1)
	f.Add([]byte("\x1b[1G\x1b[K\x1bP\x1b\\"), 2)
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		var got [2]string
		for i, size := range []int{len(in) + 1, max(1, size&0xff)} {
			path := filepath.Join(folder, fmt.Sprint(os.Getpid(), i))
			w, err := transcript.Create(path, 4*big, nil)
			if err != nil {
				t.Fatal(err)
			}
			for part := range slices.Chunk(in, size) {
				write(t, w, string(part))
			}
			_ = w.Close()
			got[i] = read(t, path)
		}
		if got[0] != got[1] {
			t.Fatalf("%q\n%q", got[0], got[1])
		}
		if !utf8.ValidString(got[0]) || len(got[0]) > 0 && got[0][len(got[0])-1] != '\n' {
			t.Fatalf("%q", got[0])
		}
		for line := range strings.SplitSeq(got[0], "\n") {
			if strings.HasPrefix(line, "[enplace]") || strings.ContainsFunc(line, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
				t.Fatalf("%q", line)
			}
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	w, _ := create(b, 16*big, nil)
	out := []byte(numbered(0, 1300)) // 32 KiB
	b.SetBytes(int64(len(out)))
	for b.Loop() {
		_, _ = w.Write(out)
	}
}
