package computer

import (
	"slices"
	"strconv"
	"strings"

	"enplace"
	"enplace/internal/store"
)

// quietNode is for the commands of a set whose node prints a warning at each start.
const quietNode = "NODE_NO_WARNINGS=1"

// nodeWarns reports whether the node that commands of a set find is one of 22.21 and later: these warn on standard error, whenever
// they start, of the variable that leads fetch() through the proxy, and only without any warnings they do not. Those before do
// not know the variable, those of 24 and later say nothing. To name that warning in NODE_OPTIONS would be more exact, and no
// node older than 20.11 would start.
func nodeWarns(set enplace.Set, rec store.ComputerRecord) bool {
	items := find(rec, set.Hash).Items
	ranked := slices.Clone(set.Items)
	slices.SortStableFunc(ranked, enplace.ByPrecedence)
	for _, declared := range slices.Backward(ranked) {
		at := same(items, declared.Key, declared.Scope)
		if at < 0 {
			continue
		}
		for _, tool := range items[at].Tools {
			if slices.Contains(tool.Commands, "node") {
				return warns(tool.Resolved)
			}
		}
	}
	return false
}

func warns(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	return major == "22" && err == nil && n >= 21
}
