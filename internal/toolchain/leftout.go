package toolchain

import (
	"path"
	"slices"

	"enplace"
	"enplace/internal/plugin"
	"enplace/internal/source"
)

// maxRefusedFiles bounds what is said of one item's files; that it is broken is said by the first.
const maxRefusedFiles = 10

// leftOut judges what an import refused of a plugin.
type leftOut struct {
	*received
	broken    map[string]bool // the items that are, by folder as findings show it
	said      map[string]int  // findings by the item they name
	described int             // items whose description was refused
	findings  []enplace.Finding
}

// leaveOut breaks the items that a file was refused of: without it they are not what their author declares. What lies in no item's
// folder breaks none, and is said where an item would be. These findings come first: they are why others say that something lacks.
func (r *received) leaveOut(res source.Result) {
	l := leftOut{received: r, broken: map[string]bool{}, said: map[string]int{}}
	for _, f := range r.Findings {
		l.broken[f.Item] = l.broken[f.Item] || isError(f)
	}
	for _, refused := range res.Refused {
		name := refused.Path
		if res.Report.Unwrapped == enplace.ItemsFolder {
			name = path.Join(enplace.ItemsFolder, name)
		}
		l.judge(path.Clean(name), refused.Reason)
	}
	r.Findings = append(l.findings, r.Findings...)
}

func (l *leftOut) judge(name, reason string) {
	folder := itemFolder(name)
	f := enplace.Finding{Severity: enplace.FindingError, Item: enplace.Shown(folder, 255), File: enplace.Shown(name, 400), Message: reason}
	l.breaks(folder, f.Item)
	switch {
	case name == path.Join(enplace.ItemsFolder, folder, enplace.ItemFileName):
		if l.described++; l.described > enplace.MaxPluginItems {
			f.Item, f.File, f.Message = "", enplace.ItemsFolder, "the same is wrong with more items than a plugin can have; split it"
			break
		}
		if !l.broken[f.Item] { // what was said is that the folder has no description
			l.Findings = slices.DeleteFunc(l.Findings, func(o enplace.Finding) bool { return o.Item == f.Item })
		}
		l.broken[f.Item] = true
	case folder != "" && l.broken[f.Item] || name == enplace.ItemsFolder:
	case path.Dir(name) == enplace.ItemsFolder || name == plugin.ManifestName:
		f.Severity, f.Item = enplace.FindingWarning, ""
	default:
		return
	}
	if l.said[f.Item]++; l.said[f.Item] <= maxRefusedFiles {
		l.findings = append(l.findings, f)
	}
}

// breaks takes the definition of a folder away, if it is an item's.
func (l *leftOut) breaks(folder, shown string) {
	if i := slices.IndexFunc(l.Definitions, func(d enplace.Definition) bool { return d.Folder == folder }); i >= 0 {
		l.Broken[folder], l.Definitions = l.Definitions[i].Key, slices.Delete(l.Definitions, i, i+1)
		l.broken[shown] = true
	}
}
