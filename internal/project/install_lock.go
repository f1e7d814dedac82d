package project

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"enplace"
	"enplace/internal/build"
)

// pythonLock is what a resolution gave, by canonical name.
type pythonLock map[string]lockedPackage

// lockedPackage is a package of a lock file. Source: PEP 751.
type lockedPackage struct {
	Name    string       `toml:"name"`
	Version string       `toml:"version"`
	Index   string       `toml:"index"`
	Marker  string       `toml:"marker"` // when it is wanted at all; a resolution for one interpreter has none
	Wheels  []lockedFile `toml:"wheels"`
	Sdist   *lockedFile  `toml:"sdist"`
}

// lockedFile is a wheel or a source archive.
type lockedFile struct {
	Name   string            `toml:"name"`
	URL    string            `toml:"url"`
	Size   int64             `toml:"size"`
	Hashes map[string]string `toml:"hashes"`
}

// resolve asks uv what an installation would bring, with the files of each package that fit the interpreter. Nothing of it
// goes to the log: where it fails, the installation will fail too, and say why. The lock is not what is installed: uv calls that
// an experiment, and fetches anew what it has in its cache.
func (p *plan) resolve(ctx context.Context, sh *build.Shell, stdin string, args ...string) (pythonLock, error) {
	cmd := p.uv(append([]string{"pip", "compile", "-q", "--no-header", "--format", "pylock.toml", "--python", p.python3()}, args...)...)
	cmd.Stdin, cmd.Silent = stdin, true
	return readLock(sh.Output(ctx, cmd))
}

// exported gives the content of uv.lock in the same form. It holds the files of every platform.
func (p *plan) exported(ctx context.Context, sh *build.Shell) (pythonLock, error) {
	cmd := p.uv("export", "-q", "--frozen", "--no-header", "--no-emit-project", "--format", "pylock.toml")
	cmd.Silent = true
	return readLock(sh.Output(ctx, cmd))
}

func readLock(raw []byte, err error) (pythonLock, error) {
	if err != nil {
		return nil, err
	}
	var doc struct {
		Packages []lockedPackage `toml:"packages"`
	}
	if err := toml.Unmarshal(raw, &doc); err != nil {
		return nil, &enplace.Failure{Reason: enplace.ReasonExit, Message: "uv gave a lock that cannot be read"}
	}
	lock := pythonLock{}
	for _, l := range doc.Packages {
		if _, several := lock[l.Name]; several {
			l.Marker = cmp.Or(l.Marker, "another")
		}
		lock[l.Name] = l
	}
	return lock, nil
}

// least gives the bytes that the package has at least: of its smallest wheel.
func (l lockedPackage) least() int64 {
	var sizes []int64
	for _, w := range l.Wheels {
		sizes = append(sizes, w.Size)
	}
	if len(sizes) == 0 {
		return 0 // what is built from a source may be smaller
	}
	return slices.Min(sizes)
}

// tooLarge refuses an installation whose archives alone are larger than a version may be, before any is fetched.
func (l pythonLock) tooLarge() error {
	var total int64
	names := make([]string, 0, len(l))
	for name, pkg := range l {
		total += pkg.least()
		names = append(names, name)
	}
	if total <= enplace.MaxVersionBytes {
		return nil
	}
	slices.SortFunc(names, func(a, b string) int { return int(l[b].least()>>10) - int(l[a].least()>>10) })
	var list []string
	for _, n := range names[:min(10, len(names))] {
		list = append(list, fmt.Sprintf("%s %s (%d MiB)", n, l[n].Version, l[n].least()>>20))
	}
	return build.OverLimit(fmt.Sprintf("the archives of the packages have %d MiB", total>>20), list)
}

// fromSource gives the packages, as name==version, of which no wheel fits.
func (l pythonLock) fromSource() []string {
	var out []string
	for name, pkg := range l {
		if len(pkg.Wheels) == 0 && pkg.Sdist != nil {
			out = append(out, name+"=="+pkg.Version)
		}
	}
	slices.Sort(out)
	return out
}

// hash gives the hash of the wheel that has one of the tags of the installed one, or of the source that it was built from.
func (l lockedPackage) hash(tags []string) string {
	if wheels := l.matching(tags); len(wheels) > 0 {
		return sha256Of(wheels[0])
	}
	if l.Sdist != nil {
		return sha256Of(*l.Sdist)
	}
	return ""
}

// matching gives the wheels that have one of the tags.
func (l lockedPackage) matching(tags []string) (wheels []lockedFile) {
	for _, w := range l.Wheels {
		name := cmp.Or(w.Name, w.URL[strings.LastIndex(w.URL, "/")+1:])
		if slices.ContainsFunc(wheelTags(name), func(t string) bool { return slices.Contains(tags, t) }) {
			wheels = append(wheels, w)
		}
	}
	return wheels
}

// wheels names what an installer chooses from: as long as it is the same, and so is the interpreter, so is the choice. Empty where
// there are no wheels of an index, or one without a hash.
func (l lockedPackage) wheels() string {
	all := []string{l.Index}
	for _, w := range l.Wheels {
		hash := w.Hashes["sha256"]
		if hash == "" || !strings.HasPrefix(w.URL, "http") {
			return ""
		}
		all = append(all, hash)
	}
	if len(l.Wheels) == 0 {
		return ""
	}
	slices.Sort(all[1:])
	return string(enplace.DigestOf([]byte(strings.Join(all, " "))))
}

// wants reports whether a part is what installing by the lock would bring.
func (l pythonLock) wants(part pythonPart) bool {
	pkg, ok := l[part.Package.Name]
	return ok && pkg.Marker == "" && pkg.Version == part.Package.Version && pkg.wheels() == part.Wheels
}

// agrees reports whether no package is in both with two versions.
func (l pythonLock) agrees(other pythonLock) bool {
	for name, pkg := range l {
		if o, both := other[name]; both && o.Version != pkg.Version {
			return false
		}
	}
	return true
}

func sha256Of(f lockedFile) string {
	if h := f.Hashes["sha256"]; h != "" {
		return "sha256:" + h
	}
	return ""
}

// wheelTags expands the compressed tags of a wheel's file name. Source: PEP 427 and PEP 425.
func wheelTags(name string) []string {
	parts := strings.Split(strings.TrimSuffix(name, ".whl"), "-")
	if len(parts) < 5 {
		return nil
	}
	parts = parts[len(parts)-3:]
	var tags []string
	for py := range strings.SplitSeq(parts[0], ".") {
		for abi := range strings.SplitSeq(parts[1], ".") {
			for platform := range strings.SplitSeq(parts[2], ".") {
				tags = append(tags, py+"-"+abi+"-"+platform)
			}
		}
	}
	return tags
}
