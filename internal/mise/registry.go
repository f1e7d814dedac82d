package mise

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"enplace/internal/spelling"
)

//go:embed registry.txt
var registryText string

// registry gives, for each short name that mise knows, the name that it has there. mise leaves out a tool of any other short
// name without a word, so that a typing error would only show as a command that is not there.
var registry = sync.OnceValue(func() map[string]string {
	known := map[string]string{"nodejs": "node", "golang": "go"} // mise's own, beside its registry
	for words := range registryLines {
		for _, name := range words[1:] {
			known[name] = words[1]
		}
	}
	return known
})

// installers gives, for each short name that the registry has, the backend that mise installs it by.
var installers = sync.OnceValue(func() map[string]string {
	by := map[string]string{}
	for words := range registryLines {
		by[words[1]] = words[0]
	}
	return by
})

// registryLines gives the words of each line: a backend, a short name, and the other names of that.
func registryLines(yield func([]string) bool) {
	for line := range strings.Lines(registryText) {
		if words := strings.Fields(line); len(words) > 1 && words[0] != "#" && !yield(words) {
			return
		}
	}
}

// similar gives the known short name that a mistyped one is nearest to, or "".
func similar(name string) string {
	best, distance := "", 3 // a third letter that differs is another word
	for _, known := range sortedRegistry() {
		if d := spelling.Distance(name, known, distance); d < distance && d*3 <= len(name) {
			best, distance = known, d
		}
	}
	return best
}

var sortedRegistry = sync.OnceValue(func() []string {
	var names []string
	for name := range registry() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
})
