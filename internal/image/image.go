// Package image makes and mounts immutable filesystem images: EROFS files, packed deterministically, stored under the
// SHA-256 of their bytes, verified before first use, stacked with overlayfs. A composed image has the names and refers to other images for the bytes. It is the one place that knows of EROFS.
package image

import (
	"errors"

	"enplace"
)

// ErrNotFound is what the store gives for a digest that it does not hold.
var ErrNotFound = errors.New("no such image")

// Info is an image's name and measures.
type Info struct {
	Digest enplace.Digest `json:"digest"`
	Bytes  int64          `json:"bytes"` // that the image takes alone: its file, and what it reads in others, in whole blocks
	Own    int64          `json:"own"`   // of the image file; less than Bytes for a composed image
	Files  int            `json:"files"` // entries, directories included, the root not
}

// Stat is what FileInfo.Sys gives for an entry that is packed, where the mode, size and name are not all.
type Stat struct {
	UID, GID uint32
	Rdev     uint64 // of a device node; overlayfs's whiteouts are character devices 0:0
	Link     string // target of a symbolic link
	Xattrs   map[string][]byte
}
