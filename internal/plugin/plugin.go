// Package plugin reads a plugin's folder: which items it declares, and what is wrong with them. It needs no server, so that a
// plugin's own CI can ask the same questions. What it reads is a stranger's: every size and number is bounded, no link is
// followed out of an item, and nothing is run.
package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"enplace"
)

// Result is what a plugin declares.
type Result struct {
	Name        string               // as plugin.json says; "" where it does not
	Definitions []enplace.Definition // of the items without an error, by key
	Broken      map[string]string    // keys of the items with one, by folder; of those alone that say theirs
	Findings    []enplace.Finding    // by item, file and line; those of the plugin itself first
}

// Bounds of a plugin's folder.
const (
	maxEntries      = 10_000 // of one folder, those that do not count as well
	maxFolders      = enplace.MaxItemFiles
	maxFileFindings = 50
	maxManifest     = 1 << 20
)

// ManifestName is the file of a plugin that may say its name. Of what lies beside it, environments/ alone counts.
const ManifestName = "plugin.json"

// Read reads the items of a plugin: the folders of environments/ that have an environment.json. One that is wrong is left out
// and said in the findings, and the others are read all the same. An error is of reading the filesystem, never of what is in
// it. The filesystem says by Lstat and ReadLink (fs.ReadLinkFS) what is a link; the one of an os.Root does. Item of a finding is
// the Folder of the definition that it is about.
func Read(fsys fs.FS) (Result, error) {
	r := &reader{fsys: fsys, counts: map[string]int{}}
	if err := r.manifest(); err != nil {
		return Result{}, fmt.Errorf("reading %s: %w", ManifestName, err)
	}
	folders, err := r.folders()
	if err != nil {
		return Result{}, fmt.Errorf("reading %s: %w", enplace.ItemsFolder, err)
	}
	var items []*item
	for _, name := range folders {
		i, err := r.item(name)
		if err != nil {
			return Result{}, fmt.Errorf("reading %s: %w", enplace.Shown(path.Join(enplace.ItemsFolder, name), 200), err)
		}
		if i == nil {
			continue
		}
		if len(items) == enplace.MaxPluginItems {
			r.find(enplace.FindingError, "", enplace.ItemsFolder, 0, "the plugin has more than %d items, so none was read from %q on; split it", enplace.MaxPluginItems, enplace.Shown(name, 80))
			break
		}
		items = append(items, i)
	}
	if len(items) == 0 && len(r.findings) == 0 {
		r.find(enplace.FindingWarning, "", enplace.ItemsFolder, 0, "there is no item; one is a folder below %s with %s, and %s or %s or both", enplace.ItemsFolder, enplace.ItemFileName, enplace.ItemMiseName, enplace.ItemScriptName)
	}
	r.duplicates(items)
	return r.result(items), nil
}

// reader gathers what is found in one plugin.
type reader struct {
	fsys     fs.FS
	name     string
	findings []enplace.Finding
	counts   map[string]int // findings by file
}

// find adds a finding. After the first ones of a file nobody reads on, and the file may be a stranger's.
func (r *reader) find(s enplace.Severity, item, file string, line int, format string, args ...any) {
	if r.counts[file]++; r.counts[file] > maxFileFindings && s != enplace.FindingError || r.counts[file] > 2*maxFileFindings {
		return
	}
	r.findings = append(r.findings, enplace.Finding{Severity: s, Item: enplace.Shown(item, 255), File: enplace.Shown(file, 400), Line: line, Message: fmt.Sprintf(format, args...)})
}

