package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"enplace"
	"enplace/internal/durable"
)

// Defaults of a Store's limits.
const (
	DefaultMaxBytes = 16 << 30
	DefaultMaxFiles = 1 << 20
	DefaultGrace    = time.Hour
)

// Store keeps images in one folder: sha256/<hex> are the images, tmp/ holds what is being written, and mnt/ and unpacked/
// are used only where the kernel lacks something. It is safe for concurrent use, also by several processes: beside the server,
// the command line makes and shows the base.
type Store struct {
	MaxBytes int64         // of an image; more is an enplace.Error of kind too_large
	MaxFiles int           // entries of an image; the same
	Grace    time.Duration // how long Collect spares an image after it was packed, stat-ed or acquired

	dir    string
	images string
	tmp    string
	lock   *os.File // shared by all who have it open, and told so by the kernel when one of them is killed

	mu       sync.Mutex // held while an image is picked up or removed, so that Collect and the others cannot cross
	mounts   map[enplace.Digest]*mounted
	idle     []*mounted // mounted, not acquired; the longest idle first
	verified map[enplace.Digest]identity
	refers   map[enplace.Digest][]enplace.Digest // of the images made here, and of all since the first Collect

	modeOnce sync.Once
	mode     mode
	attached attachedState
}

// identity is what a verified file is recognised by: it is written once and renamed into place, so a change of bytes that
// is no damage of the disk shows in one of these.
type identity struct {
	ino         uint64
	size, mtime int64
}

// Open opens the store in dir, making it if need be, and removes what killed processes left behind unless another has it open.
func Open(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening image store: %w", err)
	}
	s := &Store{
		MaxBytes: DefaultMaxBytes, MaxFiles: DefaultMaxFiles, Grace: DefaultGrace,
		dir: dir, images: filepath.Join(dir, "sha256"), tmp: filepath.Join(dir, "tmp"),
		mounts: map[enplace.Digest]*mounted{}, verified: map[enplace.Digest]identity{},
		refers: map[enplace.Digest][]enplace.Digest{},
	}
	if err := s.settle(); err != nil {
		return nil, fmt.Errorf("opening image store: %w", err)
	}
	return s, nil
}

// settle makes the folders and takes the lock. Whoever is alone clears what killed processes left: beside another that would
// take away what it is writing.
func (s *Store) settle() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case err == nil:
		err = s.clear()
	case errors.Is(err, unix.EWOULDBLOCK):
		err = nil
	}
	for _, d := range []string{s.images, s.tmp} {
		if err == nil {
			err = os.MkdirAll(d, 0o700)
		}
	}
	for _, made := range []string{s.dir, filepath.Dir(s.dir)} {
		if err == nil {
			err = durable.SyncFolder(made)
		}
	}
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_SH) // at most the time that another needs to clear
	}
	if err != nil {
		lock.Close()
		return err
	}
	s.lock = lock
	return nil
}

// clear removes what a killed process left behind.
func (s *Store) clear() error {
	if err := detachAll(s.mountDir()); err != nil {
		return err
	}
	for _, leftover := range []string{s.tmp, s.mountDir(), s.unpackedDir()} {
		if err := os.RemoveAll(leftover); err != nil {
			return fmt.Errorf("removing leftovers: %w", err)
		}
	}
	return nil
}

// Close unmounts the images that are not acquired. Those that are, go when their layers are closed, or with the process.
func (s *Store) Close() error {
	s.mu.Lock()
	idle := s.idle
	s.idle = nil
	for _, m := range idle {
		delete(s.mounts, m.digest)
	}
	s.mu.Unlock()
	var errs []error
	for _, m := range idle {
		errs = append(errs, m.unmount())
	}
	return errors.Join(append(errs, s.attached.close(s.mountDir()), s.lock.Close())...)
}

// Stat gives an image's measures, or ErrNotFound. It does not look at the bytes.
func (s *Store) Stat(d enplace.Digest) (Info, error) {
	f, err := s.open(d)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	return infoOf(d, f)
}

func (s *Store) path(d enplace.Digest) string { return filepath.Join(s.images, d.Hex()) }

// open opens an image's file, and marks it as used.
func (s *Store) open(d enplace.Digest) (*os.File, error) {
	if d.Hex() == "" {
		return nil, ErrNotFound
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.OpenFile(s.path(d), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("opening image: %w", err)
	}
	s.touch(d)
	return f, nil
}

// touch notes that an image is used. The access time says so, since it survives a restart and nothing else needs it; a file
// system that refuses only makes Collect less patient.
func (s *Store) touch(d enplace.Digest) {
	_ = unix.UtimesNanoAt(unix.AT_FDCWD, s.path(d),
		[]unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_OMIT}}, unix.AT_SYMLINK_NOFOLLOW)
}

func infoOf(d enplace.Digest, f *os.File) (Info, error) {
	st, err := f.Stat()
	if err != nil {
		return Info{}, fmt.Errorf("reading image: %w", err)
	}
	h, err := readHeader(f)
	if err != nil {
		return Info{}, damaged(d).WithCause(err)
	}
	return Info{Digest: d, Bytes: st.Size() + h.referred(), Own: st.Size(), Files: h.files}, nil
}

func damaged(d enplace.Digest) *enplace.Error {
	return enplace.Errorf(enplace.KindUnavailable, "image %s is damaged on disk and was not used; build it again, or restore the file from a backup", d)
}

// Verify hashes an image and the images that it refers to, and gives an enplace.Error of kind unavailable when the bytes are not
// those of the digest, or one that it refers to is missing. A success is remembered until the process ends, for as long as the
// file is the same one. ErrNotFound as in Stat.
func (s *Store) Verify(ctx context.Context, d enplace.Digest) error {
	o, err := s.openVerified(ctx, d)
	if err != nil {
		return err
	}
	return o.Close()
}

func (s *Store) verify(ctx context.Context, d enplace.Digest, f *os.File) error {
	id, err := identify(f)
	if err != nil {
		return err
	}
	s.mu.Lock()
	known, ok := s.verified[d]
	s.mu.Unlock()
	if ok && known == id {
		return nil
	}
	got, err := digestOf(ctx, f)
	if err != nil {
		return fmt.Errorf("verifying image %s: %w", d, err)
	}
	if got != d {
		return damaged(d).WithCause(fmt.Errorf("its bytes hash to %s", got))
	}
	s.remember(d, id)
	return nil
}

func (s *Store) remember(d enplace.Digest, id identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verified[d] = id
}

func identify(f *os.File) (identity, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return identity{}, fmt.Errorf("reading image: %w", err)
	}
	return identity{ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano()}, nil
}

// digestOf hashes a whole file, wherever its offset stands.
func digestOf(ctx context.Context, f *os.File) (enplace.Digest, error) {
	h := sha256.New()
	buf := make([]byte, 1<<20)
	for off := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := f.ReadAt(buf, off)
		h.Write(buf[:n])
		off += int64(n)
		if err == io.EOF {
			return enplace.NewDigest(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}
