package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/store"
)

// File is a file of a tree being read.
type File struct {
	Entry   enplace.TreeEntry
	Content io.ReadSeekCloser
}

// ListFiles gives the entries of the tree at or below a prefix, by path.
func (s *Service) ListFiles(ctx context.Context, c enplace.Caller, id, prefix string, p enplace.Page) (enplace.List[enplace.TreeEntry], error) {
	if _, err := s.load(ctx, c, access.Read, id); err != nil {
		return enplace.List[enplace.TreeEntry]{}, err
	}
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix != "" {
		if err := enplace.CheckPath(prefix); err != nil {
			return enplace.List[enplace.TreeEntry]{}, err
		}
	}
	if p.Limit <= 0 || p.Limit > enplace.MaxListedEntries {
		p.Limit = enplace.MaxListedEntries
	}
	l, err := s.cfg.Store.ListTree(ctx, id, prefix, p)
	return l, gone(err, id)
}

// OpenFile opens a file of the tree. A link is not followed.
func (s *Service) OpenFile(ctx context.Context, c enplace.Caller, id, p string) (File, error) {
	if _, err := s.load(ctx, c, access.Read, id); err != nil {
		return File{}, err
	}
	if err := enplace.CheckPath(p); err != nil {
		return File{}, err
	}
	entry, err := s.cfg.Store.TreeEntry(ctx, id, p)
	if errors.Is(err, store.ErrNotFound) {
		return File{}, noFile(p)
	}
	if err != nil {
		return File{}, err
	}
	if entry.Type != enplace.EntryFile {
		return File{}, enplace.Invalidf("%s is a link to %s; read that", p, entry.Target).WithField("path")
	}
	content, err := s.cfg.Blobs.Open(ctx, entry.Digest)
	if err != nil {
		return File{}, fmt.Errorf("opening the content of %s: %w", p, err)
	}
	return File{Entry: entry, Content: content}, nil
}

func noFile(p string) error {
	return enplace.NotFoundf("the tree has no file %s", p).WithFix("list the files, or put it there first")
}

// PutFile writes one file of the tree, and reports created=false when it replaced one.
func (s *Service) PutFile(ctx context.Context, c enplace.Caller, id, p string, content io.Reader, executable bool) (entry enplace.TreeEntry, created bool, err error) {
	if _, err := s.load(ctx, c, access.Write, id); err != nil {
		return entry, false, err
	}
	if err := enplace.CheckPath(p); err != nil {
		return entry, false, err
	}
	if name := enplace.ImportSkips(p); name != "" {
		return entry, false, enplace.Invalidf("%s cannot be part of a tree: builds make it from the declared packages", name).WithField("path")
	}
	info, err := s.cfg.Blobs.Put(ctx, content, enplace.MaxFileBytes)
	if err != nil {
		return entry, false, over(err, p)
	}
	entry = enplace.TreeEntry{Path: p, Type: enplace.EntryFile, Size: info.Bytes, Executable: executable, Digest: info.Digest}
	err = s.cfg.Store.EditTree(ctx, id, s.cfg.Now().UTC(), func(t store.Tree) error {
		old, err := t.Get(p)
		created = errors.Is(err, store.ErrNotFound)
		if err != nil && !created {
			return err
		}
		if !created && old.Type == enplace.EntryLink {
			if _, err := t.Delete(p); err != nil { // a file never goes through a link: it takes its place
				return err
			}
		}
		if err := checkClash(t, p); err != nil {
			return err
		}
		if err := t.Put(entry); err != nil {
			return err
		}
		return checkTotals(t)
	})
	if err != nil {
		return enplace.TreeEntry{}, false, gone(err, id)
	}
	s.cfg.Audit.Record(ctx, c, "environment.file.put", id, map[string]any{"path": p, "bytes": info.Bytes})
	return entry, created, nil
}

// checkClash refuses a path that needs a file to be a folder, or the other way round.
func checkClash(t store.Tree, p string) error {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		e, err := t.Get(dir)
		if err == nil {
			return enplace.Conflictf("%s is a %s, so nothing can lie below it; remove it first", dir, e.Type).WithField(p)
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	below, err := t.HasBelow(p)
	if err != nil {
		return err
	}
	if below {
		return enplace.Conflictf("%s is a folder; remove it first", p).WithField(p)
	}
	return nil
}

// checkTotals holds the limits on the whole tree.
func checkTotals(t store.Tree) error {
	files, bytes, err := t.Totals()
	if err != nil {
		return err
	}
	if files > enplace.MaxTreeEntries {
		return enplace.TooLargef("the tree would have %d files; the limit is %d", files, enplace.MaxTreeEntries)
	}
	if bytes > enplace.MaxTreeBytes {
		return enplace.TooLargef("the tree would have %d MiB; the limit is %d MiB", bytes>>20, enplace.MaxTreeBytes>>20)
	}
	return nil
}

// over names the file in a size error of the blob store.
func over(err error, p string) error {
	if enplace.KindOf(err) == enplace.KindTooLarge {
		return enplace.TooLargef("the file is larger than %d MiB, the limit for one file", enplace.MaxFileBytes>>20).WithField(p)
	}
	return err
}

// DeleteFile removes a file or link, or a folder with all below it.
func (s *Service) DeleteFile(ctx context.Context, c enplace.Caller, id, p string) error {
	if _, err := s.load(ctx, c, access.Write, id); err != nil {
		return err
	}
	if err := enplace.CheckPath(p); err != nil {
		return err
	}
	var n int
	err := s.cfg.Store.EditTree(ctx, id, s.cfg.Now().UTC(), func(t store.Tree) (err error) {
		n, err = t.Delete(p)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return noFile(p)
	}
	if err != nil {
		return err
	}
	s.cfg.Audit.Record(ctx, c, "environment.file.delete", id, map[string]any{"path": p, "files": n})
	return nil
}
