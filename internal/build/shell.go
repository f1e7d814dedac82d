package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"enplace"
	"enplace/internal/sandbox"
	"enplace/internal/transcript"
)

// Shell runs the commands of a step in its sandbox, with their output in the build's log.
type Shell struct {
	run    *Run
	box    sandbox.Sandbox
	limits enplace.Limits
}

// Cmd is a command of a step.
type Cmd struct {
	Argv   []string
	Dir    string   // / unless set
	Env    []string // added to sandbox.BaseEnv
	Stdin  string
	Quiet  bool // its command line, and with Output its standard output, stay out of the log
	Silent bool // nothing of it goes to the log
}

// maxOutput bounds what Output returns: it is kept, and what prints it may be a package's own code.
const maxOutput = 16 << 20

// Do runs a command. When it fails the error is an *enplace.Failure that says why.
func (s *Shell) Do(ctx context.Context, c Cmd) error {
	_, err := s.exec(ctx, c, nil)
	return err
}

// Output runs a command quietly and gives its standard output, at most 16 MiB.
func (s *Shell) Output(ctx context.Context, c Cmd) ([]byte, error) {
	c.Quiet = true
	out := &bounded{limit: maxOutput}
	_, err := s.exec(ctx, c, out)
	if err == nil && out.over {
		err = enplace.TooLargef("%s printed more than %d MiB", c.Argv[0], maxOutput>>20)
	}
	return out.Bytes(), err
}

// Try runs a command and gives what it printed, stdout and stderr together, along with any failure.
func (s *Shell) Try(ctx context.Context, c Cmd) (string, error) {
	out := &bounded{limit: maxOutput}
	_, err := s.exec(ctx, c, out)
	return out.String(), err
}

// Written gives the bytes written under each folder of the path, at most depth levels down.
func (s *Shell) Written(ctx context.Context, path string, depth int) (map[string]int64, error) {
	return s.box.Written(ctx, path, depth)
}

// Note writes a line of our own into the build's log.
func (s *Shell) Note(format string, args ...any) { s.run.Log.Note(format, args...) }

// Warn adds a warning to the build.
func (s *Shell) Warn(format string, args ...any) { s.run.Warn(format, args...) }

