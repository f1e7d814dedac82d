package provision

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/guest"
	"enplace/internal/mise"
)

// shims gives what the set's shims do. Of one command that several items give, that of the item heard before the others is taken,
// whether it is there or not: no other version runs in silence.
func (p *pass) shims() []guest.Shim {
	all := map[string]guest.Shim{}
	for _, it := range p.ranked() {
		for _, t := range it.tools {
			names := it.expected(t)
			if t.whole() {
				names = nil
				if it.now.Status == enplace.ItemPending {
					names = it.gone(t)
				}
			}
			for _, name := range names {
				all[name] = guest.Shim{Name: name, Item: it.Key, Scope: string(it.Scope), Failed: it.excuse(t)}
			}
		}
		for _, b := range slices.Backward(it.bins()) { // the first to be searched is set last
			for _, name := range b.Commands {
				all[name] = guest.Shim{Name: name, Target: path.Join(b.Dir, name), Item: it.Key, Scope: string(it.Scope)}
			}
		}
	}
	var list []guest.Shim
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}

// ranked gives the items in the order in which commands hear them: the last has its way.
func (p *pass) ranked() []*item {
	ranked := slices.Clone(p.items)
	slices.SortStableFunc(ranked, func(a, b *item) int { return enplace.ByPrecedence(a.SetItem, b.SetItem) })
	return ranked
}

// expected gives the commands that a tool which is not there would have: those that it had, and those that its name promises.
func (it *item) expected(t *tool) []string {
	names := mise.Guess(t.name)
	if it.have != nil {
		for _, s := range it.have.Tools {
			if s.Name == t.name {
				names = append(names, s.Commands...)
			}
		}
	}
	return names
}

// excuse says why a tool is not there.
func (it *item) excuse(t *tool) string {
	switch {
	case t.failed != nil:
		return t.failed.why
	case it.now.Error != "":
		return it.now.Error
	case it.now.Status == enplace.ItemInterrupted:
		return "its installation was interrupted, and is to be done again"
	}
	return "it is not installed yet"
}

// index writes the shims of the set, and notes what they say back.
func (p *pass) index(ctx context.Context) error {
	commands := p.shims()
	out, e, err := p.ask(ctx, guest.WriteShims(guest.ShimIndex{Set: p.job.Set.Hash, Default: p.job.Default, Commands: commands}))
	if err != nil {
		return err
	}
	var written guest.WrittenShims
	if why := json.Unmarshal(out, &written); why != nil || !e.ok() {
		p.unreachable(fmt.Sprintf("the shims of the set could not be written (status %d): %s", e.Code, lastLine(e)))
		return nil
	}
	owner := map[string]*item{}
	for _, c := range commands {
		owner[c.Name] = p.items[slices.IndexFunc(p.items, func(it *item) bool { return it.Key == c.Item && string(it.Scope) == c.Scope })]
	}
	for _, r := range written.Refused {
		if it := owner[r.Name]; it != nil {
			it.addNote(fmt.Sprintf("the command %s of %s has no shim: %s", enplace.Shown(r.Name, 80), it.Key, enplace.Shown(r.Reason, maxReason)))
		}
	}
	if len(written.Replaced) > 0 {
		for _, it := range p.items {
			if it.scripted {
				it.addNote("something else stood in the place of shims, and was replaced: " + enplace.Shown(strings.Join(written.Replaced, ", "), maxReason))
			}
		}
		p.note("replaced in the folder of shims: %s", enplace.Shown(strings.Join(written.Replaced, ", "), maxReason))
	}
	return nil
}

// unreachable fails every item that brings a command: nobody can call it.
func (p *pass) unreachable(why string) {
	p.note("%s", why)
	for _, it := range p.items {
		if len(it.bins()) > 0 && it.now.Status == enplace.ItemInstalled {
			it.fail(&failure{why: why})
			p.report(it, enplace.ItemFailed)
		}
	}
}
