package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"enplace"

	"golang.org/x/sys/unix"
)

// The runtimes that are known. A path to any other is taken for one that behaves as runc does.
const (
	runtimeRunc  = "runc"
	runtimeCrun  = "crun"
	runtimeRunsc = "runsc"
)

// rootPoint is where the runtime finds the root file system of the container that it makes. Everybody can get to it, as the root of
// the sandbox must, who is nobody here, however closed the server's own directory is. On the host it is an empty folder. No path inside a sandbox may begin with it: runc takes such a path for one of the host's.
const rootPoint = "/run/enplace-root"

// engine runs the OCI runtime program.
type engine struct {
	path  string
	kind  string
	state string // where the runtime keeps its own state
	// unified has the runtime run in a mount namespace where version 2 is all there is of cgroups: crun refuses to see both.
	unified bool
	// gvisor is set for runsc, whose sandboxes have a kernel of their own (gvisor.go).
	gvisor bool
	flags  []string // of every run, besides those that are for all runtimes
}

func newEngine(ctx context.Context, program, state string, cg *cgroups) (*engine, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, enplace.Errorf(enplace.KindUnavailable, "the container runtime %q is not installed", program).
			WithFix("apt-get install runc").WithFix("enplace doctor").WithCause(err)
	}
	e := &engine{path: path, kind: filepath.Base(path), state: state}
	switch e.kind {
	case runtimeRunsc:
		if e.flags, err = gvisorSupport(ctx, path); err != nil {
			return nil, err
		}
		e.gvisor = true
	case runtimeCrun:
		if !cg.v2 {
			if _, err := os.Stat(filepath.Join(cg.root, "unified", "cgroup.procs")); err != nil {
				return nil, enplace.Errorf(enplace.KindUnavailable, "crun needs version 2 of cgroups, which is not mounted").
					WithFix("use --runtime runc").WithFix("boot with systemd.unified_cgroup_hierarchy=1")
			}
			e.unified, cg.unified, cg.limits = true, true, false
		}
	}
	return e, errors.Join(os.MkdirAll(state, 0o700), os.MkdirAll(rootPoint, 0o755))
}

// mountsCgroups reports whether sandboxes can see their own cgroups, which language runtimes size themselves by. gVisor shows as many
// processors and as much memory as they allow.
func (e *engine) mountsCgroups() bool { return !e.unified && !e.gvisor }

// run creates and starts a container and leaves it running: what attach attaches is there for it to
// find, process 1 gets the third file as its descriptor 3, and output for its own messages. It gives the id of process 1.
func (e *engine) run(ctx context.Context, bundle, name string, attach func() error, third, output *os.File) (pid int, err error) {
	log, pidFile := filepath.Join(bundle, "runtime.log"), filepath.Join(bundle, "pid")
	pass := []string{"--preserve-fds", "1"}
	if e.gvisor {
		pass = []string{"--pass-fd", "3:3"}
	}
	cmd := e.command(ctx, log, append(append([]string{"run", "--detach", "--bundle", bundle, "--pid-file", pidFile}, pass...), name)...)
	cmd.ExtraFiles = []*os.File{third}
	cmd.Stdout, cmd.Stderr = output, output
	if err := e.do(cmd, attach); err != nil {
		return 0, fmt.Errorf("%s run: %w%s", e.kind, err, logged(log))
	}
	b, err := os.ReadFile(pidFile)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// delete kills a container and drops what the runtime keeps of it. One that is not known is no error.
func (e *engine) delete(ctx context.Context, name string) error {
	if !e.knows(name) {
		return nil
	}
	log := filepath.Join(e.state, name+".log")
	defer os.Remove(log)
	if err := e.do(e.command(ctx, log, "delete", "--force", name), nil); err != nil {
		return fmt.Errorf("%s delete: %w%s", e.kind, err, logged(log))
	}
	return nil
}

// knows reports whether the runtime keeps something of a container.
func (e *engine) knows(name string) bool {
	if e.gvisor {
		files, _ := e.stateFiles(name)
		return len(files) > 0
	}
	_, err := os.Stat(filepath.Join(e.state, name))
	return !errors.Is(err, os.ErrNotExist)
}

// forget drops what the runtime keeps of a container whose process 1 and cgroups are gone already, which is a folder. It is what
// delete would come to, without running a program for it.
func (e *engine) forget(name string) error {
	if e.gvisor {
		return e.forgetFiles(name)
	}
	return os.RemoveAll(filepath.Join(e.state, name))
}

// containers gives the names of all containers that the runtime knows of.
func (e *engine) containers() ([]string, error) {
	entries, err := os.ReadDir(e.state)
	var names []string
	for _, entry := range entries {
		name, _, state := strings.Cut(entry.Name(), gvisorState)
		if state || entry.IsDir() && !e.gvisor {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

func (e *engine) command(ctx context.Context, log string, args ...string) *exec.Cmd {
	common := append([]string{"--root", e.state, "--log", log, "--log-format", "json"}, e.flags...)
	cmd := exec.CommandContext(ctx, e.path, append(common, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return cmd
}

// do runs the runtime in a mount namespace that ends with it. What is attached there shows
// in nobody else's mounts, and is not left by a crash.
func (e *engine) do(cmd *exec.Cmd, attach func() error) error {
	if attach == nil && !e.unified {
		return cmd.Run()
	}
	// A child is made with the namespaces of the thread that asks for it.
	return onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("making a mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("making mounts private: %w", err)
		}
		if attach != nil {
			if err := attach(); err != nil {
				return err
			}
		}
		if e.unified {
			if err := unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""); err != nil {
				return fmt.Errorf("mounting cgroups: %w", err)
			}
		}
		return cmd.Run()
	})
}

// logged gives the last error that the runtime wrote to its log, in brackets.
func logged(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	said := ""
	for line := range bytes.Lines(b) {
		var entry struct{ Level, Msg string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg != "" {
			said = " (" + entry.Msg + ")"
		}
	}
	return said
}
