package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"enplace"
)

// collector gathers the entries of one import. Contents go to the sink as they come; names are only held until finish has
// seen all of them.
type collector struct {
	sink    Sink
	l       limits
	entries map[string]enplace.TreeEntry
	folders map[string]bool // those with an entry of their own, for clashes
	commit  string

	scanned   int
	written   int64
	nameBytes int64

	skipped, replaced, renamed tally
	lfs                        map[enplace.Digest]bool // pointers to Git LFS

	refused     []Refused
	backslashes []string // the names of a Unix archive that were split at backslashes, as it has them; without a part the first one
	slashed     bool     // whether any name is split at slashes

	top  string // the first component of all names so far
	many bool   // there is more than one
}

func newCollector(sink Sink, l limits) *collector {
	return &collector{sink: sink, l: l, entries: map[string]enplace.TreeEntry{}, folders: map[string]bool{}, lfs: map[enplace.Digest]bool{}}
}

// MacOSFiles is the rule for the files that macOS adds to archives and volumes.
const MacOSFiles = "macOS metadata"

// skipRule reports the rule that leaves a name out, or "".
func skipRule(name string) string {
	if rule := enplace.ImportSkips(name); rule != "" {
		return rule
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "__MACOSX" || part == ".DS_Store" || strings.HasPrefix(part, "._") {
			return MacOSFiles
		}
	}
	return ""
}

