package mise

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"enplace"
)

// TokenVariable is the variable by which mise is given a token for GitHub. mise sends it to whatever host an item names as an
// API of GitHub's, and whatever it starts inherits it: FromGitHub says where neither is so.
const TokenVariable = "MISE_GITHUB_TOKEN"

// downloaders are the backends that take releases from GitHub by themselves, and run neither what they fetched nor anything
// else: they download, compare, unpack. aqua refuses its packages that would be built.
var downloaders = []string{"aqua", "github", "ubi"}

// harmless are the options of those by which no other host can be named, and nothing that is started.
var harmless = strings.Fields("version prefix os bin bin_path exe rename_exe asset_pattern matching matching_regex strip_components version_prefix checksum format extract_all")

// FromGitHub gives those tools of a mise.toml that may be fetched with a token, ordered, and the files of a Place for nothing
// but them: of the item's variables and settings none is there. versions and sources are as in PinnedFiles.
func FromGitHub(miseTOML string, versions map[string][]string, sources Sources) (tools []string, files map[string]string, err error) {
	var declared struct {
		Tools map[string]any `toml:"tools"`
	}
	if err := toml.Unmarshal([]byte(miseTOML), &declared); err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", enplace.ItemMiseName, err)
	}
	maps.DeleteFunc(declared.Tools, func(tool string, v any) bool {
		return !downloaded(tool) || !plain(v) || !trusted(versions[tool], sources[tool])
	})
	kept := maps.Clone(sources)
	maps.DeleteFunc(kept, func(tool string, _ map[string]enplace.ToolSource) bool { return declared.Tools[tool] == nil })
	pins, err := pinnedFiles(declared.Tools, versions, kept)
	if err != nil {
		return nil, nil, err
	}
	files = map[string]string{"files/" + enplace.ItemMiseName: ""}
	for name, content := range pins {
		files["pins/"+name] = content
	}
	return slices.Sorted(maps.Keys(declared.Tools)), files, nil
}

// downloaded reports whether a tool's name says that it is taken from GitHub, and nothing else: options can be part of a name,
// and so can an address.
func downloaded(tool string) bool {
	backend, _, explicit := strings.Cut(tool, ":")
	if !explicit {
		backend = installers()[canonical(tool)]
	}
	return slices.Contains(downloaders, backend) && !strings.ContainsAny(tool, "[]") && !strings.Contains(tool, "://")
}

// plain reports whether a tool is asked for with harmless options alone. A template is none in any of them: mise fills in
// whatever it was given, the token as well, and what becomes of that stays in the box.
func plain(v any) bool {
	switch v := v.(type) {
	case string:
		return release(v)
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !plain(e) })
	case map[string]any:
		for name, value := range v {
			if !slices.Contains(harmless, name) || name == "version" && !plain(value) || hasTemplate(value) {
				return false
			}
		}
		return true
	}
	return false
}

// release reports whether a version is that of a release, and nothing that is built or evaluated.
func release(version string) bool { return !strings.Contains(version, ":") && !template(version) }

func hasTemplate(v any) bool {
	switch v := v.(type) {
	case string:
		return template(v)
	case []any:
		return slices.ContainsFunc(v, hasTemplate)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), hasTemplate)
	}
	return false
}

// trusted reports whether what an earlier box said of a tool leads to GitHub too: whoever was root there could say anything.
func trusted(versions []string, sources map[string]enplace.ToolSource) bool {
	for _, from := range sources {
		u, err := url.Parse(from.URL)
		backend, _, _ := strings.Cut(from.Backend, ":")
		if err != nil || u.Scheme != "https" || u.Host != "github.com" && u.Host != "api.github.com" || !slices.Contains(downloaders, backend) {
			return false
		}
		for name, value := range from.Options {
			if !slices.Contains(harmless, name) || template(value) {
				return false
			}
		}
	}
	return !slices.ContainsFunc(versions, func(v string) bool { return !release(v) })
}
