// Package spelling tells how far a mistyped word is from a known one. What is suggested, and when, is for those to say who know
// the words: flags of the command line, short names of tools.
package spelling

// Distance counts the bytes to add, remove or replace to make one word of the other (Levenshtein); it is at most the bound given,
// which also stands for all that is further.
func Distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return min(row[len(b)], most)
}
