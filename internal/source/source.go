// Package source turns an upload, an archive or a git repository into the entries of a tree. It is apart from project
// because all it reads is hostile: nothing of an archive is ever written under its own name on the host. Contents stream
// into a Sink and are known by their digest; names are only text until all of them were checked, and stand in a filesystem
// for the first time inside a sandbox. So no name, link or order of entries can write anywhere.
package source

import (
	"context"
	"io"

	"enplace"
)

// Sink keeps the contents of the files of an import. Add reads r to its end, and at most limit bytes: one more is an
// enplace.Error of kind too_large. It is called from one goroutine at a time.
type Sink interface {
	Add(ctx context.Context, r io.Reader, limit int64) (digest enplace.Digest, bytes int64, err error)
}

// Result is what an import brings: the entries sorted by path, without duplicates or clashes, and the report without
// Replaced, which is for the caller to say.
type Result struct {
	Entries []enplace.TreeEntry
	Report  enplace.ImportReport

	Submodules []string // paths of a repository at which it has others, of which nothing was imported

	// Refused is what an import of a Part left out and no import can take, by path: a name that no tree can
	// have, what is no file, what cannot be unpacked. It counts against the limits as what is imported does.
	Refused []Refused
}

// Refused is one entry, by its path as far as it has one, and why it is left out. The path may hold any bytes, but never leaves the
// tree.
type Refused struct{ Path, Reason string }

// limits bound an import. They are a value so that tests can make them small.
type limits struct {
	archiveBytes int64 // the archive as sent
	fileBytes    int64 // one file
	treeBytes    int64 // all files written
	entries      int   // files and links of the tree
	scanned      int   // entries looked at, skipped ones too: bounds time
	scannedBytes int64 // bytes unpacked, skipped ones too: bounds time
	nameBytes    int64 // paths and link targets held: bounds memory

	part Part // what is wanted
}

var defaultLimits = limits{
	archiveBytes: enplace.MaxArchiveBytes,
	fileBytes:    enplace.MaxFileBytes,
	treeBytes:    enplace.MaxTreeBytes,
	entries:      enplace.MaxTreeEntries,
	scanned:      10 * enplace.MaxTreeEntries,
	scannedBytes: 4 * enplace.MaxArchiveBytes,
	nameBytes:    64 << 20,
}

// Archive imports an archive whose format is known by its first bytes: zip, tar, tar.gz, tar.bz2, tar.xz or tar.zst. Scratch
// is a folder for a nameless copy of what must be seekable; it is gone when Archive returns. Errors for people are of kind
// invalid or too_large and name the entry; whatever the sink got until then is for the caller to discard.
//
// A single top folder, as archives of code hosts have, is taken off and reported. It is single when every file and link, and
// every empty folder and never-imported name, lies below it; what macOS adds does not count.
func Archive(ctx context.Context, r io.Reader, sink Sink, scratch string) (Result, error) {
	return archive(ctx, r, sink, scratch, defaultLimits)
}