func (s *Shell) exec(ctx context.Context, c Cmd, copyTo io.Writer) (sandbox.Exit, error) {
	if c.Dir == "" {
		c.Dir = "/"
	}
	if !c.Quiet {
		s.run.Log.Note("$ %s", strings.Join(c.Argv, " "))
	}
	cmd := sandbox.Command{Argv: c.Argv, Dir: c.Dir, Env: append(sandbox.BaseEnv(), c.Env...)}
	stdout, stderr := io.Discard, io.Discard
	if !c.Silent {
		out, err := s.run.Log.Stream(), s.run.Log.Stream()
		defer out.Close()
		defer err.Close()
		stdout, stderr = out, err
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	switch {
	case copyTo != nil && c.Quiet:
		cmd.Stdout = copyTo
	case copyTo != nil:
		both := &lockedWriter{w: copyTo}
		cmd.Stdout, cmd.Stderr = io.MultiWriter(stdout, both), io.MultiWriter(stderr, both)
	}
	if c.Stdin != "" {
		cmd.Stdin = strings.NewReader(c.Stdin)
	}
	var quiet transcript.Silence
	cmd.Stdout, cmd.Stderr = quiet.Of(cmd.Stdout), quiet.Of(cmd.Stderr)
	stop := quiet.Watch(c.Argv[0], s.run.Log.Note)
	exit, err := s.box.Exec(ctx, cmd)
	stop()
	if cause := context.Cause(ctx); cause != nil {
		return exit, cause
	}
	if err != nil {
		return exit, fmt.Errorf("running %s: %w", c.Argv[0], err)
	}
	if exit.Background {
		s.run.Log.Note("%s left processes running; they end with the step", c.Argv[0])
	}
	if exit.Code == 0 {
		return exit, nil
	}
	return exit, s.explain(ctx, c, exit)
}

// explain finds out why a command failed: what the kernel or the proxy did to it comes before its exit status.
func (s *Shell) explain(ctx context.Context, c Cmd, exit sandbox.Exit) error {
	name := c.Argv[0]
	f := &enplace.Failure{Reason: enplace.ReasonExit, Message: fmt.Sprintf("%s ended with status %d; its output is in the log", name, exit.Code)}
	if exit.Signal != "" {
		f.Message = fmt.Sprintf("%s was ended by SIG%s; its output is in the log", name, exit.Signal)
	}
	st, err := s.box.Stats(ctx)
	if err != nil {
		return f
	}
	switch {
	case st.OOMKills > 0:
		f.Reason = enplace.ReasonMemory
		f.Message = fmt.Sprintf("%s needed more than the %d MiB of memory that this step has", name, s.limits.MemoryMiB)
	case st.DiskLimitBytes > 0 && st.DiskUsedBytes > st.DiskLimitBytes-st.DiskLimitBytes/32: // the file system keeps 2 % to itself
		f.Reason = enplace.ReasonDisk
		f.Message = fmt.Sprintf("%s filled the %d MiB of disk that this step has", name, s.limits.DiskMiB)
	case len(st.Refused) > 0:
		f.Reason = enplace.ReasonEgress
		f.Message = fmt.Sprintf("%s failed, and the egress policy had refused it: %s", name, strings.Join(st.Refused[:min(5, len(st.Refused))], ", "))
		f.Fixes = []string{"set the environment's egress so that builds may reach these hosts, or use packages that do not need them"}
	}
	return f
}

// watchSize stops a step whose result grows over what a version may have, long before it has filled the disk.
func watchSize(ctx context.Context, cancel context.CancelCauseFunc, box sandbox.Sandbox, path string, exclude func(string) bool) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		sizes, err := box.Written(ctx, path, 1)
		if err != nil {
			continue
		}
		var total int64
		for p, n := range sizes {
			if exclude == nil || !exclude(p) {
				total += n
			}
		}
		if total > enplace.MaxVersionBytes {
			cancel(overSize(ctx, box, path, total))
			return
		}
	}
}

// overSize names the ten largest folders, five levels down: where site-packages and node_modules have their packages.
func overSize(ctx context.Context, box sandbox.Sandbox, path string, total int64) *enplace.Failure {
	sizes, err := box.Written(ctx, path, 5)
	var names []string
	if err == nil {
		for p := range sizes {
			names = append(names, p)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return int(sizes[b]>>10) - int(sizes[a]>>10) })
	var list []string
	for _, n := range names[:min(10, len(names))] {
		if sizes[n] < 1<<20 {
			break
		}
		list = append(list, fmt.Sprintf("%s (%d MiB)", n, sizes[n]>>20))
	}
	return OverLimit(fmt.Sprintf("the version grew to %d MiB", total>>20), list)
}

// OverLimit says that a version is too large, and what in it is largest.
func OverLimit(what string, largest []string) *enplace.Failure {
	return &enplace.Failure{
		Reason:  enplace.ReasonLimit,
		Message: fmt.Sprintf("%s; the limit is %d MiB. Largest: %s", what, enplace.MaxVersionBytes>>20, strings.Join(largest, ", ")),
		Fixes:   []string{"remove a package, or choose a smaller build of it, such as a CPU-only index for torch (pip_index_url)"},
	}
}

// bounded keeps at most limit bytes.
type bounded struct {
	bytes.Buffer
	limit int
	over  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - b.Len(); len(p) > room {
		b.over = true
		b.Buffer.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// IsExit reports whether the error says that a command ran and failed by itself.
func IsExit(err error) bool {
	var f *enplace.Failure
	return errors.As(err, &f) && f.Reason == enplace.ReasonExit
}

// lockedWriter lets two streams write to one place.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
