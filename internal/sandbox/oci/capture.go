package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/image"
)

// upper gives the folder that holds what was written over the images at a path.
func (c *container) upper(path string) (string, error) {
	if path == "/" {
		return filepath.Join(c.volume.dir, volumeRoot, "upper"), nil
	}
	for _, w := range c.writes {
		if w.path == path {
			return w.upper, nil
		}
	}
	return "", enplace.Invalidf("%s is no writable mount of the sandbox", path)
}

// Capture packs what was written at the path. Everything but the guest is killed first, and the sandbox is frozen meanwhile, so
// that what is packed is what was there at one moment.
func (c *container) Capture(ctx context.Context, path string, below enplace.Digest, exclude func(string) bool) (image.Info, error) {
	ctx, release, err := c.use(ctx)
	if err != nil {
		return image.Info{}, err
	}
	defer release()
	upper, err := c.upper(path)
	if err != nil {
		return image.Info{}, err
	}
	if err := c.client.KillAll(ctx); err != nil {
		return image.Info{}, fmt.Errorf("capturing %s: %w", path, c.stopped(err))
	}
	if err := c.r.cgroups.freeze(ctx, c.name); err != nil {
		return image.Info{}, fmt.Errorf("capturing %s: %w", path, c.stopped(err))
	}
	defer func() { _ = c.r.cgroups.thaw(c.name) }()
	if path == "/" {
		exclude = c.exceptMachinery(exclude)
	}
	var info image.Info
	if options := (image.DirOptions{Exclude: exclude, IDBase: c.idBase}); below != "" {
		info, err = c.r.images.Compose(ctx, []image.Part{{Image: below}}, upper, options)
	} else {
		info, err = c.r.images.PackDir(ctx, upper, options)
	}
	if err != nil {
		return image.Info{}, fmt.Errorf("capturing %s: %w", path, c.stopped(err))
	}
	return info, nil
}

// exceptMachinery also refuses what the adapter and the runtime made in the root.
func (c *container) exceptMachinery(exclude func(string) bool) func(string) bool {
	own := slices.Clone(machinery)
	for _, made := range c.made {
		own = append(own, strings.TrimPrefix(made, "/"))
	}
	return func(path string) bool {
		return slices.Contains(own, path) || exclude != nil && exclude(path)
	}
}

// Written measures what was written at the path. A file counts as long as it says it is, and by each of its names, as that is what
// packing it would write.
func (c *container) Written(ctx context.Context, path string, depth int) (map[string]int64, error) {
	ctx, release, err := c.use(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	upper, err := c.upper(path)
	if err != nil {
		return nil, err
	}
	// By handle: a process inside may turn a folder into a link at any moment.
	root, err := os.OpenRoot(upper)
	if err != nil {
		return nil, c.stopped(err)
	}
	defer root.Close()
	exclude := func(string) bool { return false }
	if path == "/" {
		exclude = c.exceptMachinery(nil)
	}
	sizes := map[string]int64{}
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed meanwhile
		case err != nil:
			return err
		case exclude(p) && d.IsDir():
			return fs.SkipDir
		case exclude(p) || !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return ignore(err, fs.ErrNotExist)
		}
		sizes[folder(p, depth)] += info.Size()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("measuring %s: %w", path, c.stopped(err))
	}
	return sizes, nil
}

// folder gives the folder of a file, and no more than depth parts of it.
func folder(path string, depth int) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[:min(depth, len(parts)-1)], "/")
}
