package plugin

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/mise"
)

// item is one item as it is read.
type item struct {
	r        *reader
	folder   string
	def      enplace.Definition
	nameLine int // of the name in environment.json
	broken   bool

	files   map[string]string // normalised, by path
	links   map[string]string // targets, by path
	bytes   int64             // as read
	entries int               // files and links
	folders int
	stopped bool // a bound was passed; the rest was not read
}

// item reads the item of a folder; nil where the folder is none.
func (r *reader) item(folder string) (*item, error) {
	i := &item{r: r, folder: folder, def: enplace.Definition{Folder: folder}, files: map[string]string{}, links: map[string]string{}}
	if !fs.ValidPath(i.file("")) { // no filesystem opens it
		i.errorf("", 0, "the path is not valid UTF-8; rename the folder")
		return i, nil
	}
	entries, more, err := readDir(r.fsys, i.file(""))
	if err != nil {
		return nil, err
	}
	var description fs.DirEntry
	if at := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() == enplace.ItemFileName }); at >= 0 {
		description = entries[at]
	} else if !more {
		i.ignored(entries)
		return nil, nil
	}
	if err := enplace.CheckPath(folder); err != nil {
		i.errorf("", 0, "%s; rename the folder", messageOf(err))
		return i, nil
	}
	if enplace.Shown(folder, 255) != folder {
		i.errorf("", 0, "the folder's name holds characters that cannot be shown; rename it")
		return i, nil
	}
	if err := i.collect(description); err != nil {
		return nil, err
	}
	if !i.stopped {
		i.resolveLinks()
	}
	i.describe()
	if i.stopped { // what was not read cannot be judged
		return i, nil
	}
	i.caseClashes()
	i.strayNames()
	i.judge()
	i.def.Files = []enplace.ItemFile{}
	for _, name := range slices.Sorted(maps.Keys(i.files)) {
		i.def.Files = append(i.def.Files, enplace.ItemFile{Path: name, Content: i.files[name]})
	}
	return i, nil
}

// ignored says of a folder without environment.json why it is no item, where it looks like one.
func (i *item) ignored(entries []fs.DirEntry) {
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.EqualFold(name, enplace.ItemFileName) || slices.Contains([]string{"environment.jsonc", "environment.json5", "environment.yaml", "environment.yml", "environment.toml"}, strings.ToLower(name)):
			i.find(enplace.FindingWarning, name, 0, "the folder was ignored: an item is described by %s, written so", enplace.ItemFileName)
			return
		case name == enplace.ItemMiseName || name == enplace.ItemScriptName:
			i.find(enplace.FindingWarning, name, 0, "the folder was ignored: it has no %s, which says what an item is for", enplace.ItemFileName)
			return
		}
	}
}

// file gives the path of a file of the item in the plugin.
func (i *item) file(name string) string { return path.Join(enplace.ItemsFolder, i.folder, name) }

func (i *item) find(s enplace.Severity, name string, line int, format string, args ...any) {
	i.broken = i.broken || s == enplace.FindingError
	i.r.find(s, i.folder, i.file(name), line, format, args...)
}

func (i *item) errorf(name string, line int, format string, args ...any) {
	i.find(enplace.FindingError, name, line, format, args...)
}

// stop says which bound was passed; nothing more is read of the item.
func (i *item) stop(name, format string, args ...any) {
	i.errorf(name, 0, format, args...)
	i.stopped = true
}

