package image

import (
	"context"
	"io"
	"io/fs"
	"os"
	"time"

	"enplace"
)

// Store keeps images. It is safe for concurrent use.
type Store struct {
	Grace    time.Duration
	MaxBytes int64
	MaxFiles int
}

// DirOptions say how a directory of the host is packed.
type DirOptions struct {
	Exclude func(path string) bool
	IDBase  uint32
}

// Layer is an acquired image.
type Layer struct{}

// StackOptions say what to stack.
type StackOptions struct {
	Layers      []*Layer // lowest first
	UserNS      int      // descriptor of a user namespace, or -1
	Upper, Work string
	Volatile    bool // syncing inside does nothing: for an upper that is packed or thrown away
}

func Open(dir string) (*Store, error)                                                { panic("soon") }
func (s *Store) Close() error                                                        { panic("soon") }
func (s *Store) Mode() string                                                        { panic("soon") }
func (s *Store) Pack(ctx context.Context, src fs.FS) (Info, error)                   { panic("soon") }
func (s *Store) PackDir(ctx context.Context, dir string, o DirOptions) (Info, error) { panic("soon") }
func (s *Store) Stat(d enplace.Digest) (Info, error)                                 { panic("soon") }
func (s *Store) Verify(ctx context.Context, d enplace.Digest) error                  { panic("soon") }
func (s *Store) Acquire(ctx context.Context, d enplace.Digest) (*Layer, error)       { panic("soon") }
func (s *Store) FS(ctx context.Context, d enplace.Digest) (fs.FS, io.Closer, error)  { panic("soon") }
func (s *Store) Collect(ctx context.Context, keep func(enplace.Digest) bool) (int, int64, error) {
	panic("soon")
}
func (l *Layer) FD() int                          { panic("soon") }
func (l *Layer) Close() error                     { panic("soon") }
func (l *Layer) Digest() enplace.Digest           { panic("soon") }
func Stack(o StackOptions) (*os.File, error)      { panic("soon") }
func Attach(mount *os.File, path string) error    { panic("soon") }
func AttachAt(mount, dirfd int, rel string) error { panic("soon") }
