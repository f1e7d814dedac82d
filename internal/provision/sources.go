package provision

import (
	"maps"
	"slices"

	"enplace"
	"enplace/internal/mise"
)

// Sources says where the versions of items' tools were fetched from, and what came, by VersionKey and version.
type Sources map[string]map[string]enplace.ToolSource

// SourcesOf gives what is known of the tools of items as they stand, for Job.Sources.
func SourcesOf(items []enplace.InstalledItem) Sources {
	all := Sources{}
	for _, i := range items {
		for _, t := range i.Tools {
			if t.Source == nil || t.Resolved == "" {
				continue
			}
			k := VersionKey(i.Scope, i.Key, t.Name)
			if all[k] == nil {
				all[k] = map[string]enplace.ToolSource{}
			}
			all[k][t.Resolved] = *t.Source
		}
	}
	return all
}

// remember takes over what is known of a tool already: where the versions that it is to have are fetched from, and what ran when
// it was installed. What the job says counts before what the box had.
func (p *pass) remember(it *item, t *tool) {
	k := VersionKey(it.Scope, it.Key, t.name)
	t.sources = map[string]enplace.ToolSource{}
	if it.have != nil {
		maps.Copy(t.sources, SourcesOf([]enplace.InstalledItem{*it.have})[k])
		for _, had := range it.have.Tools {
			if had.Name == t.name {
				t.scripts = had.Scripts
			}
		}
	}
	maps.Copy(t.sources, p.job.Sources[k])
}

// learn takes what mise noted. What was known before stays: it is what mise was told.
func (t *tool) learn(found map[string]enplace.ToolSource) {
	for version, from := range found {
		if _, known := t.sources[version]; !known {
			t.sources[version] = from
		}
	}
}

// isPinned reports whether mise was told what must come of a version that the tool is to have.
func (t *tool) isPinned() bool {
	return slices.ContainsFunc(t.pinned, func(v string) bool { return t.sources[v].Checksum != "" })
}

// pinnedFiles gives the files for Place.Pins: the known versions with their sources. text changes with the
// versions: sources come without a need to tell mise, which noted them itself.
func (it *item) pinnedFiles() (files map[string]string, text string) {
	toml, ok := it.File(enplace.ItemMiseName)
	if !ok {
		return nil, ""
	}
	versions, sources := it.known()
	files, err := mise.PinnedFiles(toml, versions, sources)
	if err != nil { // a mise.toml that cannot be read pins nothing, and mise says why
		return nil, ""
	}
	return files, files[mise.PinsFile]
}

// known gives the versions that are there or are to be there of an item's tools, by name, with their sources.
func (it *item) known() (map[string][]string, mise.Sources) {
	versions, sources := map[string][]string{}, mise.Sources{}
	for _, t := range it.tools {
		versions[t.name] = t.pinned
		if t.whole() {
			versions[t.name] = t.exact()
		}
		for _, v := range versions[t.name] {
			if from, ok := t.sources[v]; ok {
				if sources[t.name] == nil {
					sources[t.name] = map[string]enplace.ToolSource{}
				}
				sources[t.name][v] = from
			}
		}
	}
	return versions, sources
}
