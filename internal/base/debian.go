package base

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"enplace"
)

// stable is the release that this version of Enplace is made for and tested with. A name, and not "stable" itself, so that
// the release changes with Enplace and never by itself, and so that a mirror cannot pass an older release off as it.
const stable = "trixie"

// debianPackages are the packages of the base, beside those that Debian calls required, and apt.
var debianPackages = []string{
	"python3", "python3-venv", "python3-dev",
	"nodejs", "libnode-dev", // native npm modules compile against Debian's own headers: nobody has to fetch others
	"build-essential", "pkg-config",
	"git", "openssh-client", // git's ssh transport
	"curl", "ca-certificates", "direnv", "rsync",
	"xz-utils", "unzip", "zstd", "file", "less", "procps",
}

// dpkgOptions keep out what no program reads, now and in every apt step that comes later. Licences stay.
var dpkgOptions = []string{
	"path-exclude=/usr/share/man/*", "path-exclude=/usr/share/info/*", "path-exclude=/usr/share/locale/*",
	"path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright",
}

// sourceDate is the one time of a base: of its files (by the image) and of the times that packages write into files.
const sourceDate = 315_619_200 // 1980-01-02

// debootstrap makes a Debian root. Its maintainer scripts run as root of the host, as those of every package that the
// operator installs: the archive's signatures vouch for them.
func (b *Builder) debootstrap(ctx context.Context, dir string, out *lines) error {
	program, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return enplace.Errorf(enplace.KindUnavailable, "mmdebstrap, which makes the base, is not installed").WithFix("apt-get install -y mmdebstrap")
	}
	out.printf("making Debian %s from %s", b.cfg.Suite, b.cfg.Mirror)
	seen := &splitter{line: func(line string) {
		if strings.Contains(line, "Download is performed unsandboxed") {
			return // apt's own user cannot reach the working folder, which is closed on purpose
		}
		if told, ok := strings.CutPrefix(line, "I: "); ok {
			out.printf("%s", told)
		} else if strings.HasPrefix(line, "E: ") || strings.HasPrefix(line, "W: ") || strings.HasPrefix(line, "Need to get ") {
			out.printf("%s", line)
		}
	}}
	cmd := exec.CommandContext(ctx, program, b.mmdebstrapArgs(dir)...)
	cmd.Stdout, cmd.Stderr = seen, seen
	cmd.Env = append(debootstrapEnv(), "SOURCE_DATE_EPOCH="+strconv.Itoa(sourceDate))
	// In namespaces of its own, its mounts and all that it starts go when it goes, however it ends. Its end may be ours: the
	// kernel kills it when the thread that started it is gone, so that thread is kept.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return debootstrapFailed(err, seen.tail)
	}
	return nil
}

func (b *Builder) mmdebstrapArgs(dir string) []string {
	args := []string{
		"--verbose", "--mode=root", "--format=directory", "--variant=minbase", "--architectures=" + debianArch(),
		"--include=" + strings.Join(debianPackages, ","),
		`--aptopt=APT::Install-Recommends "false"`,
	}
	for _, o := range dpkgOptions {
		args = append(args, "--dpkgopt="+o)
	}
	args = append(args, b.cfg.Suite, dir)
	for _, a := range b.Archives() {
		args = append(args, fmt.Sprintf("deb %s %s %s", a.Mirror, a.Suite, strings.Join(a.Components, " ")))
	}
	return args
}

// Archive is one suite of a Debian archive.
type Archive struct {
	Mirror     string
	Suite      string
	Components []string
	Arch       string // Debian's name, such as amd64
}

// Archives gives the suites that a base of Debian is made from, and that builds on it install from. A base that comes from
// elsewhere has sources of its own, which are not known here: none.
func (b *Builder) Archives() []Archive {
	if b.cfg.Source.Kind != Debian {
		return nil
	}
	c, arch := b.cfg, debianArch()
	all := []Archive{{c.Mirror, c.Suite, c.Components, arch}, {c.Mirror, c.Suite + "-updates", c.Components, arch}}
	if c.Security != noSecurity {
		all = append(all, Archive{c.Security, c.Suite + "-security", c.Components, arch})
	}
	return all
}

// debootstrapEnv is what mmdebstrap may know of the server: where programs are, and how the network is reached.
func debootstrapEnv() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy", "TMPDIR"} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func debootstrapFailed(err error, tail []string) error {
	why := "mmdebstrap ended with " + err.Error()
	for _, line := range tail {
		if strings.HasPrefix(line, "E: ") {
			why = strings.TrimPrefix(line, "E: ")
			break
		}
	}
	e := enplace.Errorf(enplace.KindUpstream, "the Debian base could not be made: %s", why).
		WithCause(errors.Join(err, errors.New(strings.Join(tail, "\n"))))
	if all := strings.Join(tail, "\n"); strings.Contains(all, "NO_PUBKEY") || strings.Contains(all, "not signed") {
		return e.WithFix("apt-get install -y debian-archive-keyring # this machine does not know the release's keys")
	}
	return e.WithFix("check that the mirror can be reached from this machine, or name another one")
}

// securityOf gives the security archive that goes with a mirror, by the layout that Debian's own mirrors have.
func securityOf(mirror string) string {
	if m := strings.TrimSuffix(mirror, "/"); strings.HasSuffix(m, "/debian") {
		return m + "-security"
	}
	return noSecurity
}

func debianArch() string {
	if runtime.GOARCH == "arm" {
		return "armhf"
	}
	return runtime.GOARCH // amd64, arm64, riscv64: the same words
}
