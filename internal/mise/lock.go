package mise

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"enplace"
)

// Sources says of tools' exact versions where each is fetched from, and what comes then: by tool, then by version.
type Sources map[string]map[string]enplace.ToolSource

// platform is what mise calls the system that a sandbox is, in its lock.
var platform = map[string]string{"amd64": "linux-x64", "arm64": "linux-arm64"}[runtime.GOARCH]

// Bounds of a lock, whose parser takes time by the square of the number of keys, and of what it may say of one version.
const (
	maxLock    = 64 << 10
	maxURL     = 2048
	maxOptions = 50
	maxOption  = 1000
)

var checksum = regexp.MustCompile(`^[a-z0-9]{2,16}:[0-9a-f]{32,128}$`)

// lock gives the text of a lock with these sources. Without the addresses that belong to an API, mise asks none.
func (s Sources) lock() (string, error) {
	tools := map[string][]map[string]any{}
	for tool, versions := range s {
		for _, version := range slices.Sorted(maps.Keys(versions)) {
			from := versions[version]
			entry := map[string]any{
				"version": version, "backend": from.Backend, "platforms." + platform: map[string]string{"url": from.URL, "checksum": from.Checksum},
			}
			if len(from.Options) > 0 {
				entry["options"] = from.Options
			}
			tools[tool] = append(tools[tool], entry)
		}
	}
	if len(tools) == 0 {
		return "", nil
	}
	b, err := toml.Marshal(map[string]any{"tools": tools})
	if err != nil {
		return "", fmt.Errorf("writing the sources of tools: %w", err)
	}
	return string(b), nil
}

// parseLock reads what mise noted of the tools that it installed. Of most backends it notes no address, and they are left out, as
// is what cannot have been meant: the text may be anybody's.
func parseLock(text string) (Sources, error) {
	if len(text) > maxLock {
		return nil, fmt.Errorf("the lock of tools has more than %d bytes", maxLock)
	}
	var lock struct {
		Tools map[string]any `toml:"tools"`
	}
	if err := toml.Unmarshal([]byte(text), &lock); err != nil {
		return nil, fmt.Errorf("reading the lock of tools: %w", err)
	}
	all := Sources{}
	for tool, v := range lock.Tools {
		entries, _ := v.([]any)
		for _, e := range entries {
			entry, _ := e.(map[string]any)
			version, _ := entry["version"].(string)
			from, ok := source(entry)
			if !ok || len(tool) > maxToolName || badVersion(tool, version) != "" {
				continue
			}
			if all[tool] == nil {
				all[tool] = map[string]enplace.ToolSource{}
			}
			all[tool][version] = from
		}
	}
	return all, nil
}

// source reads one entry of a lock.
func source(entry map[string]any) (enplace.ToolSource, bool) {
	var from enplace.ToolSource
	fetched, _ := entry["platforms."+platform].(map[string]any)
	from.URL, _ = fetched["url"].(string)
	from.Checksum, _ = fetched["checksum"].(string)
	from.Backend, _ = entry["backend"].(string)
	options, _ := entry["options"].(map[string]any)
	for name, v := range options {
		value, isText := v.(string)
		if !isText || len(options) > maxOptions || len(name)+len(value) > maxOption {
			return from, false
		}
		if from.Options == nil {
			from.Options = map[string]string{}
		}
		from.Options[name] = value
	}
	u, err := url.Parse(from.URL)
	return from, err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && shown(from.URL, maxURL) &&
		checksum.MatchString(from.Checksum) && from.Backend != "" && shown(from.Backend, maxToolName)
}

// Changed reports whether an installation failed because what came is not what came the first time.
func Changed(output string) bool { return strings.Contains(output, "Checksum mismatch for file") }
