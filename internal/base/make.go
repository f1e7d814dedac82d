package base

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"enplace/internal/image"
)

// make makes the root in Dir/work, packs it, and only then writes the record. The caller holds the lock.
func (b *Builder) make(ctx context.Context, key string, out *lines) (Base, error) {
	started := time.Now()
	if err := b.clear(ctx); err != nil {
		return Base{}, err
	}
	if err := os.MkdirAll(b.work(), 0o700); err != nil {
		return Base{}, err
	}
	defer func() {
		out.printf("removing the folder that it was made in")
		// The caller's context may have ended; what was made is removed all the same.
		if err := b.clear(context.WithoutCancel(ctx)); err != nil {
			b.cfg.Logger.Warn("removing what the making of the base left", "error", err)
		}
	}()
	rec := Base{Key: key, Source: b.cfg.Source.String(), Arch: runtime.GOARCH}
	info, err := b.fill(ctx, &rec, out)
	if err != nil {
		return Base{}, err
	}
	rec.Digest, rec.Bytes, rec.Files = info.Digest, info.Bytes, info.Files
	rec.CreatedAt = time.Now().UTC().Truncate(time.Second)
	rec.Took = time.Since(started).Round(time.Millisecond)
	if err := b.write(rec); err != nil {
		return Base{}, err
	}
	out.printf("base %s: %d MiB, %d files, %s", rec.Digest, rec.Bytes>>20, rec.Files, rec.Took.Round(time.Second))
	return rec, nil
}

// work is the folder of one making. It is closed to others: the programs of an image from outside may be set-user-id root.
func (b *Builder) work() string { return filepath.Join(b.cfg.Dir, "work") }

func (b *Builder) fill(ctx context.Context, rec *Base, out *lines) (image.Info, error) {
	dir := filepath.Join(b.work(), "root")
	if err := b.unpack(ctx, dir, rec, out); err != nil {
		return image.Info{}, err
	}
	root, err := openRootfs(dir)
	if err != nil {
		return image.Info{}, err
	}
	defer root.close()
	if !root.has("bin/sh") {
		return image.Info{}, noShell(rec.Source)
	}
	if err := b.installTools(ctx, root, rec, out); err != nil {
		return image.Info{}, err
	}
	if err := b.configure(root, rec); err != nil {
		return image.Info{}, err
	}
	out.printf("compiling Python's modules, reading versions")
	if err := b.finish(ctx, dir, rec); err != nil {
		return image.Info{}, err
	}
	if err := sweep(root); err != nil {
		return image.Info{}, err
	}
	out.printf("packing the image")
	return b.cfg.Images.PackDir(ctx, dir, image.DirOptions{})
}

// unpack fills dir from the source.
func (b *Builder) unpack(ctx context.Context, dir string, rec *Base, out *lines) error {
	if b.cfg.Source.Kind == Debian {
		rec.Suite, rec.Mirror, rec.Components = b.cfg.Suite, b.cfg.Mirror, b.cfg.Components
		if b.cfg.Security == noSecurity {
			rec.Warnings = append(rec.Warnings, "made without a security archive")
		}
		return b.debootstrap(ctx, dir, out)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask
		return err
	}
	root, err := openRootfs(dir)
	if err != nil {
		return err
	}
	defer root.close()
	switch b.cfg.Source.Kind {
	case OCI:
		rec.Source, err = pull(ctx, root, b.cfg.Source.Ref, out)
	case Tarball:
		err = unpackTarball(ctx, root, b.cfg.Source.Ref)
	default:
		err = copyDirectory(ctx, root, b.cfg.Source.Ref)
	}
	rec.Warnings = append(rec.Warnings, root.warnings()...)
	return err
}
