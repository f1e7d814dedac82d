package mise

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	Variables []string             // KEY=value, ordered: what mise.toml and tools export, but for PATH and what is mise's own
}

// readScript asks mise for everything in one go; every word that it prints ends by a NUL. A link that leads nowhere, a folder
// and a file that nobody may execute are no commands.
const readScript = `mise=$1; shift
printf 'list\0'; "$mise" ls --current --json; printf '\0'
printf 'variables\0'; "$mise" env --json; printf '\0'
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

// ParseRead reads what ReadBack printed. environment is what it was run with: it is no export of any tool. With an error comes
// what could be read.
func ParseRead(out []byte, environment []string) (Read, error) {
	r := Read{Versions: map[string][]Version{}, Bins: map[string][]Bin{}}
	words := strings.Split(string(out), "\x00")
	var tool string
	var errs []error
	for i := 0; i+1 < len(words); i += 2 {
		switch word := words[i+1]; words[i] {
		case "list":
			errs = append(errs, r.list(word))
		case "variables":
			errs = append(errs, r.variables(word, environment))
		case "tool":
			tool = word
		case "folder":
			r.Bins[tool] = append(r.Bins[tool], Bin{Dir: word})
		case "command":
			if bins := r.Bins[tool]; len(bins) > 0 && word != "" && word[0] != '.' {
				last := &bins[len(bins)-1]
				last.Commands = append(last.Commands, word)
			}
		}
	}
	for tool, bins := range r.Bins {
		r.Bins[tool] = slices.DeleteFunc(bins, func(b Bin) bool { return len(b.Commands) == 0 || !strings.HasPrefix(b.Dir, "/") })
		for _, b := range r.Bins[tool] {
			slices.Sort(b.Commands)
		}
	}
	return r, errors.Join(errs...)
}

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
			if v.Requested != "" {
				r.Versions[name] = append(r.Versions[name], Version{v.Version, v.Path, v.Installed})
			}
		}
	}
	return nil
}

// variables reads the JSON of mise env.
func (r *Read) variables(out string, environment []string) error {
	var vars map[string]string
	if err := json.Unmarshal([]byte(out), &vars); err != nil {
		return fmt.Errorf("reading the variables of tools: %w", err)
	}
	for name, value := range vars {
		line := name + "=" + value
		if name == "PATH" || name == "" || strings.Contains(line, "\x00") || strings.HasPrefix(strings.TrimLeft(name, "_"), "MISE_") || slices.Contains(environment, line) {
			continue
		}
		r.Variables = append(r.Variables, line)
	}
	slices.Sort(r.Variables)
	return nil
}
