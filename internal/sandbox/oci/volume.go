package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// volumeAttrs are those of every volume's mount: nothing on it makes a device or another user.
const volumeAttrs = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOATIME

// volumes makes the writable space of sandboxes: a sparse image file with an ext4 file system of the size that the limit
// names, so that the limit is the file system's own, and the host's disk is never filled by more. Where the host has no loop
// devices it is a plain directory without a limit.
type volumes struct {
	templates string // folder of formatted, empty images, one for each size
	limited   bool   // there are loop devices and mkfs
	// detached keeps mounts out of the host's sight, where whoever makes a mount namespace would copy them and hold on to them.
	// Such mounts can be cloned since Linux 6.15.
	detached bool

	mu sync.Mutex // held while a template is made
}

// volume is the writable space of one sandbox, mounted. What it holds is laid out by the folders below.
type volume struct {
	dir    string   // where its content is, to this process
	mount  *os.File // when it is detached
	image  string   // empty for a plain directory
	device string
}

// The folders of a volume.
const (
	volumeRoot   = "root"                // upper and work of the root's overlay
	volumeMounts = "mounts"              // a folder for each writable mount, with upper and work
	volumeTask   = "task"                // the working directory
	volumeTmp    = volumeMounts + "/tmp" // what is /tmp, where that is not part of the root
)

// create makes a volume of that size, and mounts it at dir unless it stays detached. What is in it belongs to root of the sandbox.
// What it gives along with an error is to be cleared away as well.
func (v *volumes) create(ctx context.Context, dir, image string, mib int, owner uint32) (*volume, error) {
	vol := &volume{dir: dir}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if v.limited {
		if err := v.format(ctx, image, mib, passing); err != nil {
			return nil, err
		}
		if err := v.mount(vol, image); err != nil {
			return vol, err
		}
	}
	for _, d := range []string{volumeRoot, volumeMounts, volumeTask} {
		if err := makeOwned(filepath.Join(vol.dir, d), owner); err != nil {
			return vol, err
		}
	}
	return vol, nil
}

func (v *volumes) mount(vol *volume, image string) error {
	mount, device, err := mountImage(image, volumeAttrs, false)
	if err != nil {
		return err
	}
	vol.image, vol.device = image, device
	return v.place(vol, mount)
}

// place puts the mount of a volume where it stays.
func (v *volumes) place(vol *volume, mount *os.File) error {
	if v.detached {
		vol.mount, vol.dir = mount, fmt.Sprintf("/proc/self/fd/%d", mount.Fd())
		return nil
	}
	defer mount.Close()
	return moveMount(mount, vol.dir)
}

// unmount takes the volume out of reach. It goes when nobody uses it any more.
func (v *volume) unmount() error {
	if v.mount != nil {
		return v.mount.Close()
	}
	return unmount(v.dir)
}

// layer makes the upper and work folder for an overlay, below the folder of the volume.
func (v *volume) layer(folder string, owner uint32) (upper, work string, err error) {
	dir := filepath.Join(v.dir, folder)
	upper, work = filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{dir, upper, work} {
		if err := makeOwned(d, owner); err != nil {
			return "", "", err
		}
	}
	return upper, work, nil
}

func makeOwned(dir string, owner uint32) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return errors.Join(os.Chmod(dir, 0o755), os.Lchown(dir, int(owner), int(owner))) // whatever the umask
}

// used gives the bytes written and the limit; zero for a plain directory.
func (v *volume) used() (used, limit int64) {
	var st unix.Statfs_t
	if v.image == "" || unix.Statfs(v.dir, &st) != nil {
		return 0, 0
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, int64(st.Blocks) * st.Bsize
}

// sync has everything on the volume reach the disk.
func (v *volume) sync() error {
	f, err := os.Open(v.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}

// strip drops all but the working directory and gives its space back to the host.
func (v *volume) strip(ctx context.Context) error {
	if err := removeFolders(ctx, v.dir, volumeRoot, volumeMounts); err != nil {
		return err
	}
	v.trim()
	return nil
}

// removeFolders removes folders of a volume with all that those inside made in them. Another program does it: they may be as deep
// as the volume has inodes, and os.RemoveAll keeps one file open for each level, of those that the whole server has.
func removeFolders(ctx context.Context, dir string, names ...string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	names = slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return errors.Is(err, os.ErrNotExist)
	})
	if len(names) == 0 {
		return nil
	}
	cmd := exec.CommandContext(ctx, "rm", append([]string{"-rf", "--one-file-system", "--"}, names...)...)
	cmd.Dir = fmt.Sprintf("/proc/self/fd/%d", f.Fd()) // a volume may be attached nowhere
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("removing folders: %w: %.1000s", err, out)
	}
	return nil
}

// trim gives the space of what was removed back to the host. A host's file system that cannot punch holes keeps it.
func (v *volume) trim() {
	if v.image == "" {
		return
	}
	f, err := os.Open(v.dir)
	if err != nil {
		return
	}
	defer f.Close()
	all := struct{ start, length, least uint64 }{length: ^uint64(0)}
	const fitrim = 0xc0185879 // FITRIM of linux/fs.h
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, f.Fd(), fitrim, uintptr(unsafe.Pointer(&all)))
}

// abandon has the kernel forget what it has not written yet: a volume that is thrown away would else be written to the end
// before it is unmounted, for a second and more after a build. A kernel that cannot do so does that.
func (v *volume) abandon() {
	if v.image == "" {
		return
	}
	f, err := os.Open(v.dir)
	if err != nil {
		return
	}
	defer f.Close()
	const shutdown, withoutFlush = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH of linux's ext4.h
	_ = unix.IoctlSetPointerInt(int(f.Fd()), shutdown, withoutFlush)
}

// seal makes the file system read only and clean on disk, whoever still reads it.
func (v *volume) seal(ctx context.Context) error {
	if err := v.sync(); err != nil || v.image == "" {
		return err
	}
	if err := v.readOnly(ctx); err != nil {
		return fmt.Errorf("making the volume read only: %w", err)
	}
	return syncFile(v.image)
}

// syncFile has the content of a file reach the disk.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// readOnly makes the file system refuse every write. The kernel closes the files of dead processes a little after their end, and
// says busy until it has.
func (v *volume) readOnly(ctx context.Context) error {
	for {
		err := v.tryReadOnly()
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// tryReadOnly tries once: a context that was refused is busy to whatever it is asked afterwards.
func (v *volume) tryReadOnly() error {
	fs, err := unix.Fspick(unix.AT_FDCWD, v.dir, unix.FSPICK_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetFlag(fs, "ro"); err != nil {
		return err
	}
	return unix.FsconfigReconfigure(fs)
}

// copySparse copies a file and its holes, by sharing blocks where the file system can.
func copySparse(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer dst.Close()
	if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil {
		return nil
	}
	st, err := src.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < st.Size(); {
		data, err := src.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		} else if err != nil {
			return err
		}
		hole, err := src.Seek(data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(dst, data), io.NewSectionReader(src, data, hole-data)); err != nil {
			return err
		}
		at = hole
	}
	return dst.Truncate(st.Size())
}