// name makes the path that an entry stands at from the name that the archive has. Every entry passes here once.
func (c *collector) name(raw string, dos, folder bool) (name string, skip bool, err error) {
	if c.scanned++; c.scanned > c.l.scanned {
		return "", false, enplace.TooLargef("the archive has more than %d entries, skipped ones counted; leave out what is never imported, such as node_modules and .venv", c.l.scanned)
	}
	name = clean(raw)
	if name == "" {
		return "", true, nil
	}
	// A name that is left out need not be one that could be imported, as long as it does stay where it says it is.
	stays := !slices.Contains(strings.Split(name, "/"), "..") && name[0] != '/'
	if stays && c.leavesOut(name, folder) {
		return "", true, nil
	}
	if err := enplace.CheckPath(name); err != nil {
		if drive := len(name) > 1 && name[1] == ':'; c.l.part.all() || !stays || drive {
			return "", false, err
		}
		c.below(name, folder)
		return "", true, c.refuse(name, enplace.Invalidf("%s; rename it", message(err)))
	}
	if strings.Contains(raw, `\`) {
		if !dos && (len(c.backslashes) == 0 || !c.l.part.all()) {
			c.backslashes = append(c.backslashes, raw)
		}
		c.renamed.add(`separated by \ in the archive`, name)
	} else if strings.Contains(raw, "/") {
		c.slashed = true
	}
	c.below(name, folder)
	return name, false, c.hold(name)
}

// leavesOut reports whether a name is never imported, or lies beside the part that is wanted. What macOS adds says nothing of a
// single top folder, wherever it lies.
func (c *collector) leavesOut(name string, folder bool) bool {
	rule, beside := skipRule(name), !c.l.part.has(name)
	if rule == "" && !beside {
		return false
	}
	if !beside && !folder {
		c.skipped.add(rule, name)
	}
	if rule != MacOSFiles {
		c.below(name, folder || rule != "")
	}
	return true
}

// clean takes off a leading "./" and a folder's trailing slash, and makes slashes of backslashes: either the import is
// refused in the end or that is what they meant.
func clean(raw string) string {
	name := strings.ReplaceAll(raw, `\`, "/")
	for strings.HasPrefix(name, "./") {
		name = name[2:]
	}
	if name != "/" {
		name = strings.TrimSuffix(name, "/")
	}
	if name == "." {
		return ""
	}
	return name
}

// below keeps track of a single top folder.
func (c *collector) below(name string, folder bool) {
	top, _, deeper := strings.Cut(name, "/")
	if skipRule(top) != "" || !deeper && !folder || c.top != "" && c.top != top {
		c.many = true
	}
	c.top = top
}

// hold counts the bytes of names that are kept.
func (c *collector) hold(s string) error {
	if c.nameBytes += int64(len(s)); c.nameBytes > c.l.nameBytes {
		return enplace.TooLargef("the paths of the archive add up to more than %s; shorten them or leave some out", size(c.l.nameBytes))
	}
	return nil
}

func (c *collector) put(e enplace.TreeEntry) error {
	if _, ok := c.entries[e.Path]; ok {
		c.replaced.add("came again later in the archive; the last one counts", e.Path)
	}
	c.entries[e.Path] = e
	return c.bounded()
}

// bounded refuses one entry more than there may be.
func (c *collector) bounded() error {
	if len(c.entries)+len(c.refused) > c.l.entries {
		return enplace.TooLargef("the archive has more than %d files and links, the limit for one environment; leave some out", c.l.entries)
	}
	return nil
}

// folder notes a folder that has an entry of its own. Trees know folders only by what is in them.
func (c *collector) folder(name string) error {
	c.folders[name] = true
	if len(c.folders) > c.l.entries {
		return enplace.TooLargef("the archive has more than %d folders; leave some out", c.l.entries)
	}
	return nil
}

// link notes a symbolic link. Its target is checked in finish, where the final path is known.
func (c *collector) link(name, target string) error {
	if err := c.hold(target); err != nil {
		return err
	}
	return c.put(enplace.TreeEntry{Path: name, Type: enplace.EntryLink, Target: target})
}

// hardLink makes a copy of an entry that came before.
func (c *collector) hardLink(name, rawTarget string) error {
	target := clean(rawTarget)
	e, ok := c.entries[target]
	if !ok || e.Type != enplace.EntryFile {
		return c.refuse(name, enplace.Invalidf("is a hard link to %q, which is no file that was imported before it; store it as a file", shown(target)).WithField(shown(name)))
	}
	if err := c.count(name, e.Size); err != nil {
		return err
	}
	e.Path = name
	return c.put(e)
}

// count adds what was written, and refuses one byte more than the tree may have.
func (c *collector) count(name string, n int64) error {
	if c.written += n; c.written > c.l.treeBytes {
		return enplace.TooLargef("brings the import to more than %s, the limit for all files; leave some out", size(c.l.treeBytes)).WithField(shown(name))
	}
	return nil
}

// file streams a file to the sink.
func (c *collector) file(ctx context.Context, name string, executable bool, r io.Reader) error {
	m := &fileReader{r: c.l.part.limit(r), c: c, name: name}
	digest, n, err := c.sink.Add(ctx, m, c.l.fileBytes)
	switch {
	case m.err != nil:
		return m.err
	case enplace.KindOf(err) == enplace.KindTooLarge:
		return c.fileTooLarge(name)
	case err != nil:
		return &sinkError{fmt.Errorf("keeping %q: %w", shown(name), err)}
	}
	if m.isLFS() {
		c.lfs[digest] = true
	}
	return c.put(enplace.TreeEntry{Path: name, Type: enplace.EntryFile, Size: n, Executable: executable, Digest: digest})
}

func (c *collector) fileTooLarge(name string) error {
	return enplace.TooLargef("is larger than %s, the limit for one file; leave it out, or download it in the build", size(c.l.fileBytes)).WithField(shown(name))
}

// fileReader counts the bytes of a file as they are read, and remembers why reading ended.
type fileReader struct {
	r    io.Reader
	c    *collector
	name string
	n    int64
	head []byte
	err  error
}

func (f *fileReader) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.r.Read(p)
	f.head = append(f.head, p[:min(n, max(0, len(lfsHeader)-len(f.head)))]...)
	if f.n += int64(n); f.n > f.c.l.fileBytes {
		f.err = f.c.fileTooLarge(f.name)
	} else if f.err = f.c.count(f.name, int64(n)); f.err == nil && err != io.EOF {
		f.err = err
	}
	if f.err != nil {
		return 0, f.err
	}
	return n, err
}

// lfsHeader begins every pointer file of Git LFS, none of which is larger than 1 KiB.
const lfsHeader = "version https://git-lfs.github.com/spec/"

func (f *fileReader) isLFS() bool { return f.n < 1024 && string(f.head) == lfsHeader }

// sinkError is a failure to keep bytes, which is not the archive's.
type sinkError struct{ error }

func (e *sinkError) Unwrap() error { return e.error }

// finish checks what can be known only of all entries together, and gives the result.
func (c *collector) finish(unwrap bool) (Result, error) {
	if err := c.separated(); err != nil {
		return Result{}, err
	}
	if len(c.entries) == 0 && (c.l.part.all() || c.scanned == 0) {
		return Result{}, c.nothing()
	}
	report := enplace.ImportReport{Commit: c.commit, Skipped: append(c.skipped.counts, c.replaced.counts...), Renamed: c.renamed.counts}
	if unwrap && !c.many {
		report.Unwrapped = c.top
	}
	if err := c.clashes(); err != nil {
		return Result{}, err
	}
	entries := make([]enplace.TreeEntry, 0, len(c.entries))
	for _, e := range c.entries {
		if report.Unwrapped != "" {
			e.Path = strings.TrimPrefix(e.Path, report.Unwrapped+"/")
		}
		if e.Type == enplace.EntryLink {
			if err := enplace.CheckLink(e.Path, e.Target); err != nil && c.l.part.all() {
				return Result{}, err
			}
		} else {
			report.Bytes += e.Size
		}
		entries = append(entries, e)
	}
	for i := range c.refused {
		if report.Unwrapped != "" {
			c.refused[i].Path = strings.TrimPrefix(c.refused[i].Path, report.Unwrapped+"/")
		}
	}
	slices.SortFunc(c.refused, func(a, b Refused) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(entries, func(a, b enplace.TreeEntry) int { return cmp.Compare(a.Path, b.Path) })
	report.Imported = len(entries)
	if c.l.part.all() { // who wants a part judges the files of it
		report.Notes = c.notes(entries)
	}
	return Result{Entries: entries, Report: report, Refused: c.refused}, nil
}

func (c *collector) nothing() error {
	if len(c.skipped.counts) > 0 {
		return enplace.Invalidf("there is nothing to import: all there is is never imported (%s, such as %q)", c.skipped.counts[0].Rule, c.skipped.counts[0].Examples[0])
	}
	return enplace.Invalidf("there is nothing to import: no files and no links")
}

// clashes refuses a file or link at a path where the archive also has a folder.
func (c *collector) clashes() error {
	names := make([]string, 0, len(c.entries)+len(c.folders))
	for name := range c.entries {
		names = append(names, name)
	}
	for name := range c.folders {
		if _, ok := c.entries[name]; ok {
			if err := c.clash(name, name); err != nil {
				return err
			}
		}
		names = append(names, name)
	}
	// With the slash before every other character what is below a name follows it at once.
	slices.SortFunc(names, byFolder)
	for i := range len(names) - 1 {
		if _, ok := c.entries[names[i]]; ok && strings.HasPrefix(names[i+1], names[i]+"/") {
			if err := c.clash(names[i], names[i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *collector) clash(name, below string) error {
	delete(c.entries, name)
	return c.refuse(name, enplace.Invalidf("is a file or link, and a folder too (%q); rename one of them", shown(below)).WithField(shown(name)))
}

// byFolder compares as strings.Compare does, with the slash before all other bytes.
func byFolder(a, b string) int {
	for i := range min(len(a), len(b)) {
		if x, y := a[i], b[i]; x != y {
			if x == '/' {
				return -1
			}
			if y == '/' {
				return 1
			}
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}

// notes tells what the person who imports should know of.
func (c *collector) notes(entries []enplace.TreeEntry) []string {
	var secrets, pointers, notes []string
	for _, e := range entries {
		if base := path.Base(e.Path); e.Type == enplace.EntryFile && isDotEnv(base) {
			secrets = append(secrets, e.Path)
		}
		if c.lfs[e.Digest] {
			pointers = append(pointers, e.Path)
		}
	}
	if len(secrets) > 0 {
		notes = append(notes, fmt.Sprintf("%s imported; tasks can read what is in there", wasWere(secrets)))
	}
	if len(pointers) > 0 {
		notes = append(notes, fmt.Sprintf("%s imported as a pointer: the content is in Git LFS, which is not fetched", wasWere(pointers)))
	}
	return notes
}

// isDotEnv knows .env and .env.local, but not the examples that projects show.
func isDotEnv(base string) bool {
	rest, ok := strings.CutPrefix(base, ".env")
	return ok && (rest == "" || rest[0] == '.') && !slices.Contains([]string{".example", ".sample", ".template", ".dist", ".defaults"}, rest)
}

// isOwn reports whether the error is for people or of this package's surroundings, and says nothing of the archive.
func isOwn(err error) bool {
	var s *sinkError
	return enplace.KindOf(err) != enplace.KindInternal || errors.As(err, &s) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
