package mise

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"enplace"
)

// Version is a version of a tool that an item asks for, as mise knows it.
type Version struct {
	Version   string // exact
	Path      string // its folder, whether it is there or not
	Installed bool   // mise ended its installation; what is in the folder is another matter
}

// Bin is a folder of a tool's commands.
type Bin struct {
	Dir      string   // absolute
	Commands []string // ordered; never empty
}

// Read is what mise says of an item's tools.
type Read struct {
	Versions  map[string][]Version // of each tool, in the order of mise.toml; none of one that mise cannot resolve
	Bins      map[string][]Bin     // of each tool that brings any command
	Sources   Sources              // of what was fetched from an address
	Variables []string             // KEY=value, ordered: what mise.toml and tools export, but for PATH and what is mise's own

	room int // bytes that commands and variables may still take
}

// Bounds of one name that a box says. What is longer, or cannot be shown, is left out: nobody could have meant it.
const (
	maxCommand = 255
	maxPath    = 4095
)

// readScript asks mise for everything in one go; every word that it prints ends by a NUL. A link that leads nowhere, a folder
// and a file that nobody may execute are no commands.
const readScript = `mise=$1; shift
printf 'list\0'; "$mise" ls --current --json; printf '\0'
printf 'variables\0'; "$mise" env --json; printf '\0'
printf 'lock\0'; head -c 65537 ` + lockFile + ` 2>/dev/null; printf '\0'
for tool; do
	printf 'tool\0%s\0' "$tool"
	"$mise" bin-paths -- "$tool" | while IFS= read -r dir; do
		printf 'folder\0%s\0' "$dir"
		find -L "$dir" -mindepth 1 -maxdepth 1 -type f -perm /111 -printf 'command\0%f\0'
	done
done`

// ReadBack gives the command whose output ParseRead reads. It is run in Place.Pins with Place.Env, and asks no registry when
// that says so.
func ReadBack(tools []string) []string {
	return append([]string{"/bin/sh", "-c", readScript, "sh", Program}, tools...)
}

// ParseRead reads what ReadBack printed. environment is what it was run with: it is no export of any tool. Whoever is root in the
// box may have put anything in mise's place, so names and values are kept up to most bytes, and versions where they could be asked
// for: other boxes are told them, and a template would be run there. With an error comes what could be read.
func ParseRead(out []byte, environment []string, most int) (Read, error) {
	r := Read{Versions: map[string][]Version{}, Bins: map[string][]Bin{}, room: most}
	words := strings.Split(string(out), "\x00")
	var tool string
	var errs []error
	for i := 0; i+1 < len(words); i += 2 {
		switch word := words[i+1]; words[i] {
		case "list":
			errs = append(errs, r.list(word))
		case "variables":
			errs = append(errs, r.variables(word, environment))
		case "lock":
			errs = append(errs, r.sources(word))
		case "tool":
			tool = word
		case "folder":
			r.Bins[tool] = append(r.Bins[tool], Bin{Dir: word})
		case "command":
			if bins := r.Bins[tool]; len(bins) > 0 && word != "" && word[0] != '.' && shown(word, maxCommand) && r.has(word) {
				last := &bins[len(bins)-1]
				last.Commands = append(last.Commands, word)
			}
		}
	}
	if r.room < 0 {
		errs = append(errs, fmt.Errorf("its commands and variables take more than %d bytes, and not all were taken", most))
	}
	for tool, bins := range r.Bins {
		r.Bins[tool] = slices.DeleteFunc(bins, func(b Bin) bool { return len(b.Commands) == 0 || !strings.HasPrefix(b.Dir, "/") })
		for _, b := range r.Bins[tool] {
			slices.Sort(b.Commands)
		}
	}
	return r, errors.Join(errs...)
}

// shown reports whether a name can be shown as it is.
func shown(name string, most int) bool { return len(name) <= most && enplace.Shown(name, most) == name }

// has reports whether there is room for a word, and takes it.
func (r *Read) has(word string) bool {
	r.room -= len(word) + perWord
	return r.room >= 0
}

// perWord is what a word takes beside its bytes, wherever it is kept.
const perWord = 8

// list reads the JSON of mise ls. What no mise.toml asks for has no requested version.
func (r *Read) list(out string) error {
	var listed map[string][]struct {
		Version   string `json:"version"`
		Requested string `json:"requested_version"`
		Path      string `json:"install_path"`
		Installed bool   `json:"installed"`
	}
	if err := json.Unmarshal([]byte(out), &listed); err != nil {
		return fmt.Errorf("reading what mise lists: %w", err)
	}
	for name, versions := range listed {
		for _, v := range versions {
			if v.Requested != "" && badVersion(name, v.Version) == "" && len(v.Path) <= maxPath {
				r.Versions[name] = append(r.Versions[name], Version{v.Version, v.Path, v.Installed})
			}
		}
	}
	return nil
}

// sources reads mise's lock.
func (r *Read) sources(text string) error {
	found, err := parseLock(text)
	r.Sources = Sources{}
	for tool, versions := range found {
		kept := map[string]enplace.ToolSource{}
		for version, from := range versions {
			if r.has(tool + version + from.URL + from.Checksum + fmt.Sprint(from.Options)) {
				kept[version] = from
			}
		}
		r.Sources[tool] = kept
	}
	return err
}

// Paths gives the folders that a checked mise.toml puts on PATH, the first to be searched first. They are what was declared, and
// need nobody in the box to say them.
func Paths(miseTOML string) []string {
	d, _ := parse(miseTOML) // what cannot be read declares nothing, and mise says why
	env, _ := d.values["env"].(map[string]any)
	directives, _ := env["_"].(map[string]any)
	paths, _ := texts(directives["path"])
	return paths
}

// variables reads the JSON of mise env.
func (r *Read) variables(out string, environment []string) error {
	var vars map[string]string
	if err := json.Unmarshal([]byte(out), &vars); err != nil {
		return fmt.Errorf("reading the variables of tools: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		line := name + "=" + vars[name]
		if name == "PATH" || name == "" || strings.Contains(line, "\x00") || strings.HasPrefix(strings.TrimLeft(name, "_"), "MISE_") || slices.Contains(environment, line) {
			continue
		}
		if r.has(line) {
			r.Variables = append(r.Variables, line)
		}
	}
	slices.Sort(r.Variables)
	return nil
}
