package plugin

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"enplace"
)

// manifest reads plugin.json, where there is one: the plugin's name, and nothing else that counts here.
func (r *reader) manifest() error {
	info, err := fs.Lstat(r.fsys, ManifestName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		r.find(enplace.FindingWarning, "", ManifestName, 0, "%s is no file, and was not read", ManifestName)
		return nil
	}
	f, err := r.fsys.Open(ManifestName)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return err
	}
	if len(b) > maxManifest {
		r.find(enplace.FindingWarning, "", ManifestName, 0, "%s is larger than 1 MiB, and was not read", ManifestName)
		return nil
	}
	t := normalise(b)
	var fields map[string]json.RawMessage
	if t.problem != "" || json.Unmarshal([]byte(t.text), &fields) != nil {
		r.find(enplace.FindingWarning, "", ManifestName, 0, "%s is no JSON object, and was not read; the plugin has no name by it", ManifestName)
		return nil
	}
	if name, ok := stringOf(fields["name"]); ok && utf8.RuneCountInString(name) <= enplace.MaxNameLength && !strings.ContainsFunc(name, unicode.IsControl) {
		r.name = strings.TrimSpace(name)
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if strings.HasPrefix(strings.ToLower(field), enplace.ItemsFolder) {
			r.find(enplace.FindingNotice, "", ManifestName, 0, "%q changes nothing: items are always read from %s/", enplace.Shown(field, 80), enplace.ItemsFolder)
		}
	}
	return nil
}
