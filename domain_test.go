package enplace_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"enplace"
)

func TestSlug(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Content Studio": "content-studio", "  a__b  ": "a-b", "Émile 2": "mile-2", "API": "api", "a/b\\c": "a-b-c", "..": "", "日本": "",
		strings.Repeat("x", 199): strings.Repeat("x", 63), strings.Repeat("ab ", 40): strings.TrimSuffix(strings.Repeat("ab-", 21), "-"),
		"": "", "a\nb": "",
	} {
		got, err := enplace.Slug(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Slug(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestCheckPath(t *testing.T) {
	t.Parallel()
	for _, ok := range []string{"a", "a/b.txt", ".env", "..a", "a..b", "ü/ß", strings.Repeat("x", 255), "a b", "-r"} {
		if err := enplace.CheckPath(ok); err != nil {
			t.Errorf("CheckPath(%q): %v", ok, err)
		}
	}
	for _, bad := range []string{"", "/a", "a/", "a//b", ".", "a/./b", "../a", "a/..", `a\b`, "C:x", "a\x00b", "a\nb", "a\x7f", "a\u009b31mb", "\xff", strings.Repeat("x", 256), strings.Repeat("x/", 2000) + "x"} {
		if err := enplace.CheckPath(bad); enplace.KindOf(err) != enplace.KindInvalid {
			t.Errorf("CheckPath(%q) = %v; want it refused as invalid", bad, err)
		}
	}
}

func TestCheckLink(t *testing.T) {
	t.Parallel()
	for _, ok := range [][2]string{{"a", "b"}, {"d/a", "../b"}, {"d/e/a", "../../x/y"}, {"a", "./b/"}} {
		if err := enplace.CheckLink(ok[0], ok[1]); err != nil {
			t.Errorf("CheckLink(%q, %q): %v", ok[0], ok[1], err)
		}
	}
	for _, bad := range [][2]string{{"a", "/etc"}, {"a", ".."}, {"a", "../b"}, {"d/a", "../../b"}, {"d/a", "../../d/b"}, {"a", "b/.."}, {"d/a", "s/../.."}, {"d/e/a", "../s/../../../etc/passwd"}, {"a", ""}, {"a", `..\b`}, {"a", "b\x1b[31m"}, {"a", "\u009b31m"}} {
		if err := enplace.CheckLink(bad[0], bad[1]); err == nil {
			t.Errorf("CheckLink(%q, %q) was accepted", bad[0], bad[1])
		}
	}
}

func TestParsePackage(t *testing.T) {
	t.Parallel()
	for _, ok := range []struct {
		m           enplace.Manager
		entry, want string
		canonical   string
	}{
		{enplace.Pip, "pandas", "pandas", "pandas"},
		{enplace.Pip, " Flask_SQLAlchemy == 3.1.1 ", "Flask_SQLAlchemy==3.1.1", "flask-sqlalchemy"},
		{enplace.Pip, "uvicorn[standard]>=0.30,<1", "uvicorn[standard]>=0.30,<1", "uvicorn"},
		{enplace.Pip, "torch==2.6.0+cpu", "torch==2.6.0+cpu", "torch"},
		{enplace.Pip, "zope.interface", "zope.interface", "zope-interface"},
		{enplace.NPM, "typescript@^5", "typescript@^5", "typescript"},
		{enplace.NPM, "@types/node", "@types/node", "@types/node"},
		{enplace.NPM, "@types/node@22.1.0", "@types/node@22.1.0", "@types/node"},
		{enplace.NPM, "left-pad@latest", "left-pad@latest", "left-pad"},
		{enplace.Apt, "g++", "g++", "g++"},
		{enplace.Apt, "libsdl2-2.0-0:i386", "libsdl2-2.0-0:i386", "libsdl2-2.0-0"},
		{enplace.Apt, "git=1:2.47.3-0+deb13u1", "git=1:2.47.3-0+deb13u1", "git"},
		{enplace.Apt, "foo=1.2~rc1+dfsg-3", "foo=1.2~rc1+dfsg-3", "foo"},
	} {
		p, err := enplace.ParsePackage(ok.m, ok.entry)
		if err != nil || p.String() != ok.want || p.CanonicalName() != ok.canonical {
			t.Errorf("ParsePackage(%s, %q) = %q (%q), %v; want %q (%q)", ok.m, ok.entry, p, p.CanonicalName(), err, ok.want, ok.canonical)
		}
	}
	for _, bad := range []struct {
		m     enplace.Manager
		entry string
	}{
		{enplace.Pip, ""}, {enplace.Pip, "-r x.txt"}, {enplace.Pip, "--index-url=https://x"}, {enplace.Pip, "x @ https://x/y.whl"}, {enplace.Pip, "./x"},
		{enplace.Pip, "x; python_version<'3'"}, {enplace.Pip, "x y"}, {enplace.Pip, "x==1.0 --hash=sha256:0"}, {enplace.Pip, "git+https://x"},
		{enplace.NPM, "--global"}, {enplace.NPM, "x@npm:y"}, {enplace.NPM, "x@https://y"}, {enplace.NPM, "x@file:../y"}, {enplace.NPM, "github:a/b"},
		{enplace.NPM, "x@"}, {enplace.NPM, "../x"}, {enplace.NPM, "@a/../b"}, {enplace.NPM, "a b"},
		{enplace.Apt, "python3.11*"}, {enplace.Apt, "vim-"}, {enplace.Apt, "vim+"}, {enplace.Apt, "vim/stable"}, {enplace.Apt, "./x.deb"}, {enplace.Apt, "-y"},
		{enplace.Apt, "Vim"}, {enplace.Apt, "a=b=c"}, {enplace.Manager("cargo"), "x"},
	} {
		if p, err := enplace.ParsePackage(bad.m, bad.entry); enplace.KindOf(err) != enplace.KindInvalid {
			t.Errorf("ParsePackage(%s, %q) = %q, %v; want it refused as invalid", bad.m, bad.entry, p, err)
		}
	}
}

func TestPackagesLimitAndTwice(t *testing.T) {
	t.Parallel()
	var list []string
	for i := range enplace.MaxPackagesPerManager + 1 {
		list = append(list, "p"+strings.Repeat("x", i))
	}
	if _, err := (enplace.Packages{Pip: list}).Parse(); enplace.KindOf(err) != enplace.KindTooLarge {
		t.Errorf("201 packages: %v; want too_large", err)
	}
	if all, err := (enplace.Packages{Pip: list[:enplace.MaxPackagesPerManager]}).Parse(); err != nil || len(all) != 200 {
		t.Errorf("200 packages: %d, %v", len(all), err)
	}
	if _, err := (enplace.Packages{Pip: []string{"Flask_Login", "flask-login==1"}}).Parse(); enplace.KindOf(err) != enplace.KindInvalid {
		t.Errorf("one package twice: %v; want invalid", err)
	}
}

func TestEgressAllows(t *testing.T) {
	t.Parallel()
	e := enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: []string{"pypi.org", "*.example.org"}}
	for host, want := range map[string]bool{
		"pypi.org": true, "PyPI.org.": true, "x.pypi.org": false, "a.example.org": true, "a.b.example.org": true, "example.org": false,
		"badexample.org": false, "": false, "evil.com": false,
	} {
		if e.Allows(host) != want {
			t.Errorf("Allows(%q) = %v", host, !want)
		}
	}
	for _, bad := range []enplace.Egress{
		{}, {Policy: "all"}, {Policy: enplace.EgressOpen, Hosts: []string{"a"}},
		{Policy: enplace.EgressAllowlist, Hosts: []string{"https://a"}}, {Policy: enplace.EgressAllowlist, Hosts: []string{"a:443"}},
		{Policy: enplace.EgressAllowlist, Hosts: []string{"*"}}, {Policy: enplace.EgressAllowlist, Hosts: []string{"a*b.org"}},
	} {
		if bad.Check("") == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func TestIDsSortByTime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var ids []string
	for i := range 50 {
		ids = append(ids, enplace.NewID("task", now.Add(time.Duration(i)*time.Millisecond)))
	}
	if !slices.IsSorted(ids) {
		t.Error("ids made later do not sort later")
	}
	for _, id := range ids {
		if !enplace.ValidID("task", id) || enplace.ValidID("henv", id) {
			t.Errorf("ValidID(%q)", id)
		}
	}
	for _, bad := range []string{"", "task_", "task_../../../../etc/passwd0000", "task_" + strings.Repeat("A", 26), "task_" + strings.Repeat("0", 27)} {
		if enplace.ValidID("task", bad) {
			t.Errorf("ValidID(%q) is true", bad)
		}
	}
}

// Lists follow ids, so these follow the order of making, and no clock.
func TestIDsSortByMakingWhateverTheClockDoes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var ids []string
	for _, jump := range []time.Duration{0, 0, -time.Hour, -time.Hour + 1, 10 * 365 * 24 * time.Hour, -10 * 365 * 24 * time.Hour, 0} {
		ids = append(ids, enplace.NewID("task", now.Add(jump)))
	}
	earlier := "aud_" + strings.TrimPrefix(enplace.NewID("task", now), "task_")
	b := []byte(earlier) // as of an earlier process whose clock was two thousand years ahead
	b[len("aud_")+1] = 'z'
	ids = append(ids, "task_"+string(b[len("aud_"):]))
	enplace.IDsAfter(string(b))
	enplace.IDsAfter("none")
	enplace.IDsAfter("")
	ids = append(ids, enplace.NewID("task", now), enplace.NewID("task", time.Time{}))
	if !slices.IsSorted(ids) {
		t.Errorf("not in the order of making: %v", ids)
	}
	for _, id := range ids {
		if !enplace.ValidID("task", id) {
			t.Errorf("ValidID(%q)", id)
		}
	}
}

func TestLimitsCheckNamesTheField(t *testing.T) {
	t.Parallel()
	for field, l := range map[string]enplace.Limits{
		"limits.memory_mib": {MemoryMiB: 1}, "limits.cpus": {CPUs: -1}, "limits.processes": {Processes: 1 << 20}, "limits.disk_mib": {DiskMiB: 1},
		"limits.timeout_seconds": {TimeoutSeconds: 1 << 30},
	} {
		err := l.Check()
		if err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%+v: %v; want %s named", l, err, field)
		}
	}
	if err := (enplace.Limits{}).Check(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}

func TestShown(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a b/ü": "a b/ü", "a\x1b[31m\nb": "a\uFFFD[31m\uFFFDb", "\u009b31m\u202eg": "\uFFFD31m\uFFFDg", "\xff": "\uFFFD",
		"1234567890123": "123456789012…", "12345678901ü": "12345678901…",
	} {
		if got := enplace.Shown(in, 12); got != want {
			t.Errorf("Shown(%q) = %q, want %q", in, got, want)
		}
	}
}
