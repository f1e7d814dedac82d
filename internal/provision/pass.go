package provision

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"enplace"
	"enplace/internal/mise"
	"enplace/internal/sandbox"
)

// pass is one Apply or Verify.
type pass struct {
	box   Box
	job   Job
	items []*item
	mend  bool // a script may have been killed while it installed packages

	answering time.Duration // what is left for starting commands

	limited time.Time // until when a source refuses to be asked again; zero where none said so
}

// item is an item of the set in a pass.
type item struct {
	enplace.SetItem
	at    int // its place in the set
	place mise.Place
	have  *enplace.InstalledItem // nil where it was never begun, or had another definition
	dirty bool                   // an earlier installation did not end well, whatever its definition was
	tools []*tool
	now   enplace.InstalledItem
	vars  []string // KEY=value: what its tools export
	paths []string // folders that it puts on PATH
	pins  string   // what says exact versions, as it was written last

	verified map[string][]string // exact versions by tool, that this pass or an earlier one found whole, whatever the definition was
	scripted bool                // its setup.sh ran in this pass
	mute     bool                // all was done, and a command of it did not start yet
	spent    time.Duration       // but for what has gone by since began
	began    time.Time           // zero while nothing is done for it
}

// tool is a tool of an item: one name, with every version that is asked for.
type tool struct {
	name     string
	asked    []string
	pinned   []string // exact versions to install; empty leaves it to what is asked for
	versions []mise.Version
	bins     []mise.Bin
	sources  map[string]enplace.ToolSource // where versions are fetched from, and what comes, as far as it is known
	scripts  []string                      // packages whose install scripts ran, with the scripts' names
	silent   *failure                      // why a command of it did not start when it was tried last
	failed   *failure
}

// failure is why a tool or a script failed.
type failure struct {
	why  string // one line
	tail string
}

// installed reports whether mise ended the installation of every version.
func (t *tool) installed() bool {
	return len(t.versions) == len(t.asked) && !slices.ContainsFunc(t.versions, func(v mise.Version) bool { return !v.Installed })
}

// whole reports whether it is there and of use.
func (t *tool) whole() bool { return t.installed() && len(t.bins) > 0 }

func (t *tool) exact() []string {
	var out []string
	for _, v := range t.versions {
		out = append(out, v.Version)
	}
	return out
}

