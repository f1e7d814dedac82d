package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"enplace"
	"enplace/internal/mise"
	"enplace/internal/sandbox"
)

// Apply brings a set onto a box: runtimes first, then each item's other tools, then its setup.sh, item by item in the set's
// order; later items run even when an earlier one failed. It reads back what is there, writes the shims' index, and gives how
// each item stands. The error is only for a box that stopped or a context that ended, and comes with how far it got; an item's
// failure is in the Result.
//
// Nothing is uninstalled. What a setup.sh leaves running is killed at its end: a computer is stopped when nobody uses it and
// started with the next command, so what has to run must be started by whoever needs it.
func Apply(ctx context.Context, box Box, job Job) (Result, error) {
	p := newPass(box, job)
	err := p.apply(ctx)
	if err != nil {
		p.interrupt()
	}
	return p.result(), err
}

// Verify looks whether what a bundle or an earlier Apply gave is really there, without the network: every declared tool's
// folder and commands exist and are executable, versions as recorded. An item that is not whole comes back as pending with a
// note. It writes the index. The error is as Apply's.
func Verify(ctx context.Context, box Box, job Job) (Result, error) {
	p := newPass(box, job)
	lacks, err := p.look(ctx, p.items)
	if err != nil {
		return p.result(), err
	}
	for _, it := range p.items {
		p.judge(it, lacks[it])
	}
	err = p.index(ctx)
	return p.result(), err
}

func (p *pass) apply(ctx context.Context) error {
	todo, err := p.keep(ctx)
	if err != nil {
		return err
	}
	if err := p.fetch(ctx); err != nil {
		return err
	}
	if p.mend {
		if err := p.mendPackages(ctx); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context, *item) error{p.runtimes, p.rest} {
		for _, it := range todo {
			if err := it.timed(func() error { return step(ctx, it) }); err != nil {
				return err
			}
		}
	}
	for _, it := range todo {
		if !it.mute {
			continue
		}
		if err := it.timed(func() error { return p.settle(ctx, it, true) }); err != nil {
			return err
		}
	}
	if len(todo) > 0 {
		if _, _, err := p.ask(ctx, sandbox.Command{Argv: []string{"/bin/rm", "-rf", mise.Caches}}); err != nil {
			return err
		}
	}
	return p.index(ctx)
}

// keep leaves the items alone that are installed already, and whole; it gives those that are to be installed.
func (p *pass) keep(ctx context.Context) (todo []*item, err error) {
	var there []*item
	for _, it := range p.items {
		if it.have != nil && it.have.Status == enplace.ItemInstalled {
			there = append(there, it)
		}
	}
	lacks, err := p.look(ctx, there)
	if err != nil {
		return nil, err
	}
	for _, it := range p.items {
		switch {
		case !slices.Contains(there, it):
			todo = append(todo, it)
		case len(lacks[it]) > 0:
			p.note("%s of %s is installed again: %s", it.Key, it.Scope, strings.Join(lacks[it], "; "))
			it.dirty = true
			todo = append(todo, it)
		default:
			it.keep()
			p.report(it, enplace.ItemInstalled)
		}
	}
	return todo, nil
}

// keep takes over what is known of an item that stays as it is.
func (it *item) keep() {
	it.now.Notes, it.now.Error, it.now.ErrorTail = slices.Clone(it.have.Notes), it.have.Error, it.have.ErrorTail
	it.spent = time.Duration(it.have.ElapsedMS) * time.Millisecond
}

// judge says how an item stands that lacks these.
func (p *pass) judge(it *item, lacks []string) {
	status := enplace.ItemPending
	switch {
	case it.have == nil:
	case it.have.Status == enplace.ItemInstalled && len(lacks) > 0:
		it.now.Notes = []string{strings.Join(lacks, "; ")}
	default:
		it.keep()
		status = it.have.Status
	}
	p.report(it, status)
}

// lookedAt is how many items are looked at at once: most of the time goes by in processes of the box.
const lookedAt = 4

// look puts the files of items in place, reads back what there is of their tools, and says what each lacks.
func (p *pass) look(ctx context.Context, items []*item) (map[*item][]string, error) {
	lacks := make([][]string, len(items))
	errs := make([]error, len(items))
	places := make(chan struct{}, lookedAt)
	var wg sync.WaitGroup
	for i, it := range items {
		places <- struct{}{}
		wg.Go(func() {
			lacks[i], errs[i] = p.lookAt(ctx, it)
			<-places
		})
	}
	wg.Wait()
	byItem := map[*item][]string{}
	for i, it := range items {
		byItem[it] = lacks[i]
	}
	return byItem, errors.Join(errs...)
}

