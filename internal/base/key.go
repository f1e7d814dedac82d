package base

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"enplace"
)

// recipe is part of every key. Raise it when the making changes in a way that no other input shows.
const recipe = 1

// key hashes all that a base is made from, as far as it can be told without a network. Ids and times of packing are not in
// it: the image's digest covers what came out.
func (b *Builder) key() (string, error) {
	c := b.cfg
	in := struct {
		Recipe                     int
		Source, Arch               string
		Suite, Mirror, Security    string
		Components, Packages, Dpkg []string
		Tools                      []Tool
		Files                      []string
		Authorities                []enplace.Digest
		Local                      string
	}{
		Recipe: recipe, Source: c.Source.String(), Arch: runtime.GOARCH,
		Tools: c.Tools, Files: []string{aptConf, npmScript, finishScript},
	}
	if c.Source.Kind == Debian {
		in.Suite, in.Mirror, in.Security, in.Components = c.Suite, c.Mirror, c.Security, c.Components
		in.Packages, in.Dpkg = debianPackages, dpkgOptions
	}
	for _, file := range c.ExtraCAs {
		pem, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("reading a certificate: %w", err)
		}
		in.Authorities = append(in.Authorities, enplace.DigestOf(pem))
	}
	var err error
	if in.Local, err = localState(c.Source); err != nil {
		return "", err
	}
	data, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	return enplace.DigestOf(data).Hex(), nil
}

// localState tells whether a tarball or a directory of this machine has changed, by names, sizes and times: reading it all
// at each start would cost seconds.
func localState(s Source) (string, error) {
	if s.Kind != Tarball && s.Kind != Dir {
		return "", nil
	}
	sum := sha256.New()
	err := filepath.WalkDir(s.Ref, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(sum, "%q %v %d %d\n", p, fi.Mode(), fi.Size(), fi.ModTime().UnixNano())
		return err
	})
	if err != nil {
		return "", enplace.Invalidf("%s cannot be read", s.Ref).WithField("base.source").WithCause(err)
	}
	return string(enplace.NewDigest(sum.Sum(nil))), nil
}
