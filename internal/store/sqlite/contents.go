package sqlite

import (
	"encoding/binary"
	"errors"
	"slices"

	"enplace"
)

// The contents of items' files stand in columns of their own, each with its length before it: a set is read on the way of
// commands, and to scan its files as JSON would take most of that time.

// detach gives files without their contents, and these behind what is there.
func detach(files []enplace.ItemFile, contents []byte) ([]enplace.ItemFile, []byte) {
	bare := slices.Clone(files)
	for i, f := range files {
		contents = binary.AppendUvarint(contents, uint64(len(f.Content)))
		contents = append(contents, f.Content...)
		bare[i].Content = ""
	}
	return bare, contents
}

// attach puts the contents back into files, and gives what is behind them.
func attach(files []enplace.ItemFile, contents []byte) ([]byte, error) {
	for i := range files {
		n, size := binary.Uvarint(contents)
		if size <= 0 || n > uint64(len(contents)-size) {
			return nil, errors.New("decoding the stored files of an item: they are cut off")
		}
		contents = contents[size:]
		files[i].Content, contents = string(contents[:n]), contents[n:]
	}
	return contents, nil
}
