// Package plugin reads a plugin's folder: which items it declares, and what is wrong with them. It needs no server, so that a
// plugin's own CI can ask the same questions.
package plugin

import (
	"io"
	"io/fs"

	"enplace"
)

// Result is what a plugin declares.
type Result struct {
	Name        string               // as plugin.json says; "" where it does not
	Definitions []enplace.Definition // of the items without an error, by key
	Findings    []enplace.Finding    // by file and line
}

// Read reads a plugin's folder.
func Read(fsys fs.FS) (Result, error) {
	return Result{}, nil
}

// Open opens the content of a file of a tree.
type Open func(enplace.Digest) (io.ReadCloser, error)

// FromEntries shows what an import brought as a filesystem for Read.
func FromEntries(entries []enplace.TreeEntry, unwrapped string, open Open) fs.FS {
	return nil
}
