package project

import (
	"io"
	"time"

	"enplace"
)

// The requests are the domain's, so that clients can make them too.
type (
	CreateEnvironment = enplace.CreateEnvironment
	UpdateEnvironment = enplace.UpdateEnvironment
	PackageLists      = enplace.PackageLists
	PackageQuery      = enplace.PackageQuery
)

// ImportOptions say how an import meets the tree that is there.
type ImportOptions struct {
	Merge bool // keep what the import does not bring; else it is removed
}

// File is a file of a tree being read.
type File struct {
	Entry   enplace.TreeEntry
	Content io.ReadSeekCloser
}

// Wait bounds how long a call waits for something to end; 0 answers at once.
type Wait = time.Duration
