package pkgindex

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"enplace"
)

// TestRealRegistries asks each registry for a few names, as a person would.
func TestRealRegistries(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("asks the real registries")
	}
	for _, u := range []string{"https://pypi.org/simple/pip/", "https://registry.npmjs.org/is-odd", "http://deb.debian.org/debian/dists/bookworm/main/binary-amd64/Packages.gz"} {
		resp, err := (&http.Client{Timeout: 10 * time.Second}).Head(u)
		if err == nil {
			resp.Body.Close()
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s cannot be reached: %v", u, err)
			}
			t.Skipf("%s cannot be reached: %v", u, err)
		}
	}
	source := func(mirror, suite string) AptSource {
		return AptSource{"http://deb.debian.org/" + mirror, suite, []string{"main"}, "amd64"}
	}
	x := New(Config{CacheDir: t.TempDir(), Apt: []AptSource{source("debian", "bookworm"), source("debian", "bookworm-updates"), source("debian-security", "bookworm-security")}})
	for _, tc := range []struct {
		m           enplace.Manager
		entry, want string
		say         string
	}{
		{enplace.Pip, "pandas", "exists version installable", ""},
		{enplace.Pip, "pandas==2.2.3", "exists version installable", ""},
		{enplace.Pip, "pandas==99", "exists ", "no version"},
		{enplace.Pip, "Flask_SQLAlchemy", "exists version installable", ""},
		{enplace.Pip, "flask.sqlalchemy>=3", "exists version installable", ""},
		{enplace.Pip, "numpy==1.26.4", "exists version installable", "from source"},
		{enplace.Pip, "enplace-surely-absent-name", "", "no project"},
		{enplace.NPM, "typescript@^5", "exists version installable", ""},
		{enplace.NPM, "@types/node@latest", "exists version installable", ""},
		{enplace.NPM, "typescript@99.0.0", "exists ", "no version"},
		{enplace.NPM, "enplace-surely-absent-name", "", "no package"},
		{enplace.Apt, "jq", "exists version installable", ""},
		{enplace.Apt, "git=1:2.30.2-1ubuntu1", "exists ", "now it has 1:2.39"},
		{enplace.Apt, "mail-transport-agent", "exists version ", "exim4-daemon-light"},
		{enplace.Apt, "enplace-surely-absent-name", "", "no package"},
	} {
		start := time.Now()
		c := check(t, x, tc.m, tc.entry, py313)
		if !strings.HasPrefix(facts(c), tc.want) || !strings.Contains(c.Message, tc.say) {
			t.Errorf("%s: %q, %q", tc.entry, facts(c), c.Message)
		}
		t.Logf("%-40s %4d ms  %s", tc.entry, time.Since(start).Milliseconds(), c.Message)
	}
}
