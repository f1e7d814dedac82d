package toolchain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/plugin"
	"enplace/internal/source"
	"enplace/internal/treefs"
)

// received is what came from a plugin's source.
type received struct {
	plugin.Result
	commit string
	digest enplace.Digest
}

// wanted is what counts of a plugin. Its items are judged one by one, so that one with a bad file does not stop the others.
var wanted = source.Part{Within: []string{enplace.ItemsFolder, plugin.ManifestName}, FileBytes: enplace.MaxItemBytes}

// trimmed is a source without what people copy around it.
func trimmed(src enplace.PluginSource) enplace.PluginSource {
	return enplace.PluginSource{GitURL: strings.TrimSpace(src.GitURL), Ref: strings.TrimSpace(src.Ref), Path: strings.TrimSpace(src.Path)}
}

// fetch reads a plugin from a repository.
func (s *Service) fetch(ctx context.Context, src enplace.PluginSource) (received, error) {
	g := enplace.GitSource{URL: src.GitURL, Ref: src.Ref, Subdir: src.Path}
	err := s.cfg.Git.Check(g)
	var got received
	if err == nil {
		got, err = s.receive(ctx, func(k source.Sink) (source.Result, error) { return s.cfg.Git.FetchPart(ctx, g, wanted, k) })
	}
	return got, ofSource(err)
}

// sourceFields are the fields of a plugin's source by their names in a source of git.
var sourceFields = map[string]string{"git_url": "source.git_url", "ref": "source.ref", "subdir": "source.path"}

// ofSource names the field of a plugin's source that an error is about.
func ofSource(err error) error {
	var told *enplace.Error
	if errors.As(err, &told) && sourceFields[told.Field] != "" {
		return told.WithField(sourceFields[told.Field])
	}
	return err
}

// unpack reads a plugin from an archive.
func (s *Service) unpack(ctx context.Context, archive io.Reader) (received, error) {
	return s.receive(ctx, func(k source.Sink) (source.Result, error) { return wanted.Archive(ctx, archive, k, s.cfg.Scratch) })
}

// receive reads a source. Its files are blobs for as long as it is read; nothing names them afterwards, so they are collected.
func (s *Service) receive(ctx context.Context, read func(source.Sink) (source.Result, error)) (received, error) {
	batch, err := s.cfg.Blobs.Batch(ctx)
	if err != nil {
		return received{}, fmt.Errorf("reading a plugin: %w", err)
	}
	defer batch.Discard()
	res, err := read(treefs.Sink{Batch: batch})
	if err != nil {
		return received{}, err
	}
	if err := batch.Commit(ctx); err != nil {
		return received{}, err
	}
	got := received{commit: res.Report.Commit, digest: digestOf(res.Entries)}
	got.Result, err = plugin.Read(treefs.New(ctx, s.cfg.Blobs, plugin.Rewrap(res.Entries, res.Report.Unwrapped), nil))
	got.leaveOut(res)
	got.Findings = append(got.Findings, missed(res)...)
	return got, err
}

// missed says what the import of a plugin left out, which a check of what arrived cannot know.
func missed(res source.Result) []enplace.Finding {
	var all []enplace.Finding
	for _, p := range res.Submodules {
		f := enplace.Finding{Severity: enplace.FindingWarning, Item: folderOf(p), File: enplace.Shown(p, 400), Message: "this is a submodule, of which nothing is imported; put its files into the plugin's repository"}
		if path.Dir(p) == enplace.ItemsFolder || p == enplace.ItemsFolder { // all of an item, or of all items
			f.Severity = enplace.FindingError
		}
		all = append(all, f)
	}
	for _, c := range res.Report.Skipped {
		if c.Rule != source.MacOSFiles {
			all = append(all, skipped(c, res.Report.Unwrapped)...)
		}
	}
	return all
}

// skipped says what a rule of imports left out, by the first files of it that the report names: of folders that are never imported
// what a check of the plugin's folder says.
func skipped(c enplace.Count, top string) (all []enplace.Finding) {
	for i, name := range c.Examples {
		if top != enplace.ItemsFolder {
			name = strings.TrimPrefix(name, top+"/")
		}
		f := enplace.Finding{Severity: enplace.FindingWarning, Item: folderOf(name), File: name, Message: c.Rule}
		if slices.Contains(enplace.NeverImported, c.Rule) {
			f = plugin.NeverImported(name, c.Rule)
		} else if i > 0 {
			break
		}
		if f.Message != "" && !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

// folderOf gives the folder of the item that a path is of, or "".
func folderOf(name string) string { return enplace.Shown(itemFolder(name), 255) }

// itemFolder is folderOf with the bytes that the folder has.
func itemFolder(name string) string {
	below, _ := strings.CutPrefix(name, enplace.ItemsFolder+"/")
	if below == name {
		return ""
	}
	folder, _, _ := strings.Cut(below, "/")
	return folder
}

// digestOf names the content of a source, however it was packed.
func digestOf(entries []enplace.TreeEntry) enplace.Digest {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%q %s %q %t\n", e.Path, e.Digest, e.Target, e.Executable)
	}
	return enplace.DigestOf([]byte(b.String()))
}
