package provision

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"enplace"
	"enplace/internal/mise"
	"enplace/internal/sandbox"
)

// install installs an item's runtimes, or its other tools, as far as they are not there: all in one run of mise, and then
// those that failed once more, one by one, so that each has its own reason.
func (p *pass) install(ctx context.Context, it *item, runtimes bool) error {
	todo, err := p.todo(ctx, it, runtimes)
	if err != nil || len(todo) == 0 {
		return err
	}
	if it.dirty {
		if err := p.clear(ctx, it, todo); err != nil {
			return err
		}
	}
	e, err := p.mise(ctx, it, it.dirty, todo)
	if err != nil {
		return err
	}
	again := e.mayTryAgain()
	for _, t := range todo {
		last := e
		if !t.installed() && again {
			if last, err = p.mise(ctx, it, true, []*tool{t}); err != nil {
				return err
			}
			again = last.mayTryAgain()
		}
		switch {
		case !t.installed():
			t.failed = &failure{t.name + " could not be installed: " + p.reason(t, last), last.printed}
		case len(t.bins) == 0:
			t.failed = &failure{t.name + " has no commands; declare the package that brings the command that is meant", last.printed}
		default:
			it.verified[t.name] = t.exact()
		}
	}
	it.failTools()
	p.report(it, enplace.ItemInstalling)
	return nil
}

// mayTryAgain reports whether another try at once has any prospect: not where time has run out, nothing can be started, or a
// source is asked too often already.
func (e ended) mayTryAgain() bool {
	_, limited := mise.RateLimited(e.printed, time.Now())
	return e.refused == nil && !e.TimedOut && (e.Code == 0 || !limited)
}

// maxFailedTools bounds the tools whose reason goes into that of their item.
const maxFailedTools = 5

// failTools makes the failures of tools one of the item: each with its reason, and the end of what the first printed.
func (it *item) failTools() {
	var reasons []string
	var first *failure
	more := 0
	for _, t := range it.tools {
		switch {
		case t.failed == nil:
			continue
		case len(reasons) == maxFailedTools:
			more++
			continue
		case first == nil:
			first = t.failed
		}
		reasons = append(reasons, t.failed.why)
	}
	if first == nil {
		return
	}
	if len(reasons) > 1 {
		for i := range reasons {
			reasons[i] = enplace.Shown(reasons[i], maxReason)
		}
	}
	if more > 0 {
		reasons = append(reasons, fmt.Sprintf("and %d tools more failed", more))
	}
	it.now.Error, it.now.ErrorTail = "", ""
	it.fail(&failure{strings.Join(reasons, "; "), first.tail})
}

// todo gives the tools that are to be installed now. What lacks its runtime has failed already.
func (p *pass) todo(ctx context.Context, it *item, runtimes bool) ([]*tool, error) {
	var todo []*tool
	for _, t := range it.tools {
		if mise.Runtime(t.name) != runtimes || t.failed != nil || t.whole() && !it.doubtful(t) {
			continue
		}
		runtime, commands := mise.Needs(t.name)
		if len(commands) > 0 {
			absent, err := p.absent(ctx, it, commands)
			if err != nil {
				return nil, err
			}
			if len(absent) > 0 {
				t.failed = &failure{why: fmt.Sprintf("%s needs %s: %s: tools need %s in this or an outer item", t.name, strings.Join(absent, " and "), mise.Backend(t.name), runtime)}
				it.failTools()
				continue
			}
		}
		todo = append(todo, t)
	}
	return todo, nil
}

// doubtful reports whether a tool that looks whole may be the half of an installation that was killed or failed: no pass has
// verified it since.
func (it *item) doubtful(t *tool) bool {
	return it.dirty && !slices.Equal(it.verified[t.name], t.exact())
}

const absentScript = `for c; do command -v "$c" >/dev/null || printf '%s\0' "$c"; done`

// absent gives those commands that an item's installations would not find.
func (p *pass) absent(ctx context.Context, it *item, commands []string) ([]string, error) {
	out, _, err := p.ask(ctx, sandbox.Command{Argv: append([]string{"/bin/sh", "-c", absentScript, "sh"}, commands...), Env: p.env(it)})
	return splitNUL(out), err
}

func splitNUL(out []byte) []string {
	return slices.DeleteFunc(strings.Split(string(out), "\x00"), func(s string) bool { return s == "" })
}

// clear removes the folders of tools that were being installed when something ended that, so that no half of one remains. What
// another item of the set uses stays.
func (p *pass) clear(ctx context.Context, it *item, todo []*tool) error {
	used := map[string]bool{}
	for _, other := range p.items {
		for _, t := range other.tools {
			for _, v := range t.versions {
				if other != it && t.whole() {
					used[v.Path] = true
				}
			}
		}
	}
	rm := []string{"/bin/rm", "-rf", "--"}
	for _, t := range todo {
		for _, v := range t.versions {
			// Two levels below, and nothing else: the path is what the box says.
			if path.Clean(v.Path) == v.Path && path.Dir(path.Dir(v.Path)) == mise.Installs && !used[v.Path] {
				rm = append(rm, v.Path)
			}
		}
		t.versions, t.bins = nil, nil
	}
	_, _, err := p.ask(ctx, sandbox.Command{Argv: rm})
	return err
}

