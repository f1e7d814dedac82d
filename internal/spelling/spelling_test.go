package spelling

import "testing"

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b       string
		most, want int
	}{
		{"", "", 3, 0}, {"host", "host", 3, 0}, {"hosts", "host", 3, 1}, {"hst", "host", 3, 1}, {"hots", "host", 3, 2}, {"host", "most", 3, 1},
		{"kitten", "sitting", 9, 3}, {"kitten", "sitting", 3, 3}, {"kitten", "sitting", 2, 2}, {"a", "abcdef", 3, 3}, {"", "ab", 3, 2},
	} {
		for _, got := range []int{Distance(c.a, c.b, c.most), Distance(c.b, c.a, c.most)} {
			if got != c.want {
				t.Errorf("%q, %q, at most %d: %d; want %d", c.a, c.b, c.most, got, c.want)
			}
		}
	}
}
