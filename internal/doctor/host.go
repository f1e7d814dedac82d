package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func isRoot(context.Context, Config) (string, error) {
	if uid := os.Geteuid(); uid != 0 {
		return "", fmt.Errorf("this is user %d", uid)
	}
	return "yes", nil
}

// kernel asks for what no trial below shows: clone into a cgroup, pidfds and openat2 are all in 5.15, the oldest tried.
func kernel(context.Context, Config) (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	release := unix.ByteSliceToString(u.Release[:])
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return "", fmt.Errorf("the release %q is not understood", release)
	}
	if major < 5 || major == 5 && minor < 15 {
		return "", fmt.Errorf("Linux %s is older than 5.15", release)
	}
	return "Linux " + release, nil
}

func seccompFilter(context.Context, Config) (string, error) {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	const getActionAvailable = 2 // SECCOMP_GET_ACTION_AVAIL, seccomp(2)
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, getActionAvailable, 0, uintptrOf(&action)); errno != 0 {
		return "", fmt.Errorf("filters that answer with an error: %w", errno)
	}
	return "filters work", nil
}

// programThat finds a program and asks for its version.
func programThat(name string, args ...string) func(context.Context, Config) (string, error) {
	return func(ctx context.Context, _ Config) (string, error) { return version(ctx, name, args...) }
}

func runtimeThere(ctx context.Context, c Config) (string, error) {
	detail, err := version(ctx, c.Runtime, "--version")
	gvisor := filepath.Base(c.Runtime) == "runsc"
	if err == nil && gvisor {
		err = passesFiles(ctx, c.Runtime)
	}
	switch {
	case err == nil:
		return detail, nil
	case gvisor:
		err = mendError{err, "install gVisor's runsc from its release (Debian 12's is too old), or use --runtime runc"}
	case c.Runtime == "crun":
		err = mendError{err, "apt-get install -y crun, or use --runtime runc"}
	case c.Runtime != "runc":
		err = mendError{err, "name a runtime that is there: --runtime runc"}
	}
	return "", err
}

// passesFiles asks a runsc for what those of before 2023 lack.
func passesFiles(ctx context.Context, program string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "help", "run").CombinedOutput()
	if !strings.Contains(string(out), "-pass-fd") {
		return errors.Join(errors.New("this runsc is too old: it cannot pass an open file to process 1"), err)
	}
	return nil
}

func version(ctx context.Context, name string, args ...string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not installed", name)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s does not run: %w: %s", path, err, firstLine(string(out)))
	}
	return firstLine(string(out)), nil
}

// debianKeys looks for the keys of the release that bases are made of, where mmdebstrap's apt will.
func debianKeys(context.Context, Config) (string, error) {
	found, _ := filepath.Glob("/usr/share/keyrings/debian-archive-trixie-*") // the pattern is well formed
	if len(found) == 0 {
		return "", errors.New("the keys of Debian 13 are not on this machine")
	}
	return fmt.Sprintf("%d of Debian 13", len(found)), nil
}

func certificates(context.Context, Config) (string, error) {
	const bundle = "/etc/ssl/certs/ca-certificates.crt"
	pem, err := os.ReadFile(bundle)
	if err != nil {
		return "", err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return "", fmt.Errorf("%s holds no certificate", bundle)
	}
	return fmt.Sprintf("%d in %s", strings.Count(string(pem), "BEGIN CERTIFICATE"), bundle), nil
}

// dataDirectory asks that others may pass through every folder above the data: root of a sandbox is one of the others, and
// the runtime goes the path as that root.
func dataDirectory(_ context.Context, c Config) (string, error) {
	dir := existing(c.DataDir)
	for p := dir; p != "/"; p = filepath.Dir(p) {
		fi, err := os.Stat(p)
		if err != nil {
			return "", err
		}
		if p == dir && dir == filepath.Clean(c.DataDir) {
			continue // the server's own; it sees to it
		}
		if fi.Mode()&0o001 == 0 {
			return "", mendError{fmt.Errorf("others may not pass through %s, and the root of a sandbox is one of them", p), "chmod o+x " + p + "; or choose another directory with --data"}
		}
	}
	err := scratch(c, func(string) error { return nil })
	if err != nil {
		return "", mendError{err, "choose a data directory that can be written to"}
	}
	return c.DataDir, nil
}

const (
	leastSpace = 4 << 30  // a base while it is made, and its image
	easySpace  = 20 << 30 // and some environments
)

func diskSpace(_ context.Context, c Config) (string, error) {
	var st unix.Statfs_t
	dir := existing(c.DataDir)
	if err := unix.Statfs(dir, &st); err != nil {
		return "", fmt.Errorf("asking the file system of %s: %w", dir, err)
	}
	free := int64(st.Bavail) * st.Bsize
	said := fmt.Sprintf("%d GB free at %s", free>>30, dir)
	switch {
	case free < leastSpace:
		return "", fmt.Errorf("%s; %d GB is the least", said, leastSpace>>30)
	case free < easySpace:
		return fmt.Sprintf("%s; %d GB is comfortable", said, easySpace>>30), nil
	}
	return said, nil
}
