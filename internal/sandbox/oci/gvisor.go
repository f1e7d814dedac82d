package oci

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"enplace"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// A sandbox of gVisor has a kernel of its own, which is a process. The host's kernel knows that process and the one that opens
// files for it, and none of those inside. So mounts cannot come to a sandbox that runs, and all of them are there before it is
// made; and no socket of the host can be listened on inside, so that the guest is given one that is connected.
// docs/decisions/0008-gvisor.md has the reasons.

// gvisorFlags are those of every run of runsc.
var gvisorFlags = []string{
	"--network=none",       // loopback and nothing else, in gVisor's own network stack
	"--overlay2=none",      // what is written reaches the volume, to be counted, captured and kept
	"--file-access=shared", // and reaches it at once
	"--file-access-mounts=shared",
	"--host-uds=open", // the egress gate is a socket of the host, and the only one in reach
	"--net-raw",       // for ping; there is nothing but loopback
	"--oci-seccomp",   // the same filters inside as the host's kernel would put on
}

// gvisorNewFlags are those of newer versions: each with its value.
var gvisorNewFlags = map[string]string{
	"gofer-network-namespace": "new", // the shared one would be pinned in a mount namespace that ends with the run
}

// gvisorState is in the name of every file that runsc keeps of a sandbox, behind that of the container.
const gvisorState = "_sandbox:"

// gvisorSupport gives the flags for this runsc, or says that it cannot pass an open file to process 1.
func gvisorSupport(ctx context.Context, path string) ([]string, error) {
	help, err := exec.CommandContext(ctx, path, "help", "run").CombinedOutput()
	if !bytes.Contains(help, []byte("-pass-fd")) {
		return nil, enplace.Errorf(enplace.KindUnavailable, "this runsc is too old: it cannot pass an open file to process 1").
			WithFix("install gVisor's runsc from its release; Debian 12 has one of 2022").WithFix("use --runtime runc").WithCause(err)
	}
	known, err := exec.CommandContext(ctx, path, "flags").CombinedOutput()
	flags := slices.Clone(gvisorFlags)
	for name, value := range gvisorNewFlags {
		if bytes.Contains(known, []byte("  -"+name+" ")) {
			flags = append(flags, "--"+name+"="+value)
		}
	}
	return flags, err
}

// stateFiles gives the files that runsc keeps of a container.
func (e *engine) stateFiles(name string) ([]string, error) {
	entries, err := os.ReadDir(e.state)
	var found []string
	for _, entry := range entries {
		if strings.Contains(entry.Name(), name) {
			found = append(found, entry.Name())
		}
	}
	return found, err
}

// forgetFiles is forget for runsc, whose state is some files.
func (e *engine) forgetFiles(name string) error {
	files, err := e.stateFiles(name)
	for _, f := range files {
		err = errors.Join(err, os.RemoveAll(filepath.Join(e.state, f)))
	}
	return err
}

// gvisorSpec changes the description of a container for runsc.
func (r *Runtime) gvisorSpec(c *container, s *specs.Spec) {
	// The namespace of the sandbox is no process's, and runsc, which has threads, cannot enter one: it makes one with the same ids.
	for i, ns := range s.Linux.Namespaces {
		if ns.Type == specs.UserNamespace {
			s.Linux.Namespaces[i].Path = ""
		}
	}
	// Its kernel counts the processes of each user inside. The host's counts its threads, which are more: that is for what a user
	// does as many others, and ends the sandbox.
	tasks := uint64(c.limits.Processes + guestTasks)
	s.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_NPROC", Soft: tasks, Hard: tasks}}
	if p := s.Linux.Resources.Pids; p != nil && p.Limit != nil {
		*p.Limit += int64(c.limits.Processes) + gvisorTasks
	}
	// Without one runsc makes /tmp of memory.
	s.Mounts = append(s.Mounts, bind(filepath.Join(c.dir, volumeDir, volumeTmp), "/tmp", "nosuid", "nodev"))
	// The mounts are attached below the root already. Named to runsc as well, its kernel knows which cannot be written to.
	for _, m := range c.cold {
		options := []string{"nosuid", "nodev"}
		if m.Cache == "" && !m.Writable {
			options = append(options, "ro")
		}
		s.Mounts = append(s.Mounts, bind(filepath.Join(rootPoint, m.Path), m.Path, options...))
	}
}

// gvisorTasks are the threads that runsc itself takes of the host's limit.
const gvisorTasks = 256

// connect gives the two ends of the connection to a guest: the host's, and the one that process 1 inherits. No path leads to it.
func connect() (host net.Conn, guest *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, guest := os.NewFile(uintptr(fds[0]), "guest"), os.NewFile(uintptr(fds[1]), "host")
	defer ours.Close()
	if host, err = net.FileConn(ours); err != nil {
		return nil, nil, errors.Join(err, guest.Close())
	}
	return host, guest, nil
}
