package pkgindex

import (
	"testing"

	"github.com/Masterminds/semver/v3"
)

func TestNPMRanges(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		r, v string
		want bool
	}{
		{"", "1.2.3", true}, {"*", "1.2.3", true}, {"*", "1.2.3-rc.1", false}, {"x", "0.0.1", true}, {"1.x", "1.9.0", true}, {"1.x.x", "2.0.0", false}, {"1", "1.5.0", true},
		{"^1", "1.9.9", true}, {"^1", "2.0.0", false}, {"^1.2.3", "1.2.2", false}, {"^0.2.3", "0.2.9", true}, {"^0.2.3", "0.3.0", false}, {"^0.0.3", "0.0.4", false}, {"^0.0", "0.0.9", true}, {"^0", "0.9.0", true}, {"^0.0", "0.1.0", false},
		{"~1.2", "1.2.9", true}, {"~1.2", "1.3.0", false}, {"~1", "1.9.0", true}, {"~> 1.2.3", "1.2.4", true},
		{"5.0.0 - 7.2.3", "7.2.3", true}, {"5.0.0 - 7.2.3", "7.2.4", false}, {"5.0.0 - 7.2", "7.2.9", true}, {"1.2 - 2", "2.9.9", true},
		{">1", "1.5.0", false}, {">1", "2.0.0", true}, {">1.2", "1.3.0", true}, {"<1.2", "1.1.9", true}, {"<1.2", "1.2.0-rc", false}, {"<=1", "1.9.0", true}, {"<=1", "2.0.0", false}, {">= 1.2.3 < 2", "1.5.0", true}, {">=1 <2 || 3.x", "3.1.0", true}, {">=1 <2 || 3.x", "2.1.0", false},
		{"v1.2.0", "1.2.0", true}, {"=1.2.3", "1.2.3", true}, {"=1.2", "1.2.9", true}, {"1.2.3+build", "1.2.3", true},
		{"^1.2.3-beta.2", "1.2.3-beta.4", true}, {"^1.2.3-beta.2", "1.2.4-beta.2", false}, {"^1.2.3-beta.2", "1.3.0", true}, {">=1.0.0", "2.0.0-alpha", false}, {"<*", "1.0.0", false},
	} {
		r, ok := parseNPMRange(tc.r)
		if !ok {
			t.Errorf("%q is not read", tc.r)
			continue
		}
		if got := r.holds(semver.MustParse(tc.v)); got != tc.want {
			t.Errorf("%q holds for %s: %v", tc.r, tc.v, got)
		}
	}
	for _, s := range []string{"latest", "next-1", "1.2.3.4", "^", "git+x", "1 -", "x1"} {
		if _, ok := parseNPMRange(s); ok && s != "^" {
			t.Errorf("%q is read as a range", s)
		}
	}
}
