package project

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"enplace"
)

// What a layer leaves to later ones is read here, on the host, from its image: what a package did inside, to another one or to what
// its files say of it, is noticed, and a package is passed on as its wheel was made or not at all.

// Bounds of what is read of one distribution, and of what is noted of all.
const (
	maxRecordBytes = 16 << 20
	maxPartPaths   = 100_000
)

// freshPart is a distribution that a layer installed.
type freshPart struct {
	pythonPart
	able   bool              // it is from a wheel of an index, whose hash is known
	record map[string]string // what RECORD has of it: hashes by path
}

func (r *reuse) fresh(d distribution, pkg enplace.ResolvedPackage) freshPart {
	locked := r.lock[pkg.Name]
	f := freshPart{pythonPart: pythonPart{Package: pkg, Wheels: locked.wheels(), Site: r.got.Site, Info: d.Info, Build: r.run.N}}
	f.able = d.URL == "" && locked.Version == d.Version && f.Wheels != "" && len(locked.matching(d.Tags)) == 1 && !r.python.NoBinary
	return f
}

var (
	sitePath    = regexp.MustCompile(`^\.venv/lib/python3\.\d+/site-packages$`)
	bytecodeTag = regexp.MustCompile(`^cpython-3\d+$`)
)

// verify gives the parts among what a layer installed. Files that no package has, or that two have, are nobody's part.
func (r *reuse) verify(ctx context.Context, layer enplace.Digest, kept []pythonPart, fresh []freshPart) ([]pythonPart, error) {
	if !sitePath.MatchString(r.got.Site) || !bytecodeTag.MatchString(r.got.Tag) {
		return nil, errors.New("the interpreter is of an unknown kind")
	}
	fsys, closer, err := r.s.cfg.Images.FS(ctx, layer)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	files, err := filesBelow(fsys, ".venv")
	if err != nil {
		return nil, err
	}
	claims, err := r.claims(ctx, kept)
	if err != nil {
		return nil, err
	}
	for i := range fresh {
		f := &fresh[i]
		if f.record, err = readRecord(fsys, f.pythonPart); err != nil {
			return nil, err
		}
		f.addBytecode(files, r.got.Tag)
		for p := range f.record {
			claims[p]++
		}
	}
	for p := range files {
		if claims[p] == 0 {
			return nil, fmt.Errorf("no package has the file %q", p)
		}
	}
	var parts []pythonPart
	for _, f := range fresh {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if f.able && f.whole(fsys, files, claims) {
			f.Image, f.Paths = layer, slices.Sorted(maps.Keys(f.record))
			parts = append(parts, f.pythonPart)
		}
	}
	return parts, nil
}

// claims counts by path what the empty virtual environment and the parts that stayed have.
func (r *reuse) claims(ctx context.Context, kept []pythonPart) (map[string]int, error) {
	fsys, closer, err := r.s.cfg.Images.FS(ctx, r.emptyVenv)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	files, err := filesBelow(fsys, ".venv")
	if err != nil {
		return nil, err
	}
	claims := map[string]int{}
	for p := range files {
		claims[p]++
	}
	n := 0
	for _, part := range kept {
		if n += len(part.Paths); n > maxPartPaths {
			return nil, errors.New("there are too many files")
		}
		for _, p := range part.Paths {
			claims[p]++
		}
	}
	return claims, nil
}

// filesBelow gives what is in a folder but folders, with the kind of each.
func filesBelow(fsys fs.FS, dir string) (map[string]fs.FileMode, error) {
	files := map[string]fs.FileMode{}
	err := fs.WalkDir(fsys, dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[p] = d.Type()
		}
		if err == nil && len(files) > maxPartPaths {
			err = errors.New("there are too many files")
		}
		return err
	})
	return files, err
}

// readRecord reads RECORD: paths below the project's folder, with the hash of each, empty where it says none. Source: the
// specification of recording installed projects. A distribution without one has no files that are known.
func readRecord(fsys fs.FS, part pythonPart) (map[string]string, error) {
	f, err := fsys.Open(part.info() + "/RECORD")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows := csv.NewReader(io.LimitReader(f, maxRecordBytes))
	rows.FieldsPerRecord, rows.ReuseRecord, rows.LazyQuotes = -1, true, true
	record := map[string]string{}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return record, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the RECORD of %s: %w", part.Info, err)
		}
		hash := ""
		if len(row) > 1 {
			hash = row[1]
		}
		record[path.Join(part.Site, row[0])] = hash
	}
}

// addBytecode adds what the interpreter compiled of its modules. Where RECORD has bytecode itself, its hash stays.
func (f *freshPart) addBytecode(files map[string]fs.FileMode, tag string) {
	for _, p := range slices.Collect(maps.Keys(f.record)) {
		name, ok := strings.CutSuffix(path.Base(p), ".py")
		if !ok {
			continue
		}
		compiled := path.Join(path.Dir(p), "__pycache__", name+"."+tag+".pyc")
		if _, there := files[compiled]; there && f.record[compiled] == "" {
			f.record[compiled] = ""
		}
	}
}

// whole reports whether every file of RECORD is there, is below the virtual environment and no other's, and has its hash. Without
// one are bytecode, which we compiled, and RECORD.
func (f *freshPart) whole(fsys fs.FS, files map[string]fs.FileMode, claims map[string]int) bool {
	for p, hash := range f.record {
		mode, there := files[p] // they are all below it
		if !there || !mode.IsRegular() || claims[p] != 1 || strings.ContainsFunc(p, func(c rune) bool { return c < ' ' }) {
			return false
		}
		if hash == "" && (p == f.info()+"/RECORD" || strings.HasSuffix(p, ".pyc")) {
			continue
		}
		if !hashIs(fsys, p, hash) {
			return false
		}
	}
	return len(f.record) > 0
}

func hashIs(fsys fs.FS, p, want string) bool {
	f, err := fsys.Open(p)
	if err != nil {
		return false
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return false
	}
	return want == "sha256="+base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
