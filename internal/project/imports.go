package project

import (
	"context"
	"fmt"
	"io"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/source"
	"enplace/internal/store"
	"enplace/internal/treefs"
)

// ImportOptions say how an import meets the tree that is there.
type ImportOptions struct {
	Merge bool // keep what the import does not bring; else it is removed
}

// ImportArchive replaces the tree by an archive, or merges it in. The format is found out by the first bytes.
func (s *Service) ImportArchive(ctx context.Context, c enplace.Caller, id string, archive io.Reader, o ImportOptions) (enplace.ImportReport, error) {
	if _, err := s.load(ctx, c, access.Write, id); err != nil {
		return enplace.ImportReport{}, err
	}
	return s.importTree(ctx, c, id, o, "archive", func(k source.Sink) (source.Result, error) {
		return source.Archive(ctx, archive, k, s.cfg.Scratch)
	})
}

// ImportGit does the same from a git repository. Git runs in a sandbox of its own.
func (s *Service) ImportGit(ctx context.Context, c enplace.Caller, id string, g enplace.GitSource, o ImportOptions) (enplace.ImportReport, error) {
	if _, err := s.load(ctx, c, access.Write, id); err != nil {
		return enplace.ImportReport{}, err
	}
	if err := s.cfg.Git.Check(g); err != nil {
		return enplace.ImportReport{}, err
	}
	return s.importTree(ctx, c, id, o, "git", func(k source.Sink) (source.Result, error) { return s.cfg.Git.Fetch(ctx, g, k) })
}

// importTree reads a source into blobs, and then changes the tree in one transaction, or not at all.
func (s *Service) importTree(ctx context.Context, c enplace.Caller, id string, o ImportOptions, from string, read func(source.Sink) (source.Result, error)) (enplace.ImportReport, error) {
	batch, err := s.cfg.Blobs.Batch(ctx)
	if err != nil {
		return enplace.ImportReport{}, fmt.Errorf("starting an import: %w", err)
	}
	defer batch.Discard()
	res, err := read(treefs.Sink{Batch: batch})
	if err != nil {
		return enplace.ImportReport{}, err
	}
	if err := batch.Commit(ctx); err != nil {
		return enplace.ImportReport{}, err
	}
	err = s.cfg.Store.EditTree(ctx, id, s.cfg.Now().UTC(), func(t store.Tree) error {
		if !o.Merge {
			if _, err := t.Clear(); err != nil {
				return err
			}
		}
		for _, e := range res.Entries {
			if o.Merge {
				if err := checkClash(t, e.Path); err != nil {
					return err
				}
			}
			if err := t.Put(e); err != nil {
				return err
			}
		}
		if err := t.SetInfo(store.TreeInfo{Commit: res.Report.Commit, Describe: res.Report.Describe}); err != nil {
			return err
		}
		return checkTotals(t)
	})
	if err != nil {
		return enplace.ImportReport{}, gone(err, id)
	}
	res.Report.Replaced = !o.Merge
	res.Report.Skipped = append([]enplace.Count{}, res.Report.Skipped...) // an empty list, never null
	res.Report.Renamed = append([]enplace.Count{}, res.Report.Renamed...)
	s.cfg.Audit.Record(ctx, c, "environment.import", id, map[string]any{
		"from": from, "files": res.Report.Imported, "bytes": res.Report.Bytes, "commit": res.Report.Commit, "replaced": !o.Merge,
	})
	return res.Report, nil
}

func noBase() error {
	return enplace.Errorf(enplace.KindUnavailable, "the base system is not there yet").
		WithFix("wait for /readyz, or run enplace base build on the server")
}
