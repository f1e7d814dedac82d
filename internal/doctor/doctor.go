// Package doctor finds out what a host lacks for running Enplace, by trying: what a kernel's version or a file's name
// promises is not what a container, a hardened host or an odd file system does. It changes nothing: whatever a trial makes is
// detached, or removed when the trial ends. It knows no other part of the house, so that it can speak when nothing starts.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Config says what to look at.
type Config struct {
	DataDir string // the server's; its nearest folder that exists is looked at. Default: the folder of temporary files
	Runtime string // runc (the default), crun, runsc, or a path
}

// Finding is one thing that was looked at.
type Finding struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Detail   string `json:"detail"`        // what is there, or why it is not
	Fix      string `json:"fix,omitempty"` // the command or step that mends it; empty when it is OK
	Required bool   `json:"required"`      // nothing runs without it; otherwise something is slower, or not enforced
}

// check looks at one thing. An error is what is wrong; its fix is the step that mends it.
type check struct {
	name     string
	required bool
	fix      string
	look     func(context.Context, Config) (detail string, err error)
}

// Check looks at everything. It needs no more than a second, and root for a true answer. It is safe for concurrent use.
func Check(ctx context.Context, c Config) []Finding {
	if c.DataDir == "" {
		c.DataDir = os.TempDir()
	}
	if c.Runtime == "" {
		c.Runtime = "runc"
	}
	var all []Finding
	for _, k := range checks() {
		if ctx.Err() != nil {
			break
		}
		f := Finding{Name: k.name, Required: k.required}
		detail, err := k.look(ctx, c)
		f.OK, f.Detail = err == nil, detail
		if err != nil {
			f.Detail, f.Fix = err.Error(), fixOf(err, k.fix)
		}
		all = append(all, f)
	}
	return all
}

// OK reports whether everything that is required is there.
func OK(all []Finding) bool {
	for _, f := range all {
		if f.Required && !f.OK {
			return false
		}
	}
	return true
}

func checks() []check {
	return []check{
		{"root", true, "start it as root", isRoot},
		{"kernel", true, "install a newer kernel, such as Debian 12's or 13's", kernel},
		{"user namespaces", true, "sysctl -w user.max_user_namespaces=65536", userNamespaces},
		{"mounts", true, "run it on the host, or in a container that may mount (CAP_SYS_ADMIN, no mount filter)", detachedMounts},
		{"overlayfs", true, "modprobe overlay", overlay},
		{"layers by handle", false, "install Linux 6.13 or newer: until then layers are stacked by path, which starts sandboxes more slowly", overlayByHandle},
		{"id-mapped mounts", true, "put the data directory on ext4, xfs or btrfs", idMapped},
		{"erofs", false, "modprobe erofs; until then images are unpacked into directories", erofs},
		{"loop devices", false, "modprobe loop; until then what a sandbox writes has no limit of its own", loopDevices},
		{"mkfs.ext4", false, "apt-get install -y e2fsprogs", programThat("mkfs.ext4", "-V")},
		{"cgroups", false, "boot with systemd.unified_cgroup_hierarchy=1; until then memory, processors and processes are not limited", controlGroups},
		{"seccomp", true, "install a kernel with CONFIG_SECCOMP_FILTER", seccompFilter},
		{"container runtime", true, "apt-get install -y runc", runtimeThere},
		{"mmdebstrap", false, "apt-get install -y mmdebstrap; a base can also come from an OCI image, a tarball or a directory", programThat("mmdebstrap", "--version")},
		{"Debian's keys", false, "apt-get install -y debian-archive-keyring", debianKeys},
		{"certificates", true, "apt-get install -y ca-certificates", certificates},
		{"data directory", true, "", dataDirectory},
		{"disk space", true, "free some space, or put the data directory elsewhere", diskSpace},
	}
}

// mendError is an error with a fix of its own.
type mendError struct {
	error
	fix string
}

func fixOf(err error, usual string) string {
	if m, ok := errors.AsType[mendError](err); ok {
		return m.fix
	}
	return usual
}

// existing gives the nearest folder at or above a path that is there.
func existing(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return "/"
	}
	for {
		if fi, err := os.Stat(path); err == nil && fi.IsDir() {
			return path
		}
		path = filepath.Dir(path)
	}
}

// scratch runs a trial in a folder of its own on the data directory's file system.
func scratch(c Config, trial func(dir string) error) error {
	dir, err := os.MkdirTemp(existing(c.DataDir), ".enplace-doctor-")
	if err != nil {
		return fmt.Errorf("nothing can be written to %s: %w", existing(c.DataDir), err)
	}
	return errors.Join(trial(dir), os.RemoveAll(dir))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}
