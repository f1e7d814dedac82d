package enplacetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// preparation is what all tests of a process share.
type preparation struct {
	once     sync.Once
	bin, dir string
	lacks    string // why this host cannot run a server
	err      error
}

var shared preparation

// prepared gives the folders of the programs and of the base, made once per process.
func prepared(t testing.TB) (bin, dir string) {
	t.Helper()
	shared.once.Do(shared.prepare)
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	if shared.lacks != "" {
		if os.Getenv("CI") != "" {
			t.Fatal(shared.lacks)
		}
		t.Skip(shared.lacks)
	}
	return shared.bin, shared.dir
}

// Dir gives the folder that tests share, as DirVar or the default say.
func Dir() string {
	if dir := os.Getenv(DirVar); dir != "" {
		return dir
	}
	return DefaultDir
}

func (p *preparation) prepare() {
	if os.Getuid() != 0 {
		p.lacks = "a server mounts images and starts sandboxes, so tests that start one run as root"
		return
	}
	p.dir = Dir()
	for _, d := range []string{p.dir, filepath.Join(p.dir, "bin"), filepath.Join(p.dir, "run")} {
		// Others may pass through, as the users of sandboxes must.
		if p.err = errors.Join(os.MkdirAll(d, 0o711), os.Chmod(d, 0o711)); p.err != nil {
			return
		}
	}
	var unlock func()
	if unlock, p.err = lock(p.dir); p.err != nil {
		return
	}
	defer unlock()
	if p.bin, p.err = programs(filepath.Join(p.dir, "bin")); p.err != nil {
		return
	}
	if out, err := exec.Command(filepath.Join(p.bin, "enplace"), "doctor", "--data", p.dir).CombinedOutput(); err != nil {
		p.lacks = fmt.Sprintf("this host cannot run a server:\n%s", out)
		return
	}
	clearRuns(filepath.Join(p.dir, "run"))
	p.err = makeBase(p.bin, p.dir)
}

// lock takes the lock of the shared folder: packages are tested in processes side by side.
func lock(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "test.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
		}
	}
}

// programs gives the folder of the programs to test, and builds them there unless they are named.
func programs(dir string) (string, error) {
	if bin := os.Getenv(BinVar); bin != "" {
		return filepath.Abs(bin)
	}
	cmd := exec.Command("go", "build", "-ldflags", "enplace/cmd/enplace-shim=-E main.first", "-o", dir+"/", "enplace/cmd/enplace", "enplace/cmd/enplace-guest", "enplace/cmd/enplace-shim")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // those for inside run in sandboxes of any libc
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	return dir, nil
}

// makeBase makes the base that every server gets, unless it is there.
func makeBase(bin, dir string) error {
	cmd := exec.Command(filepath.Join(bin, "enplace"), append([]string{"base", "build", "--data", dir}, baseArgs()...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making the base in %s: %w\n%s", dir, err, out)
	}
	return nil
}

func extraArgs() []string { return strings.Fields(os.Getenv(ArgsVar)) }

// baseArgs are those of the flags for every server that say what the base is made from.
func baseArgs() []string {
	var out []string
	for _, a := range extraArgs() {
		name, _, _ := strings.Cut(a, "=")
		switch strings.TrimLeft(name, "-") {
		case "base", "suite", "mirror", "security-mirror", "components", "pypi", "npm-registry":
			out = append(out, a)
		}
	}
	return out
}

// clearRuns removes what servers of tests that were killed left, an hour after.
func clearRuns(dir string) {
	entries, _ := os.ReadDir(dir) // what cannot be read is left
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < time.Hour {
			continue
		}
		f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR, 0)
		if err == nil {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
			if err == nil {
				_ = os.RemoveAll(path) // what stays is tried again next time
			}
			f.Close()
		} else if errors.Is(err, os.ErrNotExist) {
			_ = os.RemoveAll(path) // likewise
		}
	}
}

// newData makes a data directory with the shared base in it: its record, and its image by a hard link.
func newData(dir string) (string, error) {
	data, err := os.MkdirTemp(filepath.Join(dir, "run"), "data-")
	if err != nil {
		return "", err
	}
	images := filepath.Join(data, "images", "sha256")
	err = errors.Join(os.Chmod(data, 0o711), os.MkdirAll(images, 0o700), os.Mkdir(filepath.Join(data, "base"), 0o711))
	if err != nil {
		return "", err
	}
	record, err := os.ReadFile(filepath.Join(dir, "base", "base.json"))
	if err != nil {
		return "", err
	}
	var base struct{ Digest string }
	if err := json.Unmarshal(record, &base); err != nil {
		return "", fmt.Errorf("reading the record of the base: %w", err)
	}
	image := strings.TrimPrefix(base.Digest, "sha256:")
	if err := linkOrCopy(filepath.Join(dir, "images", "sha256", image), filepath.Join(images, image)); err != nil {
		return "", err
	}
	return data, os.WriteFile(filepath.Join(data, "base", "base.json"), record, 0o600)
}

// linkOrCopy copies where the file system makes no hard links. Images never change, so a link is as good.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o400)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}
