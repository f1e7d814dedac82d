package provision

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"enplace"
	"enplace/internal/mise"
	"enplace/internal/sandbox"
)

const (
	answerTimeout = 20 * time.Second // of one command; the slowest runtimes take a few seconds at their first start
	answerBudget  = time.Minute      // of all commands of a pass together; at most what one script may take
	leastAnswer   = time.Second      // with less than that nothing is started
	maxAnswers    = 3                // commands of a tool that are started
)

// answerScript starts a command in a home that goes away with the caches, so that nothing it writes there becomes part of the box.
const answerScript = `mkdir -p "$HOME"; exec "$1" --version </dev/null`

// settle ends an item of which all was done: its commands must start before it counts as installed. An installer that ended well
// is not believed alone: an interpreter, a loader or a library that is not there shows at the first start only. What a later item
// may bring is waited for: only at the last look it is a failure. Verify does without: a bundle is the very bytes that were tried.
func (p *pass) settle(ctx context.Context, it *item, last bool) error {
	it.mute = false
	for _, t := range it.tools {
		if !t.whole() {
			continue
		}
		why, err := p.answers(ctx, it, t, last)
		if err != nil {
			return err
		}
		it.mute, t.silent = it.mute || why != nil, why
		if last {
			t.failed = why
		}
	}
	switch {
	case !it.mute:
		p.report(it, enplace.ItemInstalled)
	case last:
		it.failTools()
		p.failed(it)
	}
	return nil
}

// answers says why a command of a tool cannot be started, or nil. One that does not know --version, or does not end, has started
// all the same. last is for the look with the whole set in place. No command may take more than half of the time that is left: those
// that do not end leave some for the others. What comes when it is used up is believed, or found as it was before.
func (p *pass) answers(ctx context.Context, it *item, t *tool, last bool) (*failure, error) {
	in := it
	if last {
		in = p.items[len(p.items)-1]
	}
	for _, file := range t.told() {
		most := min(answerTimeout, p.answering/2)
		if most < leastAnswer {
			it.addNote(fmt.Sprintf("%s was not started to see whether it works: other commands of this installation took the time that there is for that", t.name))
			return t.silent, nil
		}
		began := time.Now()
		out, e, err := p.askFor(ctx, most, sandbox.Command{
			Argv: []string{"/bin/sh", "-c", answerScript, "sh", file}, Env: p.env(in, "HOME="+mise.Caches+"/home"),
		})
		p.answering -= time.Since(began)
		if err != nil {
			return nil, err
		}
		if e.cannotStart() {
			return &failure{fmt.Sprintf("%s of %s was installed and cannot be started: %s", path.Base(file), t.name, e.whyNot()), e.printed}, nil
		}
		if other := t.otherVersion(string(out)); e.ok() && other != "" {
			it.addNote(fmt.Sprintf("%s --version says %s; the version of %s is %s", path.Base(file), other, t.name, t.versions[0].Version))
		}
	}
	return nil, nil
}

// told gives the files of the commands that a tool is known for, or else of its first.
func (t *tool) told() (files []string) {
	known := mise.Guess(t.name)
	for _, b := range t.bins {
		for _, c := range b.Commands {
			if slices.Contains(known, c) && len(files) < maxAnswers {
				files = append(files, path.Join(b.Dir, c))
			}
		}
	}
	if len(files) == 0 && len(t.bins) > 0 {
		files = []string{path.Join(t.bins[0].Dir, t.bins[0].Commands[0])}
	}
	return files
}

// cannotStart reports whether a command, or what it hands over to, did not get as far as its own code: a shell says so by two
// statuses, the kernel by these signals.
func (e ended) cannotStart() bool {
	return e.refused == nil && !e.TimedOut && (e.Code == 126 || e.Code == 127 || slices.Contains([]string{"SEGV", "ILL", "BUS", "SYS"}, e.Signal))
}

func (e ended) whyNot() string {
	if e.Signal != "" {
		return "it was ended by SIG" + e.Signal
	}
	if why := lastLine(e); why != "" {
		return why
	}
	return fmt.Sprintf("it ended with status %d", e.Code)
}

var dotted = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)+`)

// otherVersion gives the first version that a tool says of itself where none that it says is the one that was installed; "" where
// it is, where it says none, and where several are installed.
func (t *tool) otherVersion(said string) string {
	if len(t.versions) != 1 {
		return ""
	}
	all := dotted.FindAllString(said[:min(len(said), maxReason)], -1)
	want := dotted.FindString(t.versions[0].Version)
	if len(all) == 0 || want == "" || slices.ContainsFunc(all, func(v string) bool {
		return v == want || strings.HasPrefix(v, want+".") || strings.HasPrefix(want, v+".")
	}) {
		return ""
	}
	return enplace.Shown(all[0], maxReason)
}
