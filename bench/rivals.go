package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// rivalIDs is where the ids of a container with a user namespace begin: below those of the server's sandboxes.
const rivalIDs = 1 << 19

// monotonic gives the clock that the clock program reads.
func monotonic() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return now.Nano()
}

// sinceFirst reads what the clock program printed and gives the milliseconds from began to its first instruction.
func sinceFirst(printed []byte, began int64) (float64, error) {
	first, err := strconv.ParseInt(string(bytes.TrimSpace(printed)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the clock printed %q", printed)
	}
	return float64(first-began) / 1e6, nil
}

// timed runs a program that runs the clock in a sandbox of its own, and gives the milliseconds to its first instruction.
func timed(ctx context.Context, argv []string) (float64, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	began := monotonic()
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", argv[0], err, failed.String())
	}
	return sinceFirst(out, began)
}

// mountRoot mounts the base, with the clock in the place of /bin/true, for others to run.
func (l *lab) mountRoot(ctx context.Context) error {
	if l.root != "" {
		return nil
	}
	var base struct{ Digest string }
	record, err := os.ReadFile(filepath.Join(l.data(), "base", "base.json"))
	if err == nil {
		err = json.Unmarshal(record, &base)
	}
	if err != nil {
		return fmt.Errorf("reading which base the server has: %w", err)
	}
	root := filepath.Join(l.dir, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	image := filepath.Join(l.data(), "images", "sha256", base.Digest[len("sha256:"):])
	if out, err := exec.CommandContext(ctx, "mount", "-t", "erofs", "-o", "ro", image, root).CombinedOutput(); err != nil {
		return fmt.Errorf("mounting the base: %w: %s", err, out)
	}
	l.root = root
	if err := unix.Mount(l.clock, filepath.Join(root, "usr/bin/true"), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("putting the clock into the base: %w", err)
	}
	return nil
}

func unmountRoot(root string) {
	_ = unix.Unmount(filepath.Join(root, "usr/bin/true"), unix.MNT_DETACH)
	_ = unix.Unmount(root, unix.MNT_DETACH)
}

// runcBundle writes the configuration that `runc spec` gives, with the base as its root, and gives the command to run it.
func (l *lab) runcBundle(ctx context.Context, name string, userNamespace bool) (func(n int) []string, error) {
	dir := filepath.Join(l.dir, name)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "runc", "spec", "--bundle", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("runc spec: %w: %s", err, out)
	}
	path := filepath.Join(dir, "config.json")
	var spec map[string]any
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &spec)
	}
	if err != nil {
		return nil, err
	}
	spec["root"] = map[string]any{"path": l.root, "readonly": true}
	process := spec["process"].(map[string]any)
	process["terminal"], process["args"] = false, []string{"/usr/bin/true"}
	if userNamespace {
		linux := spec["linux"].(map[string]any)
		ids := []map[string]any{{"containerID": 0, "hostID": rivalIDs, "size": 65536}}
		linux["uidMappings"], linux["gidMappings"] = ids, ids
		linux["namespaces"] = append(linux["namespaces"].([]any), map[string]any{"type": "user"})
	}
	if b, err = json.Marshal(spec); err != nil {
		return nil, err
	}
	return func(n int) []string {
		return []string{"runc", "--root", filepath.Join(l.dir, "runc"), "run", "--bundle", dir, fmt.Sprintf("%s-%d-%d", name, os.Getpid(), n)}
	}, os.WriteFile(path, b, 0o600)
}

// bwrap is the command that runs the clock under bubblewrap, with every namespace of its own.
func (l *lab) bwrap() []string {
	return []string{"bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", l.root, "/", "--proc", "/proc", "--dev", "/dev", "/usr/bin/true"}
}
