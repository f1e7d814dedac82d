package plugin

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"enplace"
)

// collect reads the files of the item into memory; an item is small, or refused. environment.json comes first, so that the key
// of an item that passes a bound is known.
func (i *item) collect(description fs.DirEntry) error {
	if description != nil {
		if err := i.entry(enplace.ItemFileName, description); err != nil {
			return fmt.Errorf("reading %s: %w", enplace.ItemFileName, err)
		}
	}
	return i.folderAt("")
}

// folderAt reads a folder of the item. Depth is bounded by the number of folders.
func (i *item) folderAt(dir string) error {
	entries, more, err := readDir(i.r.fsys, i.file(dir))
	if err != nil {
		return err
	}
	if more {
		i.stop(dir, "the folder has more than %d entries; an item has at most %d files", maxEntries, enplace.MaxItemFiles)
	}
	for _, e := range entries {
		if i.stopped {
			return nil
		}
		name := path.Join(dir, e.Name())
		if name == enplace.ItemFileName || i.skipped(name, e) {
			continue
		}
		if why := badName(name); why != "" {
			i.errorf(name, 0, "%s; rename it", why)
			continue
		}
		if err := i.entry(name, e); err != nil {
			return fmt.Errorf("reading %s: %w", enplace.Shown(name, 200), err)
		}
	}
	return nil
}

// badName says why a file cannot have a path, or "".
func badName(name string) string {
	switch err := enplace.CheckPath(name); {
	case err != nil:
		return messageOf(err)
	case enplace.Shown(name, len(name)) != name:
		return "the path holds a character that cannot be shown, or that turns the direction of reading"
	}
	return ""
}

// skipped reports whether an entry is one that no import brings, so that a check says what an import does.
func (i *item) skipped(name string, e fs.DirEntry) bool {
	switch base := e.Name(); {
	case base == ".DS_Store" || base == "__MACOSX" || strings.HasPrefix(base, "._"):
		return true
	case slices.Contains(enplace.NeverImported, base):
		f := NeverImported(i.file(name), base)
		i.r.find(f.Severity, i.folder, f.File, 0, "%s", f.Message)
		return true
	}
	return false
}

// NeverImported is what is to be said of a file of a plugin that no import brings, for this component of its path: the folder that
// was left out of an item, or an item that is none. Its message is "" where nothing is lost.
func NeverImported(file, component string) enplace.Finding {
	parts := strings.Split(file, "/")
	at := slices.Index(parts, component)
	if at < 1 || parts[0] != enplace.ItemsFolder {
		return enplace.Finding{}
	}
	f := enplace.Finding{Severity: enplace.FindingWarning, Item: enplace.Shown(parts[1], 255), File: enplace.Shown(path.Join(parts[:at+1]...), 400)}
	switch {
	case at > 1 && component == ".git":
		f.File = enplace.Shown(path.Join(parts[:at]...), 400)
		f.Message = "this is a repository of its own, such as a submodule, of which an import from git brings nothing; put its files into the plugin's repository"
	case at > 1:
		f.Message = fmt.Sprintf("%s is never part of an item, and was left out; install what is in it by %s or %s", component, enplace.ItemMiseName, enplace.ItemScriptName)
	case len(parts) == 3 && parts[2] == enplace.ItemFileName:
		f.Severity, f.File = enplace.FindingError, file
		f.Message = fmt.Sprintf("no import brings a folder called %s, so this is no item of a plugin; rename the folder", component)
	}
	return f
}

