package main

import (
	"context"
	"io/fs"
	"path/filepath"
	"syscall"
)

// manyVersions is how many the design names.
const manyVersions = 50

// diskRow measures what the server's directory grows by for 50 versions that differ by one file each, against one.
func diskRow(ctx context.Context, l *lab) ([]result, error) {
	before, err := l.used()
	if err != nil {
		return nil, err
	}
	p, err := l.newProject(ctx, "disk", tree{seed: 50, small: 1500, smallBytes: 64 << 10}, nil)
	if err != nil {
		return nil, err
	}
	var one, many float64
	for n := range manyVersions {
		if err := l.edit(ctx, &p); err != nil {
			return nil, err
		}
		if _, _, err := l.build(ctx, p); err != nil {
			return nil, err
		}
		if n == 0 {
			if one, err = l.used(); err != nil {
				return nil, err
			}
		}
	}
	if many, err = l.used(); err != nil {
		return nil, err
	}
	return []result{{What: "disk for 50 versions, one file apart", Against: "one version", Unit: "MiB",
		Ours: []float64{many - before}, Theirs: []float64{one - before}, Target: 1.2}}, nil
}

// used gives the MiB of disk that the server's directory takes, its sandboxes' own volumes apart: they come and go.
func (l *lab) used() (float64, error) {
	var blocks int64
	err := filepath.WalkDir(l.data(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // removed meanwhile
		}
		if path == filepath.Join(l.data(), "sandboxes") {
			return fs.SkipDir
		}
		if info, err := d.Info(); err == nil {
			blocks += info.Sys().(*syscall.Stat_t).Blocks
		}
		return nil
	})
	return float64(blocks) * 512 / (1 << 20), err
}
