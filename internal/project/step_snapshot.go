package project

import (
	"context"
	"errors"
	"fmt"

	"enplace"
	"enplace/internal/build"
	"enplace/internal/image"
	"enplace/internal/store"
	"enplace/internal/treefs"
)

// A tree that differs little from one that is packed already becomes a small image over that one. Beyond this share of its
// bytes, or this many entries, the whole tree is packed anew, so that no difference ever grows old and large.
const (
	maxDeltaShare   = 4 // at most a quarter
	maxDeltaEntries = 4000
)

// stepSnapshot lays out the tree as it was when the build was asked for.
func (p *plan) stepSnapshot(ctx context.Context) (build.Outcome, error) {
	tree, err := p.s.snapshot(ctx, p.run.Spec.Snapshot)
	if err != nil {
		return "", err
	}
	p.tree, p.has = tree, byPath(tree)
	p.run.Log.Note("%d files, %s", len(tree), p.run.Spec.Snapshot)

	whole, ok, err := p.packed(ctx, p.run.Spec.Snapshot)
	if err != nil {
		return "", err
	}
	if ok {
		p.files = []enplace.ManifestImage{whole}
		return build.Cached, nil
	}
	if ok, err := p.packDelta(ctx); ok || err != nil {
		return build.Ran, err
	}
	info, err := p.s.cfg.Images.Pack(ctx, treefs.New(ctx, p.s.cfg.Blobs, tree, nil))
	if err != nil {
		return "", fmt.Errorf("packing the tree: %w", err)
	}
	p.files = []enplace.ManifestImage{p.treeImage(info, p.run.Spec.Snapshot)}
	return build.Ran, p.s.cfg.Store.PutStep(ctx, wholeKey(p.run.Spec.Snapshot), store.StepResult{Image: info.Digest, Bytes: info.Bytes}, p.s.cfg.Now())
}

func (p *plan) treeImage(info image.Info, whole enplace.Digest) enplace.ManifestImage {
	return enplace.ManifestImage{Step: enplace.StepSnapshot, Digest: string(info.Digest), Bytes: info.Bytes, Mount: p.root, Whole: whole}
}

func wholeKey(snapshot enplace.Digest) string { return "tree " + string(snapshot) }

// packed gives the image that holds a whole tree, when there is one.
func (p *plan) packed(ctx context.Context, snapshot enplace.Digest) (enplace.ManifestImage, bool, error) {
	res, err := p.s.cfg.Store.CachedStep(ctx, wholeKey(snapshot), p.s.cfg.Now())
	if errors.Is(err, store.ErrNotFound) {
		return enplace.ManifestImage{}, false, nil
	}
	if err != nil {
		return enplace.ManifestImage{}, false, err
	}
	if err := p.s.cfg.Images.Verify(ctx, res.Image); err != nil {
		return enplace.ManifestImage{}, false, nil // gone or damaged: packed anew
	}
	return p.treeImage(image.Info{Digest: res.Image, Bytes: res.Bytes}, snapshot), true, nil
}

// packDelta packs the difference to the whole tree that the newest version lies over, when that is small.
func (p *plan) packDelta(ctx context.Context) (bool, error) {
	whole, old, ok := p.lastWhole(ctx)
	if !ok {
		return false, nil
	}
	changed, removed := treeDiff(old, p.tree)
	var bytes, all int64
	for _, e := range changed {
		bytes += e.Size
	}
	for _, e := range old {
		all += e.Size
	}
	if len(changed)+len(removed) > maxDeltaEntries || bytes > all/maxDeltaShare {
		return false, nil
	}
	info, err := p.s.cfg.Images.Pack(ctx, treefs.New(ctx, p.s.cfg.Blobs, changed, whiteouts(removed, p.tree)))
	if err != nil {
		return false, fmt.Errorf("packing what changed in the tree: %w", err)
	}
	p.run.Log.Note("%d files changed and %d removed since an earlier version; packed as a difference", len(changed), len(removed))
	p.files = []enplace.ManifestImage{whole, p.treeImage(info, "")}
	return true, nil
}

// lastWhole finds the whole tree under the newest version. What cannot be read is no reason to fail: the tree is packed anew.
func (p *plan) lastWhole(ctx context.Context) (enplace.ManifestImage, []enplace.TreeEntry, bool) {
	none := enplace.ManifestImage{}
	l, err := p.s.cfg.Store.ListVersions(ctx, p.run.Environment, enplace.Page{Limit: 1})
	if err != nil || len(l.Items) == 0 {
		return none, nil, false
	}
	v, err := p.s.cfg.Store.Version(ctx, p.run.Environment, l.Items[0].N)
	if err != nil {
		return none, nil, false
	}
	for _, m := range v.Manifest.Images {
		if m.Whole == "" {
			continue
		}
		whole, ok, err := p.packed(ctx, m.Whole)
		if !ok || err != nil {
			return none, nil, false
		}
		tree, err := p.s.snapshot(ctx, m.Whole)
		return whole, tree, err == nil
	}
	return none, nil, false
}