// describe reads environment.json.
func (i *item) describe() {
	content, ok := i.files[enplace.ItemFileName]
	if !ok { // a folder, or refused as text
		if !i.broken {
			i.errorf(enplace.ItemFileName, 0, "%s must be a file", enplace.ItemFileName)
		}
		return
	}
	d, issues := readDescription(content)
	for _, is := range issues {
		i.errorf(enplace.ItemFileName, is.line, "%s", is.message)
	}
	i.nameLine = d.nameLine
	i.def.Description = d.description
	switch {
	case d.name != "":
		i.def.Key, i.def.Name = d.name, d.name
	case d.named:
	case enplace.CheckHandle("", i.folder) == nil:
		i.def.Key, i.def.Name = i.folder, i.folder
	case len(issues) == 0:
		i.errorf(enplace.ItemFileName, 0, "there is no name, and the folder's name %q is no key: %s; rename the folder or add \"name\"%s", enplace.Shown(i.folder, 80), keyRule, suggestion(i.folder))
	}
}

// judge checks mise.toml and setup.sh, one of which an item must have.
func (i *item) judge() {
	toml, hasTOML := i.files[enplace.ItemMiseName]
	script, hasScript := i.files[enplace.ItemScriptName]
	for _, name := range []string{enplace.ItemMiseName, enplace.ItemScriptName} {
		if slices.ContainsFunc(slices.Collect(maps.Keys(i.files)), func(p string) bool { return strings.HasPrefix(p, name+"/") }) {
			i.errorf(name, 0, "%s must be a file, and is a folder", name)
		}
	}
	if !hasTOML && !hasScript && !i.broken {
		i.errorf("", 0, "the item has neither %s nor %s, so that there is nothing to install; add one", enplace.ItemMiseName, enplace.ItemScriptName)
	}
	i.def.Tools = []enplace.DeclaredTool{}
	if hasTOML {
		tools, findings := mise.Check(toml)
		i.def.Tools = append(i.def.Tools, tools...)
		broken := false
		for _, f := range findings {
			broken = broken || f.Severity == enplace.FindingError
			i.find(f.Severity, enplace.ItemMiseName, f.Line, "%s", f.Message)
		}
		if len(tools) == 0 && !hasScript && !broken {
			i.errorf(enplace.ItemMiseName, 0, "there is no tool below [tools] and no %s, so that there is nothing to install; add one", enplace.ItemScriptName)
		}
	}
	if hasScript {
		for _, is := range checkScript(script) {
			i.find(is.severity, enplace.ItemScriptName, is.line, "%s", is.message)
		}
	}
}

// caseClashes refuses names that differ in case alone: a checkout on another system has one of them only.
func (i *item) caseClashes() {
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(i.files)) {
		for p := name; p != "."; p = path.Dir(p) {
			other, ok := seen[strings.ToLower(p)]
			if ok && other != p {
				i.errorf(name, 0, "%q and %q differ in case alone, and some systems keep one of them only; rename one", enplace.Shown(other, 120), enplace.Shown(p, 120))
				break
			}
			seen[strings.ToLower(p)] = p
		}
	}
}

// unread are files that mise would read in a project, and that an item does not have.
var unread = []string{".mise.toml", "mise.local.toml", ".mise.local.toml", ".tool-versions", ".config/mise.toml", ".config/mise/config.toml", "mise/config.toml"}

// strayNames warns of files that look as if they had a meaning.
func (i *item) strayNames() {
	for _, name := range slices.Sorted(maps.Keys(i.files)) {
		for _, known := range []string{enplace.ItemFileName, enplace.ItemMiseName, enplace.ItemScriptName} {
			if name != known && strings.EqualFold(name, known) {
				i.find(enplace.FindingWarning, name, 0, "%s has no meaning; the file is %s, written so", enplace.Shown(name, 80), known)
			}
		}
		if slices.Contains(unread, name) {
			i.find(enplace.FindingWarning, name, 0, "%s is not read; write its tools into %s", name, enplace.ItemMiseName)
		}
	}
}

// keyRule is what enplace.CheckHandle asks for.
var keyRule = fmt.Sprintf("1 to %d lower-case letters, digits or hyphens, a letter or digit first", enplace.MaxHandleLength)

// suggestion gives the key that a name would make, as the end of a sentence.
func suggestion(name string) string {
	slug, err := enplace.Slug(name)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(`: "%s"`, slug)
}