// mise installs tools of an item in one run, and reads back what is there then.
func (p *pass) mise(ctx context.Context, it *item, force bool, tools []*tool) (ended, error) {
	var names []string
	for _, t := range tools {
		names = append(names, t.name)
		if force || !t.installed() {
			t.scripts = nil
		}
	}
	text, _ := it.File(enplace.ItemMiseName)
	env := p.env(it, slices.Concat(it.place.Env(true), mise.RequestEnv(text), sandbox.GitByHTTPS())...)
	seen := newLifecycle(p.job.Log, tools)
	e, err := p.runInto(ctx, sandbox.Command{Argv: mise.Install(force, names...), Env: env, Dir: it.place.Pins()}, seen)
	if err != nil {
		return e, err
	}
	seen.ranFor(it, tools)
	return e, p.read(ctx, it)
}

// reason says in a line why a run of mise failed.
func (p *pass) reason(t *tool, e ended) string {
	if until, ok := p.refused(e); ok {
		if until.IsZero() {
			return "rate limited: its source was asked too often, and did not say for how long it refuses"
		}
		return "rate limited until " + until.UTC().Format("15:04") + " UTC"
	}
	if mise.Changed(e.printed) && t.isPinned() {
		return "what is fetched is no longer what its first installation gave, so it was not taken; if its source changed it on purpose, refresh the set"
	}
	if why := p.common(e, "mise"); why != "" {
		return why
	}
	if why := mise.Reason(e.printed); why != "" {
		return enplace.Shown(why, maxReason)
	}
	return fmt.Sprintf("mise ended with status %d, and did not say why", e.Code)
}

// maxWindow bounds for how long a source is left alone: GitHub counts by the hour, and what is read here may be anybody's word.
const maxWindow = time.Hour

// refused reports whether something failed because its source was asked too often, and until when that refuses.
func (p *pass) refused(e ended) (until time.Time, ok bool) {
	now := time.Now()
	until, ok = mise.RateLimited(e.printed, now)
	if !ok || e.ok() {
		return time.Time{}, false
	}
	if most := now.Add(maxWindow); until.After(most) {
		until = most
	}
	if until.After(p.limited) {
		p.limited = until
	}
	return until, true
}

// common gives the reasons that tools and scripts may fail for alike, or "".
func (p *pass) common(e ended, what string) string {
	switch {
	case e.refused != nil:
		return fmt.Sprintf("%s could not be started: %s", what, lastLine(e))
	case e.TimedOut:
		return fmt.Sprintf("%s did not end in %s, and was killed with all that it had started", what, p.job.Timeout)
	case strings.Contains(e.printed, "No space left on device") || strings.Contains(e.printed, "ENOSPC"):
		return what + " failed, and the disk of the computer is full"
	case e.Signal == "KILL":
		return what + " was killed by SIGKILL; the computer may have run out of memory"
	case e.Signal != "":
		return fmt.Sprintf("%s was ended by SIG%s", what, e.Signal)
	}
	return ""
}

// read asks what is there of an item's tools, and for its variables, which an item without tools may have, too. Where exact
// versions come out that mise was not told, it is told them and asked again: what it says of a range names folders that a later
// installation changes.
func (p *pass) read(ctx context.Context, it *item) error {
	if _, ok := it.File(enplace.ItemMiseName); !ok {
		return nil
	}
	var names []string
	for _, t := range it.tools {
		names = append(names, t.name)
	}
	for range 2 {
		// The box's own environment: what mise says of an item depends on no other.
		out, e, err := p.ask(ctx, sandbox.Command{Argv: mise.ReadBack(names), Env: append(sandbox.BaseEnv(), it.place.Env(false)...), Dir: it.place.Pins()})
		if err != nil {
			return err
		}
		found, err := mise.ParseRead(out, sandbox.BaseEnv(), p.room())
		if err != nil {
			it.addNote(fmt.Sprintf("mise could not say all of its tools: %v: %s", err, lastLine(e)))
		}
		for _, t := range it.tools {
			t.versions, t.bins = found.Versions[t.name], found.Bins[t.name]
			t.learn(found.Sources[t.name])
		}
		it.vars = found.Variables
		pins, text := it.pinnedFiles()
		if text == it.pins {
			return nil
		}
		if e, err = p.put(ctx, it.place.Pins(), pins); err != nil || !e.ok() {
			return err
		}
		it.pins = text
	}
	return nil
}
