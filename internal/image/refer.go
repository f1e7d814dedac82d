package image

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"enplace"
)

// A composed image refers to others by EROFS's device table: a slot for each, whose tag is the hex of the digest, so that the
// image's own digest covers what it refers to. Files name a slot and a block in it. References do not nest: a slot stands for the
// bytes of one file of the store, whatever that image itself refers to.

// maxReferred bounds the images that one image refers to. Each is opened at every mount, takes a loop device on older kernels,
// and is kept whole for whatever little is still read of it: past this many, packing anew costs less than holding on.
const maxReferred = 48

// Where things stand in an EROFS file, in bytes; numbers are little-endian.
const (
	blockSize        = 4096 // of our images
	superblockAt     = 1024
	superblockBytes  = 128
	superblockMagic  = 0xe0f5e1e2
	magicField       = 0  // uint32
	inodesField      = 16 // uint64
	incompatField    = 80 // uint32
	devicesField     = 86 // uint16
	tableField       = 88 // uint16, in units of slotBytes
	incompatDevices  = 0x8
	slotBytes        = 128
	tagBytes         = 64
	slotReferredAt   = 120 // uint64; ours, in what EROFS reserves: the bytes that are read of the device
	deviceTableIndex = (superblockAt + superblockBytes) / slotBytes
)

// header is what an image's first blocks say.
type header struct {
	files  int
	refers []reference // in the order of the slots
}

type reference struct {
	image enplace.Digest
	bytes int64 // that are read of it, in whole blocks
}

func (h header) referred() (bytes int64) {
	for _, r := range h.refers {
		bytes += r.bytes
	}
	return bytes
}

func (h header) images() (digests []enplace.Digest) {
	for _, r := range h.refers {
		digests = append(digests, r.image)
	}
	return digests
}

// readHeader reads a file that need not be an image at all: nothing in it is trusted.
func readHeader(f io.ReaderAt) (header, error) {
	var sb [superblockBytes]byte
	if _, err := f.ReadAt(sb[:], superblockAt); err != nil {
		return header{}, fmt.Errorf("reading the superblock: %w", err)
	}
	if binary.LittleEndian.Uint32(sb[magicField:]) != superblockMagic {
		return header{}, errors.New("it is no EROFS image")
	}
	h := header{files: int(binary.LittleEndian.Uint64(sb[inodesField:])) - 1}
	if binary.LittleEndian.Uint32(sb[incompatField:])&incompatDevices == 0 {
		return h, nil
	}
	count := int(binary.LittleEndian.Uint16(sb[devicesField:]))
	if count > maxReferred {
		return header{}, fmt.Errorf("it refers to %d images", count)
	}
	table := make([]byte, count*slotBytes)
	if _, err := f.ReadAt(table, int64(binary.LittleEndian.Uint16(sb[tableField:]))*slotBytes); err != nil {
		return header{}, fmt.Errorf("reading the device table: %w", err)
	}
	for i := range count {
		slot := table[i*slotBytes:][:slotBytes]
		r := reference{image: enplace.Digest("sha256:" + string(slot[:tagBytes]))}
		bytes := binary.LittleEndian.Uint64(slot[slotReferredAt:])
		if r.image.Hex() == "" || bytes > 1<<48 {
			return header{}, fmt.Errorf("slot %d of the device table names no image", i)
		}
		r.bytes = int64(bytes)
		h.refers = append(h.refers, r)
	}
	return h, nil
}

// Refers gives the images whose bytes an image reads, in the order of their digests; none for a plain one. Errors are those of
// Verify, which is not done for the images that it gives.
func (s *Store) Refers(ctx context.Context, d enplace.Digest) ([]enplace.Digest, error) {
	f, err := s.open(d)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := s.verify(ctx, d, f); err != nil {
		return nil, err
	}
	h, err := readHeader(f)
	if err != nil {
		return nil, damaged(d).WithCause(err)
	}
	return h.images(), nil
}

// opened is an image's file, with the files of the images that it refers to. All were verified, and whoever reads goes by these
// handles, whatever has the names by now.
type opened struct {
	file    *os.File
	refers  []enplace.Digest
	devices []*os.File // of refers
}

func (o *opened) Close() error {
	errs := []error{o.file.Close()}
	for _, f := range o.devices {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// openVerified opens an image to be read. ErrNotFound, or what Verify gives.
func (s *Store) openVerified(ctx context.Context, d enplace.Digest) (_ *opened, err error) {
	used := s.take(d) // while it is there, so is what it refers to
	defer s.release(used)
	f, err := s.open(d)
	if err != nil {
		return nil, err
	}
	o := &opened{file: f}
	defer func() {
		if err != nil {
			o.Close()
		}
	}()
	if err := s.verify(ctx, d, f); err != nil {
		return nil, err
	}
	h, err := readHeader(f)
	if err != nil {
		return nil, damaged(d).WithCause(err)
	}
	o.refers = h.images()
	for _, r := range o.refers {
		device, err := s.open(r)
		if err == nil {
			o.devices = append(o.devices, device)
			err = s.verify(ctx, r, device)
		}
		if err != nil {
			return nil, unreadable(d, r, err)
		}
	}
	return o, nil
}

// unreadable says why an image cannot be read that refers to another. One that is missing must not look as if the image itself
// were: the caller may have its file in hand.
func unreadable(d, referred enplace.Digest, err error) error {
	state := "is damaged on disk"
	var e *enplace.Error
	switch {
	case errors.Is(err, ErrNotFound):
		state = "is not in the store"
	case !errors.As(err, &e):
		return fmt.Errorf("reading what image %s refers to: %w", d, err)
	}
	return enplace.Errorf(enplace.KindUnavailable,
		"image %s was not used: it refers to image %s, which %s; build it again, or restore the file from a backup", d, referred, state).
		WithCause(errors.New(err.Error()))
}

// device is an image that a composed one refers to. For the writer it is an fs.FS of the files that lie in it, and of nothing
// else. It lists them all in its root, by their whole paths: the writer joins the names, and makes the folders between.
type device struct {
	image    enplace.Digest
	file     *os.File
	blocks   uint64 // of its file
	referred int64  // bytes that are read of it, in whole blocks
	files    []fs.DirEntry
}

type referredFile struct {
	*node
	path string
}

func (r referredFile) Name() string { return r.path }

// DeviceBlocks tells the writer how large the device is.
func (d *device) DeviceBlocks() uint64 { return d.blocks }

func (d *device) ReadDir(string) ([]fs.DirEntry, error) { return d.files, nil }

// Stat is asked for the root alone, which the rest of the tree then takes the place of.
func (d *device) Stat(string) (fs.FileInfo, error) {
	return &node{name: ".", mode: fs.ModeDir | 0o755}, nil
}

func (d *device) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("its bytes are in another image")}
}

// writeTable completes what the writer left of the device table: it writes no tags, and a wrong place for the table.
func writeTable(f *os.File, devices []*device) error {
	if len(devices) == 0 {
		return nil
	}
	index := binary.LittleEndian.AppendUint16(nil, deviceTableIndex)
	if _, err := f.WriteAt(index, superblockAt+tableField); err != nil {
		return err
	}
	for i, d := range devices {
		slot := int64(deviceTableIndex+i) * slotBytes
		if _, err := f.WriteAt([]byte(d.image.Hex()), slot); err != nil {
			return err
		}
		if _, err := f.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(d.referred)), slot+slotReferredAt); err != nil {
			return err
		}
	}
	return nil
}
