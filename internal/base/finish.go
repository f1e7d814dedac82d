package base

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/moby/profiles/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"enplace"
)

//go:embed files/finish.sh
var finishScript string

const (
	finishTimeout = 10 * time.Minute
	finishOutput  = 64 << 10
)

// container names the container of the last step. The runtime names its cgroup alike, so bases that are made at the same time
// on one machine, in folders of their own, need names of their own.
func (b *Builder) container() string {
	return "enplace-base-" + enplace.DigestOf([]byte(b.cfg.Dir)).Hex()[:16]
}

// finish runs the last script inside the root: in a container without network, whose root is nobody on this machine. A
// program of an image from outside is as hostile as the image.
func (b *Builder) finish(ctx context.Context, dir string, rec *Base) error {
	mnt := filepath.Join(b.cfg.Dir, "mnt")
	if err := os.MkdirAll(mnt, 0o711); err != nil {
		return err
	}
	if err := bindShifted(ctx, dir, mnt); err != nil {
		return fmt.Errorf("mapping the ids of %s: %w", dir, err)
	}
	defer func() {
		if err := unmount(mnt); err != nil {
			b.cfg.Logger.Warn("unmounting", "path", mnt, "error", err)
		}
	}()
	bundle := filepath.Join(b.work(), "bundle")
	if err := writeBundle(bundle, mnt); err != nil {
		return err
	}
	out, err := b.contain(ctx, bundle)
	if err != nil {
		return err
	}
	readVersions(out, rec)
	return nil
}

func (b *Builder) contain(ctx context.Context, bundle string) ([]byte, error) {
	program, err := exec.LookPath(b.cfg.Runtime)
	if err != nil {
		return nil, enplace.Errorf(enplace.KindUnavailable, "%s, which runs containers, is not installed", b.cfg.Runtime).WithFix("apt-get install -y runc")
	}
	bounded, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(bounded, program, "--root", b.state(), "run", "--bundle", bundle, b.container())
	cmd.Stdout, cmd.Stderr = &firstBytes{w: &stdout, left: finishOutput}, &firstBytes{w: &stderr, left: finishOutput}
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	if dropErr := b.dropContainer(context.WithoutCancel(ctx)); dropErr != nil {
		return nil, dropErr
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case bounded.Err() != nil:
		return nil, enplace.Invalidf("the last step inside the base took longer than %s", finishTimeout).WithField("base.source")
	case err != nil:
		return nil, enplace.Invalidf("the last step inside the base failed; is it made for this machine's architecture?").WithField("base.source").
			WithCause(errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}
	return stdout.Bytes(), nil
}

func (b *Builder) state() string { return filepath.Join(b.work(), "state") }

// dropContainer kills and removes the container of this run or of one that was killed; none is no error.
func (b *Builder) dropContainer(ctx context.Context) error {
	state := b.state()
	if _, err := os.Stat(filepath.Join(state, b.container())); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	out, err := exec.CommandContext(ctx, b.cfg.Runtime, "--root", state, "delete", "--force", b.container()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("removing the container of the base: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// firstBytes keeps the first bytes and drops the rest, so that what a hostile program prints is read and kept nowhere.
type firstBytes struct {
	w    io.Writer
	left int
}

func (f *firstBytes) Write(p []byte) (int, error) {
	n := min(len(p), f.left)
	f.left -= n
	if _, err := f.w.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}

func writeBundle(bundle, root string) error {
	if err := os.Mkdir(bundle, 0o700); err != nil {
		return err
	}
	spec, err := finishSpec(root)
	if err != nil {
		return err
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(bundle, "config.json"), data, 0o600)
}

func finishSpec(root string) (*specs.Spec, error) {
	caps := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID"}
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: shiftedIDs, Size: maxID + 1}}
	memory, processes := int64(2<<30), int64(256)
	s := &specs.Spec{
		Version:  "1.0.2", // what runc 1.1 and crun 1.8 both read
		Hostname: "sandbox",
		Root:     &specs.Root{Path: root},
		Process: &specs.Process{
			Args: []string{"/bin/sh", "-c", finishScript}, Cwd: "/",
			Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "LC_ALL=C.UTF-8",
				"npm_config_update_notifier=false", "MISE_OFFLINE=1"},
			Capabilities:    &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
			Rlimits:         []specs.POSIXRlimit{{Type: "RLIMIT_FSIZE", Hard: 1 << 30, Soft: 1 << 30}, {Type: "RLIMIT_CORE"}},
			NoNewPrivileges: true,
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755", "size=65536k"}},
			{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777", "size=262144k"}},
		},
		Linux: &specs.Linux{
			UIDMappings: ids, GIDMappings: ids,
			Namespaces: []specs.LinuxNamespace{{Type: specs.UserNamespace}, {Type: specs.MountNamespace}, {Type: specs.PIDNamespace},
				{Type: specs.NetworkNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}},
			Resources:     &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &memory}, Pids: &specs.LinuxPids{Limit: &processes}},
			MaskedPaths:   []string{"/proc/kcore", "/proc/keys", "/proc/sched_debug", "/proc/timer_list", "/proc/acpi", "/proc/scsi"},
			ReadonlyPaths: []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"},
		},
	}
	filter, err := seccomp.GetDefaultProfile(s)
	if err != nil {
		return nil, fmt.Errorf("making the seccomp filter: %w", err)
	}
	s.Linux.Seccomp = filter
	return s, nil
}

var versionNumber = regexp.MustCompile(`[0-9]+(\.[0-9]+)+[0-9A-Za-z.+~-]*`)

// readVersions takes the versions out of what the script printed; anything that does not look like one counts as none.
func readVersions(out []byte, rec *Base) {
	fields := map[string]*string{"python": &rec.Python, "node": &rec.Node, "npm": &rec.NPM, "uv": &rec.UV, "mise": &rec.Mise, "git": &rec.Git}
	for line := range strings.Lines(string(out)) {
		name, said, _ := strings.Cut(strings.TrimSpace(line), "=")
		if field := fields[name]; field != nil && len(said) < 200 {
			*field = versionNumber.FindString(said)
		}
	}
	for _, need := range []struct{ version, name, without string }{
		{rec.Python, "python3", "environments with Python packages cannot be built on it"},
		{rec.Node, "node", "environments with npm packages cannot be built on it"},
	} {
		if need.version == "" {
			rec.Warnings = append(rec.Warnings, "the root has no "+need.name+" that runs: "+need.without)
		}
	}
}
