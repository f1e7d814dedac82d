package base

import (
	"path/filepath"
	"strings"

	"enplace"
)

// Kind is where a root comes from.
type Kind string

// The kinds of source.
const (
	Debian  Kind = "debian"  // mmdebstrap
	OCI     Kind = "oci"     // a registry's image
	Tarball Kind = "tarball" // a tar file, plain or by gzip, xz or zstd
	Dir     Kind = "dir"     // a directory of this machine
)

// Source is a kind with the reference or path that it needs.
type Source struct {
	Kind Kind
	Ref  string
}

// String gives the form that ParseSource reads.
func (s Source) String() string {
	if s.Kind == Debian || s.Kind == "" {
		return string(Debian)
	}
	return string(s.Kind) + ":" + s.Ref
}

// ParseSource reads "debian", "oci:REFERENCE", "tarball:PATH" or "dir:PATH"; empty is Debian. Paths are absolute.
func ParseSource(s string) (Source, error) {
	if s == "" || s == string(Debian) {
		return Source{Kind: Debian}, nil
	}
	kind, ref, _ := strings.Cut(s, ":")
	switch k := Kind(kind); {
	case ref == "":
	case k == OCI:
		return Source{Kind: OCI, Ref: ref}, nil
	case k == Tarball || k == Dir:
		if !filepath.IsAbs(ref) {
			return Source{}, enplace.Invalidf("%q is not an absolute path", ref).WithField("base.source")
		}
		return Source{Kind: k, Ref: filepath.Clean(ref)}, nil
	}
	return Source{}, enplace.Invalidf("%q is none of debian, oci:REFERENCE, tarball:PATH, dir:PATH", s).WithField("base.source")
}

func noShell(source string) error {
	return enplace.Invalidf("the base from %s has no /bin/sh; take a root filesystem with a shell, such as Debian's", source).WithField("base.source")
}
