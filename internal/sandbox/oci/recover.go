package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"enplace/internal/durable"
)

// Recover settles what an earlier process left: containers first, then what they held on to, then files.
func (r *Runtime) Recover(ctx context.Context, keep func(id string) bool) error {
	names, err := r.leftovers()
	if err != nil {
		return fmt.Errorf("recovering sandboxes: %w", err)
	}
	var kills errgroup.Group
	kills.SetLimit(8)
	for _, name := range names {
		kills.Go(func() error { return errors.Join(r.engine.delete(ctx, name), r.cgroups.remove(ctx, name)) })
	}
	errs := []error{kills.Wait()}
	mounts, err := mountsBelow(r.dir)
	errs = append(errs, err)
	for _, m := range mounts {
		errs = append(errs, unmount(m))
	}
	errs = append(errs, freeLoopsBelow(ctx, r.dir))
	for _, name := range names {
		errs = append(errs, r.settle(ctx, name, keep))
	}
	errs = append(errs, r.dropWork(keep), r.durables.recover())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("recovering sandboxes: %w", err)
	}
	return nil
}

// leftovers gives the names of the sandboxes that files or the runtime know of.
func (r *Runtime) leftovers() ([]string, error) {
	names, err := r.engine.containers()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, n := range names {
		known[n] = true
	}
	folders, err := os.ReadDir(filepath.Join(r.dir, sandboxesDir))
	for _, f := range folders {
		if !known[f.Name()] {
			names = append(names, f.Name())
		}
	}
	return names, err
}

// settle keeps the volume of a sandbox that is gone, if it is to be kept, and removes the rest.
func (r *Runtime) settle(ctx context.Context, name string, keep func(id string) bool) error {
	var o owner
	dir := filepath.Join(r.dir, sandboxesDir, name)
	b, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) { // one without an owner has none
		r.log.Warn("a sandbox was left without a readable owner; it is removed", "sandbox", name, "error", err)
	}
	if o.Keep && validID.MatchString(o.ID) && keep(o.ID) {
		repair(ctx, filepath.Join(dir, volumeImage))
		if err := r.keepVolume(name, o.ID); err != nil {
			return err // the folder stays for another try: it has work that is asked for
		}
	}
	return r.removeFolder(name)
}

// dropWork removes the kept work that is not asked for any more.
func (r *Runtime) dropWork(keep func(id string) bool) error {
	dir := filepath.Join(r.dir, workDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !keep(strings.TrimSuffix(e.Name(), ".img")) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return durable.SyncFolder(dir)
}