func (i *item) entry(name string, e fs.DirEntry) error {
	if e.IsDir() {
		if i.folders++; i.folders > maxFolders {
			i.stop(name, "the item has more than %d folders; an item has at most %d files", maxFolders, enplace.MaxItemFiles)
			return nil
		}
		return i.folderAt(name)
	}
	if i.entries++; i.entries > enplace.MaxItemFiles {
		i.stop(name, "the item has more than %d files; download in %s what is not written by hand", enplace.MaxItemFiles, enplace.ItemScriptName)
		return nil
	}
	if base := strings.ToLower(e.Name()); strings.HasSuffix(base, ".env") || strings.HasPrefix(base, ".env.") {
		i.errorf(name, 0, "a .env file holds logins, and everybody who reads the scope can read an item; put secrets into the keychain and plain values below [env] of %s, and delete the file", enplace.ItemMiseName)
		return nil
	}
	switch {
	case e.Type()&fs.ModeSymlink != 0:
		target, err := fs.ReadLink(i.r.fsys, i.file(name))
		if err != nil {
			return err
		}
		i.links[name] = target
		return nil
	case !e.Type().IsRegular():
		i.errorf(name, 0, "this is a device, a pipe or a socket; an item has text files only, so take it out")
		return nil
	}
	return i.regular(name)
}

// regular reads a file, and one byte more than the item may still have.
func (i *item) regular(name string) error {
	f, err := i.r.fsys.Open(i.file(name))
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, errors.New("it was replaced while it was read"))
	}
	b, err := io.ReadAll(io.LimitReader(f, enplace.MaxItemBytes-i.bytes+1))
	if err != nil {
		return err
	}
	if i.count(name, int64(len(b))) {
		i.text(name, b)
	}
	return nil
}

// count adds what was read, and refuses one byte more than an item may have.
func (i *item) count(name string, n int64) bool {
	if i.bytes += n; i.bytes > enplace.MaxItemBytes {
		i.stop(name, "with this file the item has more than 1 MiB (%d bytes); download in %s what is that large", enplace.MaxItemBytes, enplace.ItemScriptName)
		return false
	}
	return true
}

// text normalises a file and says what was done.
func (i *item) text(name string, b []byte) {
	t := normalise(b)
	if t.problem != "" {
		i.errorf(name, t.line, "%s", t.problem)
		return
	}
	i.files[name] = t.text
	if t.changed != "" {
		i.find(enplace.FindingNotice, name, 0, "%s", t.changed)
	}
	if t.loneCR > 0 {
		i.find(enplace.FindingWarning, name, t.loneCR, "there is a carriage return in the middle of the line, which stays; take it out unless it is meant")
	}
}

// resolveLinks puts the content of the file that a link leads to in the link's place. A link leads to a file of the item, or
// the item is refused.
func (i *item) resolveLinks() {
	contents := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(i.links)) {
		target, problem := i.follow(name)
		if problem != "" {
			i.errorf(name, 0, "the link to %q %s; put the file itself there", enplace.Shown(i.links[name], 120), problem)
			continue
		}
		content, ok := i.files[target]
		if !ok {
			continue // refused as text, which was said
		}
		if !i.count(name, int64(len(content))) {
			return
		}
		contents[name] = content
		i.find(enplace.FindingNotice, name, 0, "the link became a copy of %q", enplace.Shown(target, 120))
	}
	maps.Copy(i.files, contents)
}

// maxHops bounds a chain of links.
const maxHops = 8

// follow gives the file that a link leads to in the end, or why there is none.
func (i *item) follow(name string) (target, problem string) {
	for range maxHops {
		next, ok := i.links[name]
		if !ok {
			if _, ok := i.files[name]; !ok && !i.refused(name) {
				return "", "leads to no file of the item (a link to a folder is not followed)"
			}
			return name, ""
		}
		if enplace.CheckLink(name, next) != nil {
			return "", "leads out of the item, or may"
		}
		name = path.Join(path.Dir(name), next)
	}
	return "", "goes round in circles, or over too many links"
}

// refused reports whether a file is there and was refused.
func (i *item) refused(name string) bool {
	return slices.ContainsFunc(i.r.findings, func(f enplace.Finding) bool { return f.Severity == enplace.FindingError && f.File == i.file(name) })
}

// messageOf gives the message of an error for people, with what it is about.
func messageOf(err error) string {
	var e *enplace.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}
