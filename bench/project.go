package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"enplace"
)

// packages are what the larger environments install: some 300 MB of what data people use, pinned so that runs compare.
var packages = []string{"numpy==2.2.6", "pandas==2.2.3", "scipy==1.15.3", "scikit-learn==1.6.1", "requests==2.32.3"}

// project is an environment that a row works on.
type project struct {
	id, slug string
	edits    int
	firstMS  float64 // of the first build
}

// tree is what a project's files are made of. Their bytes do not compress, and are the same in each run.
type tree struct {
	seed       byte
	large      int // files of largeBytes
	small      int // files of smallBytes
	largeBytes int64
	smallBytes int64
}

// gigabyte is a tree that is 1 GB with the packages.
func (l *lab) gigabyte(seed byte) tree {
	t := tree{seed: seed, large: 13, largeBytes: 32 << 20, small: 4800, smallBytes: 64 << 10}
	if l.quick {
		t.large, t.small = 2, 500
	}
	return t
}

// newProject makes an environment and fills its tree.
func (l *lab) newProject(ctx context.Context, name string, t tree, pip []string) (project, error) {
	e, err := l.client.CreateEnvironment(ctx, enplace.CreateEnvironment{Name: name, Packages: &enplace.Packages{Pip: pip}})
	if err != nil {
		return project{}, err
	}
	p := project{id: e.ID, slug: e.Slug}
	// In two archives, each below the limit of one.
	for _, part := range []tree{
		{seed: t.seed, large: t.large, largeBytes: t.largeBytes},
		{seed: t.seed + 1, small: t.small, smallBytes: t.smallBytes},
	} {
		if part.large+part.small == 0 {
			continue
		}
		r, w := io.Pipe()
		go func() { w.CloseWithError(part.write(w)) }()
		if _, err := l.client.Import(ctx, p.id, r, true); err != nil {
			return p, fmt.Errorf("importing the tree: %w", err)
		}
	}
	clock, err := os.ReadFile(l.clock)
	if err != nil {
		return p, err
	}
	_, _, err = l.client.PutFile(ctx, p.id, "clock", bytes.NewReader(clock), true)
	return p, err
}

// write writes the tree as a tar.
func (t tree) write(out io.Writer) error {
	w := tar.NewWriter(out)
	for n := range t.large + t.small {
		name, size := fmt.Sprintf("data/large-%03d.bin", n), t.largeBytes
		if n >= t.large {
			name, size = fmt.Sprintf("assets/%02d/part-%04d.bin", n%40, n), t.smallBytes
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, ModTime: time.Unix(1e9, 0)}); err != nil {
			return err
		}
		seed := [32]byte{t.seed}
		binary.BigEndian.PutUint32(seed[1:], uint32(n))
		if _, err := io.CopyN(w, rand.NewChaCha8(seed), size); err != nil {
			return err
		}
	}
	return w.Close()
}

// edit changes one file of the tree.
func (l *lab) edit(ctx context.Context, p *project) error {
	p.edits++
	_, _, err := l.client.PutFile(ctx, p.id, "src/main.py", bytes.NewReader(fmt.Appendf(nil, "print(%d)\n", p.edits)), false)
	return err
}

// build builds a version and gives the milliseconds from asking to its end.
func (l *lab) build(ctx context.Context, p project) (enplace.Build, float64, error) {
	began := time.Now()
	b, err := l.client.StartBuild(ctx, p.id)
	if err == nil {
		b, err = l.client.WaitBuild(ctx, p.id, b.N)
	}
	if err == nil && b.Status != enplace.BuildSucceeded {
		err = fmt.Errorf("build %d of %s: %s: %w", b.N, p.slug, b.Status, b.Error)
	}
	return b, millis(time.Since(began)), err
}

// inPlace gives an environment of 1 GB that is built, the same one to all rows.
func (l *lab) inPlace(ctx context.Context) (project, error) {
	if l.project.id != "" {
		return l.project, nil
	}
	l.progress("building an environment of 1 GB")
	p, err := l.newProject(ctx, "bench", l.gigabyte(1), packages)
	if err != nil {
		return p, err
	}
	_, p.firstMS, err = l.build(ctx, p)
	l.project = p
	return p, err
}

// permuted gives the list in another order for each n: the same packages, which no build has seen in this order.
func permuted(list []string, n int) []string {
	left, out := slices.Clone(list), []string{}
	for len(left) > 0 {
		i := n % len(left)
		n /= len(left)
		out, left = append(out, left[i]), slices.Delete(left, i, i+1)
	}
	return out
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
