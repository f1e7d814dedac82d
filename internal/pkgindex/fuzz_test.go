package pkgindex

import (
	"bytes"
	"strings"
	"testing"

	"enplace"
)

func FuzzPyPI(f *testing.F) {
	f.Add(simpleJSON, []byte(`{"files":[{"filename":"x-1.0.tar.gz","requires-python":">=3","yanked":"why"},{"filename":"x-1!2.0rc1+l.1-1-cp313-abi3-manylinux_2_17_x86_64.whl"}],"versions":["1.0","x"]}`), ">=1,!=2.*")
	f.Add("text/html", []byte(`<!DOCTYPE html><a href=x data-yanked data-requires-python="&gt;=3">x-1.0-py3-none-any.whl</a>`), "~=1.0")
	f.Fuzz(func(t *testing.T, contentType string, b []byte, version string) {
		p, err := parsePyPI("x", contentType, bytes.NewReader(b))
		spec, ok := parsePySpec(version)
		if err != nil || !ok {
			return
		}
		whole(t, judgePip(enplace.PackageCheck{Version: version}, p, spec, py313, "host"))
	})
}

func FuzzPackument(f *testing.F) {
	f.Add([]byte(`{"name":"x","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"engines":{"node":">=4"},"deprecated":"no","os":["!linux"],"cpu":"x64"},"2.0.0-a.1":{"engines":[]}}}`), "^1 || 2.x")
	f.Fuzz(func(t *testing.T, b []byte, version string) {
		if p, err := parsePackument(bytes.NewReader(b)); err == nil {
			whole(t, judgeNPM(enplace.PackageCheck{Version: version}, p, py313, "host"))
		}
	})
}

func FuzzPackages(f *testing.F) {
	f.Add([]byte(packagesMain), "git", "1.0")
	f.Fuzz(func(t *testing.T, b []byte, name, version string) {
		l, err := parsePackages(bytes.NewReader(b))
		if err != nil {
			return
		}
		pkg := enplace.Package{Manager: enplace.Apt, Name: name, Version: version}
		if found := l.packages[name]; len(found) > 0 {
			for _, v := range found {
				compareDebian(v.version, version)
			}
			whole(t, judgeApt(enplace.PackageCheck{}, pkg, found, "amd64", "Debian"))
		}
		judgeVirtual(enplace.PackageCheck{}, l.provides[name], "Debian")
	})
}

// whole checks what holds of every answer: what is installable exists, and the registry's own words stay on one line.
func whole(t *testing.T, c enplace.PackageCheck) {
	t.Helper()
	if c.Installable && (!c.Exists || !c.VersionExists) {
		t.Fatalf("%+v", c)
	}
	if strings.ContainsAny(c.Latest, "\n\x1b") {
		t.Fatalf("latest %q", c.Latest)
	}
}
