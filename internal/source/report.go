package source

import (
	"fmt"
	"strings"

	"enplace"
)

const maxExamples = 5

// tally counts by rule, and keeps the first examples of each.
type tally struct{ counts []enplace.Count }

func (t *tally) add(rule, example string) {
	for i := range t.counts {
		if c := &t.counts[i]; c.Rule == rule {
			if c.Count++; len(c.Examples) < maxExamples {
				c.Examples = append(c.Examples, shown(example))
			}
			return
		}
	}
	t.counts = append(t.counts, enplace.Count{Rule: rule, Count: 1, Examples: []string{shown(example)}})
}

// quotedList names the first of some paths, and how many more there are.
func quotedList(paths []string) string {
	quoted := make([]string, 0, maxExamples)
	for _, p := range paths[:min(len(paths), maxExamples)] {
		quoted = append(quoted, "`"+shown(p)+"`")
	}
	list := strings.Join(quoted, ", ")
	if len(paths) > maxExamples {
		return fmt.Sprintf("%s and %d more", list, len(paths)-maxExamples)
	}
	return list
}

// wasWere makes the start of a sentence about some paths.
func wasWere(paths []string) string {
	if len(paths) == 1 {
		return quotedList(paths) + " was"
	}
	return quotedList(paths) + " were"
}

// shown is for names of an archive in messages.
func shown(name string) string { return enplace.Shown(name, 200) }
