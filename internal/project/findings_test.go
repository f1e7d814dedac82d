package project

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"enplace"
)

func TestPretendVersion(t *testing.T) {
	t.Parallel()
	for describe, want := range map[string]string{
		"": "0.0.0", "v1.2.3": "1.2.3", "1.2.3-0-gabc123": "1.2.3", "v1.2.3-5-gabc123": "1.2.3.post5+gabc123", "release-2024": "0.0.0",
		"v1.0-rc1-2-gabc": "0.0.0", "abc1234": "0.0.0",
	} {
		if got := pretendVersion(describe); got != want {
			t.Errorf("%s: %s, not %s", describe, got, want)
		}
	}
}

func TestWheelTags(t *testing.T) {
	t.Parallel()
	got := wheelTags("charset_normalizer-3.5.3-1-cp37.py3-abi3-manylinux_2_28_x86_64.linux_x86_64.whl")
	want := []string{"cp37-abi3-manylinux_2_28_x86_64", "cp37-abi3-linux_x86_64", "py3-abi3-manylinux_2_28_x86_64", "py3-abi3-linux_x86_64"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := wheelTags("odd.whl"); got != nil {
		t.Errorf("no wheel: %q", got)
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	lock, err := readLock([]byte(`
[[packages]]
name = "numpy"
version = "2.0"
sdist = { url = "https://x/numpy-2.0.tar.gz", size = 5, hashes = { sha256 = "s" } }
wheels = [{ url = "https://x/numpy-2.0-cp313-cp313-linux_x86_64.whl", size = 1100000000, hashes = { sha256 = "w" } },
          { url = "https://x/numpy-2.0-py3-none-any.whl", size = 1000000000, hashes = { sha256 = "any" } }]
[[packages]]
name = "docopt"
version = "0.6.2"
sdist = { url = "https://x/docopt-0.6.2.tar.gz", size = 9000000000, hashes = { sha256 = "d" } }
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := lock.fromSource(); !slices.Equal(got, []string{"docopt==0.6.2"}) {
		t.Errorf("from source: %q", got)
	}
	for tag, want := range map[string]string{"cp313-cp313-linux_x86_64": "sha256:w", "py3-none-any": "sha256:any", "cp313-cp313-built_here": "sha256:s"} {
		if got := lock["numpy"].hash([]string{tag}); got != want {
			t.Errorf("%s: %s", tag, got)
		}
	}
	// The smallest wheels count, and sources do not: what is refused is too large for certain.
	if err := lock.tooLarge(); err != nil {
		t.Errorf("1000 MB: %v", err)
	}
	lock["more"] = lockedPackage{Name: "more", Version: "1", Wheels: []lockedFile{{Size: enplace.MaxVersionBytes - 1000000000}}}
	if err := lock.tooLarge(); err != nil {
		t.Errorf("just the limit: %v", err)
	}
	lock["last"] = lockedPackage{Name: "last", Version: "1", Wheels: []lockedFile{{Size: 1}}}
	if err := lock.tooLarge(); err == nil || !strings.Contains(err.Error(), "Largest: numpy 2.0 (953 MiB), more 1 (582 MiB)") {
		t.Errorf("one byte over: %v", err)
	}
}

func TestAptInstalled(t *testing.T) {
	t.Parallel()
	before := "ii  libc6:amd64 2.41-12\nii  git 1:2.47.3\nrc  old 1\n"
	after := before + "ii  jq 1.7.1-6\nii  libjq1:amd64 1.7.1-6+b1\nii  libusb:amd64 2:1.0.28-1\n"
	uris := "'http://deb.debian.org/debian/pool/main/j/jq/jq_1.7.1-6_amd64.deb' jq_1.7.1-6_amd64.deb 77864 SHA256:aa\n" +
		"'http://deb.debian.org/debian/pool/main/j/jq/libjq1_1.7.1-6+b1_amd64.deb' libjq1_1.7.1-6+b1_amd64.deb 1 SHA256:bb\n" +
		"'http://deb.debian.org/u/libusb_1.0.28-1_amd64.deb' libusb_2%3a1.0.28-1_amd64.deb 1 SHA256:cc\nnoise\n"
	want := []enplace.ResolvedPackage{
		{Manager: enplace.Apt, Name: "git", Version: "1:2.47.3", Source: "base", Direct: true},
		{Manager: enplace.Apt, Name: "jq", Version: "1.7.1-6", Hash: "sha256:aa", Source: "http://deb.debian.org/debian/pool/main/j/jq/jq_1.7.1-6_amd64.deb", Direct: true},
		{Manager: enplace.Apt, Name: "libjq1", Version: "1.7.1-6+b1", Hash: "sha256:bb", Source: "http://deb.debian.org/debian/pool/main/j/jq/libjq1_1.7.1-6+b1_amd64.deb"},
		{Manager: enplace.Apt, Name: "libusb", Version: "2:1.0.28-1", Hash: "sha256:cc", Source: "http://deb.debian.org/u/libusb_1.0.28-1_amd64.deb"},
	}
	if diff := cmp.Diff(want, aptInstalled(before, after, uris, []string{"jq=1.7.1-6", "git"})); diff != "" {
		t.Error(diff)
	}
}

// Case 31: what apt says of versions and names that it has not.
func TestAptFailure(t *testing.T) {
	t.Parallel()
	vanished := "Reading package lists...\nE: Version '1:2.30.2-1ubuntu1' for 'git' was not found\n"
	if got := aptVanished(vanished); !slices.Equal(got, []string{"git"}) {
		t.Errorf("vanished: %q", got)
	}
	f := aptFailure(vanished, "       git | 1:2.47.3-0+deb13u1 | http://deb.debian.org/debian trixie/main amd64 Packages\n")
	if f == nil || !strings.Contains(f.Message, "Version '1:2.30.2-1ubuntu1' for 'git' was not found") ||
		!slices.Equal(f.Fixes, []string{"declare git=1:2.47.3-0+deb13u1, which the archive has now, or git without a version"}) {
		t.Errorf("got %+v", f)
	}
	f = aptFailure("Package mail-transport-agent is a virtual package provided by:\n  postfix 3.10.5-1\n  exim4 4.98\nYou should explicitly select one to install.\n\nE: Package 'mail-transport-agent' has no installation candidate\n", "")
	if f == nil || len(f.Fixes) != 1 || !strings.HasSuffix(f.Fixes[0], ": postfix, exim4") {
		t.Errorf("got %+v", f)
	}
	if f := aptFailure("nothing wrong\n", ""); f != nil {
		t.Errorf("got %+v", f)
	}
}

func TestReadChecked(t *testing.T) {
	t.Parallel()
	c := readChecked([]byte(`broken .venv/bin/x: its interpreter /nowhere is not there
have libc.so.6
have libvendored-1234.so.1
file /bin/sh
machine Advanced Micro Devices X86-64
need libc.so.6
file .venv/lib/a.so
machine Advanced Micro Devices X86-64
need libvendored-1234.so.1
need libgone.so.1
need ld-linux-x86-64.so.2
file .venv/lib/b.so
machine Advanced Micro Devices X86-64
need libgone.so.1
file node_modules/x/prebuilds/linux-arm64/x.node
machine AArch64
need libarm.so.1
file node_modules/x/prebuilds/linuxmusl-x64/x.musl.node
machine Advanced Micro Devices X86-64
need libc.musl-x86_64.so.1
need libother.so
`))
	if len(c.broken) != 1 {
		t.Errorf("broken: %q", c.broken)
	}
	if got := c.missing(); len(got) != 1 || !strings.HasPrefix(got[0], ".venv/lib/a.so needs libgone.so.1,") {
		t.Errorf("missing: %q", got)
	}
}

func TestThrownAway(t *testing.T) {
	t.Parallel()
	got := thrownAway(map[string]int64{
		"root/.cache/corpora": 200 << 10, "root/.npm/_cacache": 9 << 20, "root/.cache/uv/x": 9 << 20, "root/.bashrc": 100, "usr/lib/x": 9 << 20, "root/.cache/pip": 1 << 20,
	})
	if len(got) != 1 || !strings.Contains(got[0], "200 KiB to /root/.cache/corpora") {
		t.Errorf("got %q", got)
	}
}

func TestTreeDiffAndWhiteouts(t *testing.T) {
	t.Parallel()
	tree := func(paths ...string) (out []enplace.TreeEntry) {
		for _, p := range paths {
			path, digest, _ := strings.Cut(p, "=")
			out = append(out, enplace.TreeEntry{Path: path, Type: enplace.EntryFile, Digest: enplace.Digest(digest)})
		}
		return out
	}
	for name, c := range map[string]struct {
		old, next             []enplace.TreeEntry
		changed, gone, hidden []string
	}{
		"the same":                  {tree("a=1"), tree("a=1"), nil, nil, nil},
		"changed, new and removed":  {tree("a=1", "b=1"), tree("a=2", "c=1"), []string{"a", "c"}, []string{"b"}, []string{"b"}},
		"a folder goes as one":      {tree("d/a=1", "d/e/b=1", "x=1"), tree("x=1"), nil, []string{"d/a", "d/e/b"}, []string{"d"}},
		"a part of a folder":        {tree("d/a=1", "d/e/b=1"), tree("d/a=1"), nil, []string{"d/e/b"}, []string{"d/e"}},
		"a file becomes a folder":   {tree("d=1"), tree("d/a=1"), []string{"d/a"}, []string{"d"}, nil},
		"a folder becomes a file":   {tree("d/a=1", "d/b=1"), tree("d=1"), []string{"d"}, []string{"d/a", "d/b"}, nil},
		"deep below what is a file": {tree("d/e/a=1"), tree("d=1"), []string{"d"}, []string{"d/e/a"}, nil},
		"everything":                {tree("a=1", "d/b=1"), nil, nil, []string{"a", "d/b"}, []string{"a", "d"}},
		"names that begin the same": {tree("ab=1", "a/b=1"), tree("ab=1"), nil, []string{"a/b"}, []string{"a"}},
	} {
		changed, gone := treeDiff(c.old, c.next)
		var paths []string
		for _, e := range changed {
			paths = append(paths, e.Path)
		}
		if !slices.Equal(paths, c.changed) || !slices.Equal(gone, c.gone) {
			t.Errorf("%s: changed %q, gone %q", name, paths, gone)
		}
		if got := whiteouts(gone, c.next); !slices.Equal(got, c.hidden) {
			t.Errorf("%s: hidden %q", name, got)
		}
	}
}

func TestPackageDiff(t *testing.T) {
	t.Parallel()
	p := func(name, version string) enplace.ResolvedPackage {
		return enplace.ResolvedPackage{Manager: enplace.NPM, Name: name, Version: version}
	}
	got := packageDiff([]enplace.ResolvedPackage{p("a", "1"), p("b", "1"), p("b", "2"), p("c", "1")}, []enplace.ResolvedPackage{p("a", "2"), p("b", "1"), p("b", "2"), p("d", "1")})
	want := []enplace.PackageChange{{Manager: enplace.NPM, Name: "a", From: "1", To: "2"}, {Manager: enplace.NPM, Name: "c", From: "1"}, {Manager: enplace.NPM, Name: "d", To: "1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
