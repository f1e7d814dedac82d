package project

import (
	"context"
	"errors"
	"fmt"
	"time"

	"enplace"
	"enplace/internal/store"
)

const (
	blobGrace = 6 * time.Hour // before a blob that nothing names is taken for garbage: an import may be on its way
)

// Collected says what a collection removed.
type Collected struct {
	Steps, Images, Blobs  int
	ImageBytes, BlobBytes int64
}

// Collect removes the images and blobs that nothing needs any more, and what deleted environments left. It is safe beside running builds and tasks: what is in
// use, pinned by a task, or new is kept.
func (s *Service) Collect(ctx context.Context) (Collected, error) {
	var done Collected
	var err error
	now := s.cfg.Now()
	if s.cfg.Settled(s.cfg.StepRetention) {
		if done.Steps, err = s.cfg.Store.PruneSteps(ctx, now.Add(-s.cfg.StepRetention)); err != nil {
			return done, fmt.Errorf("pruning the step cache: %w", err)
		}
	}
	if err := s.sweepDeleted(ctx); err != nil {
		return done, err
	}
	if !s.cfg.Settled(blobGrace) { // what a build or an import under way has written may look old
		return done, nil
	}
	images := map[enplace.Digest]bool{}
	if b, ok := s.cfg.Base(); ok {
		images[b.Digest] = true
	}
	if err := s.cfg.Store.ImageDigests(ctx, func(d enplace.Digest) { images[d] = true }); err != nil {
		return done, fmt.Errorf("finding the images in use: %w", err)
	}
	if done.Images, done.ImageBytes, err = s.cfg.Images.Collect(ctx, func(d enplace.Digest) bool { return images[d] }); err != nil {
		return done, fmt.Errorf("collecting images: %w", err)
	}
	blobs, err := s.blobsInUse(ctx)
	if err != nil {
		return done, err
	}
	done.Blobs, done.BlobBytes, err = s.cfg.Blobs.Collect(ctx, now.Add(-blobGrace), func(d enplace.Digest) bool { return blobs[d] })
	if err != nil {
		return done, fmt.Errorf("collecting blobs: %w", err)
	}
	return done, nil
}

// sweepDeleted drops what environments left whose deletion was cut short.
func (s *Service) sweepDeleted(ctx context.Context) error {
	logged, err := s.queue.Logged()
	if err != nil {
		return fmt.Errorf("finding what deleted environments left: %w", err)
	}
	for _, id := range logged {
		_, err := s.cfg.Store.Environment(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			err = s.dropLeft(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("dropping what the deleted environment %s left: %w", id, err)
		}
	}
	return nil
}

// blobsInUse gives the blobs of trees and of snapshots. A snapshot that cannot be read stops the collection: what it lists is
// not known, and must not be lost.
func (s *Service) blobsInUse(ctx context.Context) (map[enplace.Digest]bool, error) {
	blobs, snapshots := map[enplace.Digest]bool{}, map[enplace.Digest]bool{}
	err := s.cfg.Store.BlobDigests(ctx, func(d enplace.Digest, snapshot bool) {
		blobs[d] = true
		if snapshot {
			snapshots[d] = true
		}
	})
	if err != nil {
		return nil, fmt.Errorf("finding the blobs in use: %w", err)
	}
	for d := range snapshots {
		tree, err := s.snapshot(ctx, d)
		if err != nil {
			return nil, fmt.Errorf("reading what a snapshot needs: %w", err)
		}
		for _, e := range tree {
			blobs[e.Digest] = true
		}
	}
	return blobs, nil
}

// collectLoop collects now and then until ctx ends.
func (s *Service) collectLoop(ctx context.Context) {
	tick := time.NewTicker(s.cfg.CollectEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		done, err := s.Collect(ctx)
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Error("collecting", "err", err)
		} else if done.Images+done.Blobs > 0 {
			s.cfg.Logger.Info("collected", "images", done.Images, "image_bytes", done.ImageBytes, "blobs", done.Blobs, "blob_bytes", done.BlobBytes)
		}
	}
}
