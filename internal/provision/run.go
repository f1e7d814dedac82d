package provision

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"enplace"
	"enplace/internal/mise"
	"enplace/internal/sandbox"
	"enplace/internal/transcript"
)

const (
	readTimeout = 2 * time.Minute // of what we ask a box ourselves; it takes milliseconds unless the box is overloaded
	readLimit   = 8 << 20         // of what it answers
	tailBytes   = 64 << 10        // of what a command printed, kept to find out why it failed
)

// ended is how a command of a pass ended.
type ended struct {
	sandbox.Exit
	refused error  // why it could not be started at all
	printed string // the end of what it printed: plain text, redacted
}

func (e ended) ok() bool { return e.refused == nil && e.Code == 0 }

// run runs an installation or a script, with its output in the log. The error is for a box that stopped and a context that
// ended.
func (p *pass) run(ctx context.Context, c sandbox.Command) (ended, error) {
	return p.runInto(ctx, c, p.job.Log)
}

// runInto is run with the output in a log that reads along.
func (p *pass) runInto(ctx context.Context, c sandbox.Command, log io.Writer) (ended, error) {
	p.note("$ %s", strings.Join(c.Argv, " "))
	out := &output{log: log}
	var quiet transcript.Silence
	heard := quiet.Of(out)
	c.Stdout, c.Stderr, c.Timeout, c.Whole = heard, heard, p.job.Timeout, true
	stop := quiet.Watch(path.Base(c.Argv[0]), p.note)
	exit, err := p.exec(ctx, c)
	stop()
	if exit.Background {
		p.note("%s left processes running; they were ended", path.Base(c.Argv[0]))
	}
	e := ended{Exit: exit, printed: p.job.Redact(transcript.Plain(out.bytes()))}
	e.refused = err
	return e, fatal(ctx, err)
}

// ask runs a command of our own and gives what it printed to standard output. Its failure is no error, only that of starting.
func (p *pass) ask(ctx context.Context, c sandbox.Command) ([]byte, ended, error) {
	return p.askFor(ctx, readTimeout, c)
}

func (p *pass) askFor(ctx context.Context, most time.Duration, c sandbox.Command) ([]byte, ended, error) {
	out, errs := &bounded{limit: readLimit}, &output{}
	c.Stdout, c.Stderr, c.Timeout, c.Whole = out, errs, most, true
	exit, err := p.exec(ctx, c)
	return out.Bytes(), ended{exit, err, p.job.Redact(transcript.Plain(errs.bytes()))}, fatal(ctx, err)
}

func (p *pass) exec(ctx context.Context, c sandbox.Command) (sandbox.Exit, error) {
	if c.Env == nil {
		c.Env = sandbox.BaseEnv()
	}
	if c.Dir == "" {
		c.Dir = "/"
	}
	exit, err := p.box.Exec(ctx, c)
	return exit, broken(c.Argv[0], err)
}

// broken says what becomes of a box whose base something inside has damaged: without a shell or mise nothing can be installed
// there any more, and trying again does not help.
func broken(program string, err error) error {
	if !slices.Contains([]string{"/bin/sh", "/bin/rm", mise.Program}, program) || enplace.KindOf(err) != enplace.KindInvalid {
		return err
	}
	return enplace.Invalidf("%s: something inside removed what the base brings; a reset makes the computer anew, without its files", message(err))
}

// message is an error without the field of a request, which nobody has made here.
func message(err error) string {
	var e *enplace.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// fatal tells the errors that end a pass from those of one command: an *enplace.Error says that it could not be started.
func fatal(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var one *enplace.Error
	if err == nil || errors.As(err, &one) && !errors.Is(err, sandbox.ErrStopped) {
		return nil
	}
	return err
}

// note writes a line of our own into the log, as one of ours where the log knows such.
func (p *pass) note(format string, args ...any) {
	switch log := p.job.Log.(type) {
	case nil:
	case interface{ Note(string, ...any) }:
		log.Note(format, args...)
	default:
		_, _ = fmt.Fprintf(log, format+"\n", args...) // a log that cannot be written holds up no installation
	}
}

// putScript puts a tree in place of whatever is at the path. The old one is never half replaced.
const putScript = `set -e; umask 022
mkdir -p "${1%/*}"; rm -rf "$1.new" "$1.old"; mkdir "$1.new"
tar -x -f - -C "$1.new" --no-same-owner
if [ -e "$1" ] || [ -L "$1" ]; then mv -T "$1" "$1.old"; fi
mv -T "$1.new" "$1"; rm -rf "$1.old"`

// put writes files below a folder of the box, and nothing else is in it then. Paths are relative and clean.
func (p *pass) put(ctx context.Context, dir string, files map[string]string) (ended, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), ModTime: time.Unix(enplaceTime, 0)}
		if strings.HasPrefix(files[name], "#!") || strings.HasSuffix(name, ".sh") {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			return ended{}, fmt.Errorf("packing %s: %w", name, err)
		}
		_, _ = io.WriteString(w, files[name]) // into memory
	}
	_ = w.Close()
	_, e, err := p.ask(ctx, sandbox.Command{Argv: []string{"/bin/sh", "-c", putScript, "sh", dir}, Stdin: &b})
	return e, err
}

// enplaceTime is the time of files that we write: fixed, so that a bundle depends on nothing but its set.
const enplaceTime = 315_619_200 // 1980-01-02

// output passes on what is printed and keeps its end.
type output struct {
	log  io.Writer
	last []byte
	cut  bool
}

func (o *output) Write(b []byte) (int, error) {
	if o.log != nil {
		_, _ = o.log.Write(b) // a log that cannot be written holds up no installation
	}
	o.last = append(o.last, b...)
	if len(o.last) > 2*tailBytes {
		o.last, o.cut = append(o.last[:0], o.last[len(o.last)-tailBytes:]...), true
	}
	return len(b), nil
}

// bytes gives the end of the output. Where it was cut it begins behind a line's end: half of a secret would not be found.
func (o *output) bytes() []byte {
	if !o.cut {
		return o.last
	}
	if at := bytes.IndexAny(o.last, "\r\n"); at >= 0 {
		return o.last[at+1:]
	}
	return nil
}

// bounded keeps the first limit bytes.
type bounded struct {
	bytes.Buffer
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	_, _ = b.Buffer.Write(p[:min(len(p), max(b.limit-b.Len(), 0))])
	return len(p), nil
}

// tailOf gives the last bytes of a text, whole characters and, where there are any, whole lines.
func tailOf(s string, most int) string {
	s = strings.TrimRight(s, " \n")
	if len(s) <= most {
		return s
	}
	s = s[len(s)-most:]
	if at := strings.IndexByte(s, '\n'); at >= 0 && at < len(s)-1 {
		return s[at+1:]
	}
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}
