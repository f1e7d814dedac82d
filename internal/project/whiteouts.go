package project

import (
	"maps"
	"path"
	"slices"

	"enplace"
)

// whiteouts gives the fewest paths that hide the removed ones: a folder that is gone as a whole is hidden as one, and what a
// file took the place of needs none.
func whiteouts(removed []string, next []enplace.TreeEntry) []string {
	alive, files := map[string]bool{".": true}, map[string]bool{}
	for _, e := range next {
		files[e.Path] = true
		for p := e.Path; !alive[p]; p = path.Dir(p) {
			alive[p] = true
		}
	}
	gone := map[string]bool{}
	for _, p := range removed {
		if alive[p] { // a folder now, which hides the file
			continue
		}
		for !alive[path.Dir(p)] {
			p = path.Dir(p)
		}
		if !files[path.Dir(p)] {
			gone[p] = true
		}
	}
	return slices.Sorted(maps.Keys(gone))
}
