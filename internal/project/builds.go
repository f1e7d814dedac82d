package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/store"
	"enplace/internal/transcript"
)

// Build queues the next build of an environment, on the tree as it is now. One build of an environment runs at a time: while
// one is queued or running another is refused, naming it.
func (s *Service) Build(ctx context.Context, c enplace.Caller, id string) (enplace.Build, error) {
	if _, err := s.load(ctx, c, access.Write, id); err != nil {
		return enplace.Build{}, err
	}
	b, err := s.cfg.Store.QueueBuild(ctx, id, c.Name(), s.cfg.Now().UTC(), func(e enplace.Environment, tree []enplace.TreeEntry, info store.TreeInfo) (store.BuildSpec, error) {
		snapshot, err := s.putSnapshot(ctx, tree)
		return store.BuildSpec{
			Snapshot: snapshot, Slug: e.Slug, Packages: e.Packages, PythonVersion: e.PythonVersion, PipIndexURL: e.PipIndexURL,
			Check: e.Check, Scripts: e.Scripts, Egress: e.Egress, Active: e.ActiveVersion, Tree: info,
		}, err
	})
	if errors.Is(err, store.ErrConflict) {
		return enplace.Build{}, enplace.Conflictf("build %d of this environment is %s; one runs at a time", b.N, b.Status).
			WithFix("wait for it, or cancel it first")
	}
	if err != nil {
		return enplace.Build{}, gone(err, id)
	}
	s.cfg.Audit.Record(ctx, c, "build.create", id, map[string]any{"n": b.N})
	s.queue.Wake()
	return s.complete(b), nil
}

// complete fills what the record of a build that has not ended lacks.
func (s *Service) complete(b enplace.Build) enplace.Build {
	if b.Status == enplace.BuildRunning {
		b.ElapsedMS = s.queue.Elapsed(b.Environment, b.N).Milliseconds()
	}
	if len(b.Steps) == 0 {
		for _, name := range enplace.Steps {
			b.Steps = append(b.Steps, enplace.BuildStep{Name: name, Status: enplace.StepPending})
		}
	}
	return b
}

// putSnapshot keeps a tree's listing as a blob, and gives its digest: the same for the same tree.
func (s *Service) putSnapshot(ctx context.Context, tree []enplace.TreeEntry) (enplace.Digest, error) {
	slices.SortFunc(tree, func(a, b enplace.TreeEntry) int { return strings.Compare(a.Path, b.Path) })
	if tree == nil {
		tree = []enplace.TreeEntry{}
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return "", fmt.Errorf("encoding a snapshot: %w", err)
	}
	info, err := s.cfg.Blobs.Put(ctx, strings.NewReader(string(raw)), int64(len(raw)))
	if err != nil {
		return "", fmt.Errorf("keeping a snapshot: %w", err)
	}
	return info.Digest, nil
}

// snapshot reads a listing that putSnapshot kept.
func (s *Service) snapshot(ctx context.Context, d enplace.Digest) ([]enplace.TreeEntry, error) {
	b, err := s.cfg.Blobs.Open(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("opening a snapshot: %w", err)
	}
	defer b.Close()
	var tree []enplace.TreeEntry
	if err := json.NewDecoder(b).Decode(&tree); err != nil {
		return nil, fmt.Errorf("reading a snapshot: %w", err)
	}
	return tree, nil
}

// GetBuild gives a build, once it has ended or when the wait is over.
func (s *Service) GetBuild(ctx context.Context, c enplace.Caller, id string, n int, wait time.Duration) (enplace.Build, error) {
	if _, err := s.load(ctx, c, access.Read, id); err != nil {
		return enplace.Build{}, err
	}
	b, err := s.queue.Wait(ctx, id, n, min(wait, enplace.MaxWait))
	if errors.Is(err, store.ErrNotFound) {
		return enplace.Build{}, noBuild(n)
	}
	return s.complete(b), err
}

func noBuild(n int) error {
	return enplace.NotFoundf("the environment has no build %d", n).WithFix("list its builds")
}

// ListBuilds gives the builds of an environment, newest first.
func (s *Service) ListBuilds(ctx context.Context, c enplace.Caller, id string, p enplace.Page) (enplace.List[enplace.Build], error) {
	if _, err := s.load(ctx, c, access.Read, id); err != nil {
		return enplace.List[enplace.Build]{}, err
	}
	l, err := s.cfg.Store.ListBuilds(ctx, id, p)
	for i := range l.Items {
		l.Items[i] = s.complete(l.Items[i])
	}
	return l, gone(err, id)
}

// CancelBuild stops a build with everything it started. It returns at once; the build ends a moment later.
func (s *Service) CancelBuild(ctx context.Context, c enplace.Caller, id string, n int) (enplace.Build, error) {
	if _, err := s.load(ctx, c, access.Write, id); err != nil {
		return enplace.Build{}, err
	}
	b, err := s.cfg.Store.RequestCancel(ctx, id, n, s.cfg.Now().UTC())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return enplace.Build{}, noBuild(n)
	case errors.Is(err, store.ErrConflict):
		return enplace.Build{}, enplace.Conflictf("build %d has ended: %s", n, b.Status)
	case err != nil:
		return enplace.Build{}, err
	}
	s.queue.Cancel(id, n)
	s.cfg.Audit.Record(ctx, c, "build.cancel", id, map[string]any{"n": n})
	return s.complete(b), nil
}

// BuildLog opens the log of a build, waiting for one that is queued to start. The caller closes the reader.
func (s *Service) BuildLog(ctx context.Context, c enplace.Caller, id string, n int) (*transcript.Reader, error) {
	if _, err := s.load(ctx, c, access.Read, id); err != nil {
		return nil, err
	}
	if err := s.queue.WaitStarted(ctx, id, n); errors.Is(err, store.ErrNotFound) {
		return nil, noBuild(n)
	} else if err != nil {
		return nil, err
	}
	r, err := s.queue.Log(id, n)
	if errors.Is(err, os.ErrNotExist) {
		return nil, enplace.NotFoundf("build %d ended before it had a log", n)
	}
	return r, err
}
