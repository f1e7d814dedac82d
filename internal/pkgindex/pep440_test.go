package pkgindex

import "testing"

func TestVersionOrder(t *testing.T) {
	t.Parallel()
	// PEP 440's own example, and what else is known to go wrong.
	ordered := []string{
		"0.9", "1.dev0", "1.0.dev456", "1.0a1", "1.0a2.dev456", "1.0a12.dev456", "1.0a12", "1.0b1.dev456", "1.0b2", "1.0b2.post345.dev456",
		"1.0b2.post345", "1.0rc1.dev456", "1.0rc1", "1.0", "1.0+abc.5", "1.0+abc.7", "1.0+5", "1.0.post456.dev34", "1.0.post456", "1.0.15",
		"1.1.dev1", "1.2", "1.10", "18446744073709551616", "1!0.1",
	}
	for i, a := range ordered {
		va, ok := parsePyVersion(a)
		if !ok {
			t.Fatalf("%s is not read", a)
		}
		for j, b := range ordered {
			vb, _ := parsePyVersion(b)
			if got, want := va.compare(vb), min(1, max(-1, i-j)); got != want {
				t.Errorf("%s against %s: %d, want %d", a, b, got, want)
			}
		}
	}
	for a, b := range map[string]string{
		"1.0": "1", "v1.0": "1.0.0", "1.0-1": "1.0.post1", "1.0alpha1": "1.0a1", "1.0-c.1": "1.0rc1", "1.0r4": "1.0.post4",
		"1.0+ubuntu-1": "1.0+Ubuntu.1", "01.00": "1.0", "1.0a": "1.0a0", "1.0.dev": "1.0dev0",
	} {
		va, okA := parsePyVersion(a)
		vb, okB := parsePyVersion(b)
		if !okA || !okB || va.compare(vb) != 0 || va.String() != vb.String() {
			t.Errorf("%s and %s: %v %v, %s %s", a, b, okA, okB, va, vb)
		}
	}
	for _, s := range []string{"", "2004d", "1.0+", "1..0", "a", "1.0-", "1.0+a..b", "latest"} {
		if _, ok := parsePyVersion(s); ok {
			t.Errorf("%q is read as a version", s)
		}
	}
}

func TestSpecifiers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		spec, version string
		want          bool
	}{
		{"==1.0", "1.0.0", true}, {"==1.0.0", "1.0", true}, {"==1.0", "1.0+cpu", true}, {"==1.0+cpu", "1.0", false}, {"==2.6.0+cpu", "2.6.0+CPU", true},
		{"==1.*", "1.5", true}, {"==1.*", "1", true}, {"==1.1.*", "1", false}, {"==1.*", "1.0a1", true}, {"!=1.*", "1.5", false}, {"==1.1a1.*", "1.1a1.post2", true},
		{"~=2.2", "2.9", true}, {"~=2.2", "3.0", false}, {"~=2.2.1", "2.3", false}, {"~=2.2", "2.1", false}, {"~=1!2.2", "2.3", false},
		{"<1.0", "1.0rc1", false}, {"<1.0", "0.9", true}, {"<1.0rc2", "1.0rc1", true}, {"<1.0", "1.0.dev1", false},
		{">1.0", "1.0.post1", false}, {">1.0", "1.0+local", false}, {">1.0.post1", "1.0.post2", true}, {">1.0", "1.0.1", true},
		{">=1.0", "1.0+x", true}, {"<=1.0", "1.0+x", true}, {">=1.0,<2", "1.5", true}, {">=1.0,<2", "2.0", false},
		{"===1.0", "1.0", true}, {"===1.0", "1.0.0", false}, {"", "anything", true}, {"!=1.0", "1.0.0", false},
	} {
		spec, ok := parsePySpec(tc.spec)
		if !ok {
			t.Fatalf("%s is not read", tc.spec)
		}
		v, _ := parsePyVersion(tc.version)
		if got := spec.holds(v, tc.version); got != tc.want {
			t.Errorf("%s holds for %s: %v", tc.spec, tc.version, got)
		}
	}
	for _, s := range []string{"1.0", ">=1.*", "~=1", "~=1.*", "==x", "=>1", "==1.0+l.*"} {
		if _, ok := parsePySpec(s); ok {
			t.Errorf("%q is read as a specifier", s)
		}
	}
}

func TestWheelTags(t *testing.T) {
	t.Parallel()
	target := Target{Python: "3.13.5", Arch: "x86_64"}
	for tags, want := range map[[3]string]bool{
		{"py3", "none", "any"}: true, {"py2.py3", "none", "any"}: true, {"py2", "none", "any"}: false, {"py313", "none", "any"}: true, {"py314", "none", "any"}: false,
		{"cp313", "cp313", "manylinux_2_17_x86_64.manylinux2014_x86_64"}: true, {"cp312", "cp312", "manylinux2014_x86_64"}: false,
		{"cp313", "cp313t", "manylinux2014_x86_64"}: false, {"cp36", "abi3", "manylinux2014_x86_64"}: true, {"cp314", "abi3", "manylinux2014_x86_64"}: false,
		{"cp313", "cp313", "manylinux2014_aarch64"}: false, {"cp313", "cp313", "musllinux_1_2_x86_64"}: false, {"cp313", "cp313", "macosx_11_0_arm64"}: false,
		{"cp313", "cp313", "manylinux_2_40_x86_64"}: false, {"cp313", "cp313", "manylinux_2_28_x86_64"}: true, {"cp313", "cp313", "linux_x86_64"}: true,
		{"py3", "none", "manylinux1_x86_64"}: true, {"py3", "none", "win_amd64"}: false, {"cp313", "none", "any"}: true, {"cp312", "none", "any"}: false,
	} {
		if got := fitsTags(tags[:], target); got != want {
			t.Errorf("%v: %v", tags, got)
		}
	}
	if !fitsTags([]string{"cp37", "cp37m", "manylinux1_x86_64"}, Target{Python: "3.7.1", Arch: "x86_64"}) {
		t.Error("cp37m")
	}
	for file, want := range map[string]string{
		"zope.interface-5.0-cp38-cp38-manylinux1_x86_64.whl": "5.0", "zope.interface-5.0.tar.gz": "5.0", "zope_interface-5.0.zip": "5.0",
		"zope-interface-5.0-1.tar.gz": "5.0-1", "zope.interface-5.0-1-cp38-cp38-any.whl": "5.0", "other-5.0.tar.gz": "", "zope.interface-5.0.exe": "", "x.whl": "",
	} {
		if got, _, _ := splitFilename("zope-interface", file); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}