func (t *tool) commands() []string {
	var out []string
	for _, b := range t.bins {
		out = append(out, b.Commands...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func newPass(box Box, job Job) *pass {
	job.Timeout = cmp.Or(job.Timeout, enplace.DefaultScriptTimeout)
	p := &pass{box: box, job: job, answering: min(answerBudget, job.Timeout)}
	for n, si := range job.Set.Items {
		it := &item{SetItem: si, at: n, place: placeOf(si), verified: map[string][]string{}}
		for i := range job.Have {
			h := &job.Have[i]
			if h.Scope != si.Scope || h.Key != si.Key {
				continue
			}
			it.dirty = h.Status == enplace.ItemInstalling || h.Status == enplace.ItemInterrupted || h.Status == enplace.ItemFailed
			p.mend = p.mend || it.dirty
			it.verified = resolved(h)
			if h.Definition == si.Hash() {
				it.have = h
			}
		}
		for _, d := range si.Tools {
			if !slices.ContainsFunc(it.tools, func(t *tool) bool { return t.name == d.Name }) {
				it.tools = append(it.tools, &tool{name: d.Name})
			}
			t := it.tools[slices.IndexFunc(it.tools, func(t *tool) bool { return t.name == d.Name })]
			t.asked = append(t.asked, d.Version)
		}
		for _, t := range it.tools {
			t.pinned = p.pinned(it, t)
			p.remember(it, t)
		}
		text, _ := it.File(enplace.ItemMiseName)
		it.paths = mise.Paths(text)
		it.now = enplace.InstalledItem{Key: si.Key, Scope: si.Scope, Status: enplace.ItemPending, Definition: si.Hash()}
		p.items = append(p.items, it)
	}
	return p
}

// placeOf gives an item its folder: the scope's words are its path.
func placeOf(i enplace.SetItem) mise.Place {
	return mise.Place(path.Join(mise.Own, "items", strings.ReplaceAll(string(i.Scope), ":", "/"), i.Key))
}

// pinned gives the versions that a tool is to have: those of the job, or those that it had with the same definition.
func (p *pass) pinned(it *item, t *tool) []string {
	if v := strings.Fields(p.job.Versions[VersionKey(it.Scope, it.Key, t.name)]); len(v) == len(t.asked) {
		return v
	}
	if had := it.verified[t.name]; it.have != nil && len(had) == len(t.asked) {
		return had
	}
	return nil
}

// resolved gives the exact versions of an item's tools as they were recorded.
func resolved(i *enplace.InstalledItem) map[string][]string {
	had := map[string][]string{}
	for _, s := range i.Tools {
		if s.Resolved != "" {
			had[s.Name] = append(had[s.Name], s.Resolved)
		}
	}
	return had
}

// env gives the environment of an item's installations: what its own tools and those of the items before it gave comes first.
func (p *pass) env(it *item, more ...string) []string {
	var dirs []string
	vars := map[string]string{}
	for i := it.at; i >= 0; i-- {
		for _, b := range p.items[i].bins() {
			dirs = append(dirs, b.Dir)
		}
	}
	dirs = append(dirs, p.search(p.items[:it.at+1])...)
	for _, before := range p.items[:it.at+1] {
		for _, v := range before.vars {
			name, value, _ := strings.Cut(v, "=")
			vars[name] = value
		}
	}
	for _, v := range more {
		name, value, _ := strings.Cut(v, "=")
		vars[name] = value
	}
	return sandbox.Env(dirs, vars)
}

// maxSearch bounds the folders of items on PATH, in bytes: with a variable of 128 KiB the kernel starts nothing.
const maxSearch = 64 << 10

// search gives the folders that items put on PATH, those of the last first.
func (p *pass) search(items []*item) []string {
	var dirs []string
	room := maxSearch
	for _, it := range slices.Backward(items) {
		for _, dir := range it.paths {
			if slices.Contains(dirs, dir) {
				continue
			}
			if room -= len(dir) + 1; room < 0 {
				it.addNote("not all of its folders are on PATH: those of all items would take more than 64 KiB")
				return dirs
			}
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// bins gives an item's folders of commands, the first to be searched first: a tool that is asked for by name comes before a
// runtime, which brings commands beside its own.
func (it *item) bins() []mise.Bin {
	var first, last []mise.Bin
	for _, t := range it.tools {
		if mise.Runtime(t.name) {
			last = append(last, t.bins...)
		} else {
			first = append(first, t.bins...)
		}
	}
	return append(first, last...)
}

// report tells how an item stands.
func (p *pass) report(it *item, status enplace.ItemStatus) {
	it.now.Status = status
	it.now.ElapsedMS = it.spent.Milliseconds()
	if !it.began.IsZero() {
		it.now.ElapsedMS += time.Since(it.began).Milliseconds()
	}
	it.now.Tools = []enplace.ToolStatus{}
	nth := map[string]int{}
	for _, d := range it.Tools {
		t := it.tool(d.Name)
		s := enplace.ToolStatus{Name: d.Name, Requested: d.Version, Status: it.standing(t)}
		if t.whole() && t.failed == nil { // one that failed is installed again
			s.Resolved, s.Commands, s.Scripts = t.versions[nth[d.Name]].Version, t.commands(), t.scripts
			if from, ok := t.sources[s.Resolved]; ok {
				s.Source = &from
			}
		}
		nth[d.Name]++
		it.now.Tools = append(it.now.Tools, s)
	}
	if p.job.Progress != nil {
		now := it.now
		now.Notes = slices.Clone(now.Notes)
		p.job.Progress(now)
	}
}

// standing gives how a tool stands, whatever else fails its item.
func (it *item) standing(t *tool) enplace.ItemStatus {
	switch {
	case t.failed != nil:
		return enplace.ItemFailed
	case t.whole() && t.silent == nil && !it.doubtful(t):
		return enplace.ItemInstalled
	case it.now.Status == enplace.ItemFailed: // by something else, and this is not there: its turn did not come
		return enplace.ItemPending
	}
	return it.now.Status
}

func (it *item) has(name string) bool {
	return slices.ContainsFunc(it.tools, func(t *tool) bool { return t.name == name })
}

func (it *item) tool(name string) *tool {
	return it.tools[slices.IndexFunc(it.tools, func(t *tool) bool { return t.name == name })]
}

// fail records the first failure of an item; what comes after follows from it.
func (it *item) fail(f *failure) {
	if it.now.Error == "" {
		it.now.Error, it.now.ErrorTail = f.why, tailOf(f.tail, enplace.MaxErrorTail)
	}
}

// maxNotes bounds what is noted of an item; the box could have any number of notes made.
const maxNotes = 20

func (it *item) addNote(note string) {
	if len(it.now.Notes) < maxNotes && !slices.Contains(it.now.Notes, note) {
		it.now.Notes = append(it.now.Notes, note)
	}
}

// room is how many bytes of commands and variables each item of the set may have: all are kept with the computer, and set for its
// commands. An item that a person wrote has some dozens of names.
func (p *pass) room() int {
	const whole, most, least = 512 << 10, 32 << 10, 4 << 10
	return max(min(whole/max(len(p.items), 1), most), least)
}

// result is how the items stand now.
func (p *pass) result() Result {
	r := Result{Limited: max(time.Until(p.limited), 0), Items: make([]enplace.InstalledItem, 0, len(p.items)), Exports: []string{}}
	vars := map[string]string{}
	if dirs := p.search(p.ranked()); len(dirs) > 0 {
		vars["PATH"] = "PATH=" + strings.Join(dirs, ":")
	}
	for _, it := range p.items {
		r.Items = append(r.Items, it.now)
	}
	for _, it := range p.ranked() {
		for _, v := range it.vars {
			name, _, _ := strings.Cut(v, "=")
			vars[name] = v
		}
	}
	for _, v := range vars {
		r.Exports = append(r.Exports, v)
	}
	slices.Sort(r.Exports)
	return r
}

// timed adds what f takes to the time of an item.
func (it *item) timed(f func() error) error {
	it.began = time.Now()
	defer func() {
		it.spent += time.Since(it.began)
		it.began = time.Time{}
	}()
	return f()
}

// interrupt records the items that were under way when a context ended or the box stopped.
func (p *pass) interrupt() {
	for _, it := range p.items {
		if it.now.Status == enplace.ItemInstalling {
			p.report(it, enplace.ItemInterrupted)
		}
	}
}