func (p *pass) lookAt(ctx context.Context, it *item) (lacks []string, err error) {
	e, err := p.lay(ctx, it)
	if err != nil {
		return nil, err
	}
	if !e.ok() {
		return []string{"its files could not be written: " + lastLine(e)}, nil
	}
	if err := p.read(ctx, it); err != nil {
		return nil, err
	}
	for _, t := range it.tools {
		if why := it.lack(t); why != "" {
			lacks = append(lacks, why)
			delete(it.verified, t.name)
		}
	}
	return lacks, nil
}

// lack says what is not as it was recorded of a tool, or "".
func (it *item) lack(t *tool) string {
	if !t.installed() {
		return t.name + " is not there"
	}
	if len(t.bins) == 0 {
		return t.name + " has no commands"
	}
	if gone := it.gone(t); len(gone) > 0 {
		return fmt.Sprintf("%s of %s is gone", enplace.Shown(strings.Join(gone, ", "), maxReason), t.name)
	}
	return ""
}

// gone gives the commands that a tool was recorded with and does not have.
func (it *item) gone(t *tool) (gone []string) {
	if it.have == nil {
		return nil
	}
	there := t.commands()
	for _, s := range it.have.Tools {
		for _, c := range s.Commands {
			if s.Name == t.name && !slices.Contains(there, c) && !slices.Contains(gone, c) {
				gone = append(gone, c)
			}
		}
	}
	return gone
}

// runtimes installs the language runtimes of an item, so that they are there for every item that comes after.
func (p *pass) runtimes(ctx context.Context, it *item) error {
	if !slices.ContainsFunc(it.tools, func(t *tool) bool { return mise.Runtime(t.name) }) {
		return nil
	}
	p.note("installing the runtimes of %s of %s", it.Key, it.Scope)
	begun, err := p.begin(ctx, it)
	if err != nil || !begun {
		return err
	}
	return p.install(ctx, it, true)
}

// rest installs the other tools of an item, and runs its script when they are all there.
func (p *pass) rest(ctx context.Context, it *item) error {
	if it.now.Status == enplace.ItemFailed {
		return nil
	}
	p.note("installing %s of %s", it.Key, it.Scope)
	begun, err := p.begin(ctx, it)
	if err != nil || !begun {
		return err
	}
	// A script of an item before this one may have removed the runtimes, so those that are not there come along.
	for _, runtimes := range []bool{true, false} {
		if err := p.install(ctx, it, runtimes); err != nil {
			return err
		}
	}
	if it.now.Error == "" {
		if err := p.script(ctx, it); err != nil {
			return err
		}
	}
	if it.now.Error != "" {
		p.failed(it)
		return nil
	}
	return p.settle(ctx, it, false)
}

// begin records that an item is being installed, before anything of it is done, and puts its files in place: again for each
// part, because a script may have removed them.
func (p *pass) begin(ctx context.Context, it *item) (begun bool, err error) {
	p.report(it, enplace.ItemInstalling)
	e, err := p.lay(ctx, it)
	if err != nil {
		return false, err
	}
	if !e.ok() {
		it.fail(&failure{"its files could not be written: " + lastLine(e), e.printed})
		p.failed(it)
		return false, nil
	}
	if it.dirty || len(it.tools) == 0 { // an installation of tools reads back by itself
		err = p.read(ctx, it)
	}
	return err == nil, err
}

func (p *pass) failed(it *item) {
	p.note("%s of %s failed: %s", it.Key, it.Scope, it.now.Error)
	p.report(it, enplace.ItemFailed)
}

// aptConf is for bases that do not have it themselves: whoever holds the lock is waited for, and nothing is asked.
const aptConf = `DPkg::Lock::Timeout "600";
Binary::apt::DPkg::Lock::Timeout "600";
Dpkg::Use-Pty "0";
Dpkg::Options { "--force-confdef"; "--force-confold"; };
`

// lay puts an item's files into the box, with the versions that its tools are to have.
func (p *pass) lay(ctx context.Context, it *item) (ended, error) {
	pins, text := it.pinnedFiles()
	files := map[string]string{"apt/apt.conf": aptConf}
	for _, f := range it.Files {
		files["files/"+f.Path] = f.Content
	}
	for name, content := range pins {
		files["pins/"+name] = content
	}
	it.pins = text
	return p.put(ctx, string(it.place), files)
}

// lastLine gives what a command said last, for a message.
func lastLine(e ended) string {
	if e.refused != nil {
		return enplace.Shown(message(e.refused), maxReason)
	}
	lines := strings.Split(strings.TrimSpace(e.printed), "\n")
	return enplace.Shown(lines[len(lines)-1], maxReason)
}

// maxReason bounds what of a stranger's output goes into a line for people, in bytes.
const maxReason = 300
