package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/erofs/go-erofs"
	"golang.org/x/sys/unix"

	"enplace"
)

// mode is how images are mounted here.
type mode string

// The modes, best first.
const (
	modeFile        mode = "erofs"                   // straight from the file: Linux 6.12
	modeLoop        mode = "erofs over loop devices" // older kernels
	modeDirectories mode = "directories"             // no EROFS at all: images are unpacked
	modeNone        mode = "none: this process may not mount"
)

// Mode says how images are mounted on this host: "erofs", "erofs over loop devices", "directories", or a reason why they
// cannot be. It is found out once, by trying.
func (s *Store) Mode() string { return string(s.probe()) }

func (s *Store) probe() mode {
	s.modeOnce.Do(func() {
		if s.mode == "" {
			s.mode = s.tryModes()
		}
	})
	return s.mode
}

func (s *Store) tryModes() mode {
	f, err := os.CreateTemp(s.tmp, "probe-")
	if err != nil {
		return modeNone
	}
	defer os.Remove(f.Name())
	defer f.Close()
	w := erofs.Create(f, erofs.WithBuildTime(uint64(epoch.Unix()), 0))
	if w.Close() != nil {
		return modeNone
	}
	for _, try := range []struct {
		mode  mode
		mount func() (*os.File, error)
	}{
		{modeFile, func() (*os.File, error) { return mountFile(&opened{file: f}) }},
		{modeLoop, func() (*os.File, error) { return mountLoop(&opened{file: f}) }},
		{modeDirectories, func() (*os.File, error) { return cloneDir(s.tmp) }},
	} {
		if m, err := try.mount(); err == nil {
			m.Close()
			return try.mode
		}
	}
	return modeNone
}

// mount gives a detached mount of an image, whose bytes were verified: every mode reads through the handles.
func (s *Store) mount(ctx context.Context, d enplace.Digest, o *opened) (*os.File, error) {
	switch s.probe() {
	case modeFile:
		return mountFile(o)
	case modeLoop:
		return mountLoop(o)
	case modeDirectories:
		dir := filepath.Join(s.unpackedDir(), d.Hex())
		if err := s.unpackTo(ctx, o, dir); err != nil {
			return nil, err
		}
		return cloneDir(dir)
	}
	return nil, enplace.Errorf(enplace.KindUnavailable, "this process may not mount file systems; run the server as root").
		WithFix("enplace doctor")
}

const layerAttributes = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

func mountFile(o *opened) (*os.File, error) {
	var devices []string
	for _, f := range o.devices {
		devices = append(devices, procPath(f))
	}
	return mountEROFS(procPath(o.file), devices)
}

func procPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// mountEROFS takes the devices in the order of the device table.
func mountEROFS(source string, devices []string) (*os.File, error) {
	c, err := newFSContext("erofs")
	if err != nil {
		return nil, err
	}
	defer c.close()
	c.flag("ro")
	c.set("source", source)
	for _, d := range devices {
		c.set("device", d)
	}
	return c.mount(layerAttributes)
}

// mountLoop puts loop devices below, which the kernel frees with the mount.
func mountLoop(o *opened) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("mounting erofs: %w", err)
	}
	defer control.Close()
	source, err := newLoop(control, o.file)
	if err != nil {
		return nil, fmt.Errorf("mounting erofs: %w", err)
	}
	defer source.Close()
	var devices []string
	for _, f := range o.devices {
		d, err := newLoop(control, f)
		if err != nil {
			return nil, fmt.Errorf("mounting erofs: %w", err)
		}
		defer d.Close()
		devices = append(devices, d.Name())
	}
	return mountEROFS(source.Name(), devices)
}

// newLoop gives a loop device that goes when nobody has it open.
func newLoop(control, f *os.File) (*os.File, error) {
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("finding a loop device: %w", err)
		}
		dev, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(dev.Fd()), &unix.LoopConfig{
			Fd:   uint32(f.Fd()),
			Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_READ_ONLY},
		})
		if err == nil {
			return dev, nil
		}
		dev.Close()
		if !errors.Is(err, unix.EBUSY) { // somebody else was given the same one
			return nil, fmt.Errorf("setting up a loop device: %w", err)
		}
	}
}

// cloneDir gives a detached, read-only mount of a directory.
func cloneDir(dir string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cloning mount: %w", err)
	}
	m := os.NewFile(uintptr(fd), "mount of "+dir)
	if err := setAttributes(m, &unix.MountAttr{Attr_set: layerAttributes, Propagation: unix.MS_PRIVATE}); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func setAttributes(m *os.File, a *unix.MountAttr) error {
	if err := unix.MountSetattr(int(m.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, a); err != nil {
		return fmt.Errorf("setting mount attributes: %w", err)
	}
	return nil
}

// fsContext is a file system being configured. The first error sticks and comes out of mount, with what the kernel says.
type fsContext struct {
	kind string
	fd   int
	err  error
}

func newFSContext(kind string) (*fsContext, error) {
	fd, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("mounting %s: fsopen: %w", kind, err)
	}
	return &fsContext{kind: kind, fd: fd}, nil
}

func (c *fsContext) close() { unix.Close(c.fd) }

func (c *fsContext) set(key, value string) {
	if c.err == nil {
		c.note(key, unix.FsconfigSetString(c.fd, key, value))
	}
}

func (c *fsContext) setFD(key string, f *os.File) {
	if c.err == nil {
		c.note(key, unix.FsconfigSetFd(c.fd, key, int(f.Fd())))
	}
}

func (c *fsContext) flag(key string) {
	if c.err == nil {
		c.note(key, unix.FsconfigSetFlag(c.fd, key))
	}
}

func (c *fsContext) note(what string, err error) {
	if err != nil {
		c.err = fmt.Errorf("mounting %s: %s: %w%s", c.kind, what, err, c.messages())
	}
}

// messages gives what the kernel wrote about the context, each line in brackets.
func (c *fsContext) messages() string {
	var b strings.Builder
	buf := make([]byte, 1024)
	for {
		n, err := unix.Read(c.fd, buf)
		if err != nil || n <= 0 {
			return b.String()
		}
		fmt.Fprintf(&b, " [%s]", strings.TrimSpace(string(buf[:n])))
	}
}

func (c *fsContext) mount(attributes int) (*os.File, error) {
	if c.err == nil {
		c.note("create", unix.FsconfigCreate(c.fd))
	}
	if c.err != nil {
		return nil, c.err
	}
	fd, err := unix.Fsmount(c.fd, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return nil, fmt.Errorf("mounting %s: fsmount: %w", c.kind, err)
	}
	return os.NewFile(uintptr(fd), c.kind+" mount"), nil
}