// folders gives the names of the folders of environments/, sorted.
func (r *reader) folders() ([]string, error) {
	info, err := fs.Lstat(r.fsys, enplace.ItemsFolder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.find(enplace.FindingError, "", enplace.ItemsFolder, 0, "there is no folder %s, which holds a plugin's items; its name is fixed", enplace.ItemsFolder)
		return nil, nil
	case err != nil:
		return nil, err
	case !info.IsDir():
		r.find(enplace.FindingError, "", enplace.ItemsFolder, 0, "%s is no folder, or a link to one; it must be a real folder of the plugin", enplace.ItemsFolder)
		return nil, nil
	}
	entries, more, err := readDir(r.fsys, enplace.ItemsFolder)
	if err != nil {
		return nil, err
	}
	if more {
		r.find(enplace.FindingError, "", enplace.ItemsFolder, 0, "%s has more than %d entries, so none was read; split the plugin", enplace.ItemsFolder, maxEntries)
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		file := path.Join(enplace.ItemsFolder, e.Name())
		switch {
		case slices.Contains(enplace.NeverImported, e.Name()):
			description := path.Join(file, enplace.ItemFileName)
			if _, err := fs.Lstat(r.fsys, description); err == nil {
				r.findings = append(r.findings, NeverImported(description, e.Name()))
			}
		case e.IsDir():
			names = append(names, e.Name())
		case e.Type()&fs.ModeSymlink != 0:
			r.find(enplace.FindingWarning, "", file, 0, "%q is a link, and was ignored: an item is a real folder; copy what it links to", enplace.Shown(e.Name(), 80))
		case !e.Type().IsRegular():
			r.find(enplace.FindingWarning, "", file, 0, "%q is a device, a pipe or a socket, and was ignored: an item is a folder; take it out", enplace.Shown(e.Name(), 80))
		case e.Name() == enplace.ItemFileName || e.Name() == enplace.ItemMiseName || e.Name() == enplace.ItemScriptName:
			r.find(enplace.FindingWarning, "", file, 0, "%s was ignored: each item has a folder of its own below %s; move it into one", e.Name(), enplace.ItemsFolder)
		}
	}
	return names, nil
}

// readDir gives the entries of a folder, sorted by name, and says when there are more than it reads.
func readDir(fsys fs.FS, name string) (entries []fs.DirEntry, more bool, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	dir, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, false, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a folder")}
	}
	entries, err = dir.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, len(entries) > maxEntries, nil
}

// duplicates refuses every item whose key another one has as well: whichever were kept, the other would be missed.
func (r *reader) duplicates(items []*item) {
	byKey := map[string][]*item{}
	for _, i := range items {
		if i.def.Key != "" {
			byKey[i.def.Key] = append(byKey[i.def.Key], i)
		}
	}
	for key, same := range byKey {
		for _, i := range same {
			var others []string
			for _, o := range same {
				if o != i {
					others = append(others, enplace.Shown(o.file(enplace.ItemFileName), 120))
				}
			}
			if len(others) > 0 {
				i.errorf(enplace.ItemFileName, i.nameLine, "the key %q is also that of %s; give each item a name of its own", key, strings.Join(others[:min(len(others), 5)], ", "))
			}
		}
	}
}

func (r *reader) result(items []*item) Result {
	res := Result{Name: r.name, Findings: r.findings, Broken: map[string]string{}}
	for _, i := range items {
		switch {
		case !i.broken:
			res.Definitions = append(res.Definitions, i.def)
		case i.def.Key != "":
			res.Broken[i.folder] = i.def.Key
		}
	}
	slices.SortFunc(res.Definitions, func(a, b enplace.Definition) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortStableFunc(res.Findings, func(a, b enplace.Finding) int {
		return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
	})
	return res
}

// Rewrap gives the entries of an import with environments/ put back, where that was the single top folder that the import took
// off (enplace.ImportReport.Unwrapped): an archive of it alone is a plugin too.
func Rewrap(entries []enplace.TreeEntry, unwrapped string) []enplace.TreeEntry {
	if unwrapped != enplace.ItemsFolder {
		return entries
	}
	wrapped := slices.Clone(entries)
	for i := range wrapped {
		wrapped[i].Path = path.Join(enplace.ItemsFolder, wrapped[i].Path)
	}
	return wrapped
}
