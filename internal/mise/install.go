package mise

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"enplace"
)

// Program is mise in a base.
const Program = "/usr/local/bin/mise"

// Own is the part of its data folder that is not mise's but Enplace's.
const Own = enplace.ToolsDir + "/enplace"

// Installs is where mise puts what it installs, two levels deep: the tool's folder and the version's.
const Installs = enplace.ToolsDir + "/installs"

// Caches is where installers keep what they downloaded; it is dropped when a set has been installed.
const Caches = "/var/cache/enplace"

// PinsFile is the one name that mise looks for in the folder that it is started in, and it is nobody else's. lockFile is what
// it keeps beside that, where there is one already.
const (
	PinsFile = "enplace-pins.toml"
	lockFile = "mise.lock"
)

// Place is where one item stands in a box: a folder of its own below Own, given by path.
type Place string

// Files is the folder with the item's own files.
func (p Place) Files() string { return path.Join(string(p), "files") }

// Pins is the folder that mise is started in: it holds exact versions, and nothing but those and the item's mise.toml counts.
func (p Place) Pins() string { return path.Join(string(p), "pins") }

// Env gives the variables of every run of mise for an item, beside those of the box: its own folders, the item's mise.toml as
// the one configuration, the pins over it, and nothing of the box's own. ask says that a registry may be asked.
func (p Place) Env(ask bool) []string {
	env := []string{
		"MISE_DATA_DIR=" + enplace.ToolsDir, "MISE_CACHE_DIR=" + enplace.ToolsDir + "/cache", "MISE_STATE_DIR=" + enplace.ToolsDir + "/state",
		"MISE_CONFIG_DIR=" + Own + "/none", "MISE_SYSTEM_CONFIG_DIR=" + Own + "/none",
		// mise makes shims at each installation; the folder of shims on PATH is not its business.
		"MISE_SHIMS_DIR=" + Own + "/mise-shims",
		"MISE_GLOBAL_CONFIG_FILE=" + path.Join(p.Files(), enplace.ItemMiseName),
		"MISE_OVERRIDE_CONFIG_FILENAMES=" + PinsFile, "MISE_OVERRIDE_TOOL_VERSIONS_FILENAMES=none",
		"MISE_CEILING_PATHS=" + string(p), "MISE_TRUSTED_CONFIG_PATHS=" + string(p), "MISE_YES=1",
		// mise's own installer of npm packages refuses a registry that gives no times of publication.
		"MISE_NPM_PACKAGE_MANAGER=npm",
		// What these would put into the home folder belongs to the tools.
		"MISE_CARGO_HOME=" + enplace.ToolsDir + "/cargo", "MISE_RUSTUP_HOME=" + enplace.ToolsDir + "/rustup", "UV_PYTHON_INSTALL_DIR=" + Own + "/python",
		// npm waits for whoever holds the pipe that it gives to a script; without one a script's daemon holds up nothing.
		"npm_config_foreground_scripts=true",
		// What was fetched is noted for this system alone: for each further one a source would be asked once more.
		"MISE_LOCKFILE_PLATFORMS=" + platform,
		"npm_config_cache=" + Caches + "/npm", "UV_CACHE_DIR=" + Caches + "/uv", "PIP_CACHE_DIR=" + Caches + "/pip",
		"GOMODCACHE=" + Caches + "/go-mod", "GOCACHE=" + Caches + "/go",
	}
	if !ask {
		// Nor is the lock: at an installation mise notes there what it found of "latest" before, and not what it installed.
		env = append(env, "MISE_OFFLINE=1", "MISE_LOCKFILE=0")
	}
	return env
}

// RequestEnv gives the variables of a run that installs tools of an item, beside those of Env. A request is repeated once, and not
// three times with growing waits, unless the item says otherwise: what fails is tried again as a whole, at once and later. mise's
// host of versions, which saves requests to GitHub, is not told which repositories an item names: they may be private.
func RequestEnv(miseTOML string) []string {
	d, _ := parse(miseTOML) // what cannot be read installs nothing, and mise says why
	settings, _ := d.values["settings"].(map[string]any)
	tools, _ := d.values["tools"].(map[string]any)
	var env []string
	if settings["http_retries"] == nil {
		env = append(env, "MISE_HTTP_RETRIES=1")
	}
	for name := range tools {
		if namesRepository(name) {
			return append(env, "MISE_USE_VERSIONS_HOST=0")
		}
	}
	return env
}

// namesRepository reports whether a tool is named by where it lies, and not by a name of a public registry.
func namesRepository(tool string) bool {
	backend, name, _ := strings.Cut(tool, ":")
	return strings.Contains(name, "/") && !slices.Contains([]string{"aqua", "core", "npm"}, backend)
}

// Install gives the command that installs tools of the item's mise.toml. force installs again what is there.
func Install(force bool, tools ...string) []string {
	argv := []string{Program, "install"}
	if force {
		argv = append(argv, "--force")
	}
	return append(append(argv, "--"), tools...)
}

// PinnedFiles gives the files for Place.Pins, by name: one that makes mise take exact versions of tools instead of what the
// item's mise.toml asks for, options kept, and one that says where each of those is fetched from and what comes then. versions
// are those of each tool, in the order of mise.toml. A tool that declares another number of them is left as it is declared.
func PinnedFiles(miseTOML string, versions map[string][]string, sources Sources) (map[string]string, error) {
	var declared struct {
		Tools map[string]any `toml:"tools"`
	}
	if err := toml.Unmarshal([]byte(miseTOML), &declared); err != nil {
		return nil, fmt.Errorf("reading %s: %w", enplace.ItemMiseName, err)
	}
	return pinnedFiles(declared.Tools, versions, sources)
}

func pinnedFiles(tools map[string]any, versions map[string][]string, sources Sources) (map[string]string, error) {
	for tool, v := range tools {
		if p, ok := pin(v, versions[tool]); ok {
			tools[tool] = p
		}
	}
	b, err := toml.Marshal(map[string]any{"tools": tools})
	if err != nil {
		return nil, fmt.Errorf("writing the versions of tools: %w", err)
	}
	lock, err := sources.lock()
	if err != nil {
		return nil, err
	}
	return map[string]string{PinsFile: string(b), lockFile: lock}, nil
}

// pin gives what a tool is declared as with its versions replaced.
func pin(declared any, versions []string) (any, bool) {
	list, isList := declared.([]any)
	if !isList {
		list = []any{declared}
	}
	if len(list) != len(versions) {
		return nil, false
	}
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = versions[i]
		if options, ok := v.(map[string]any); ok {
			options["version"] = versions[i]
			out[i] = options
		}
	}
	if !isList {
		return out[0], true
	}
	return out, true
}
