// Package shim is what a computer does when a tool is called: it finds the program that the conversation's set selects in an
// index that was written at installation, and becomes it. It runs before every command of every tool, so it imports next to
// nothing: what a program links is paid for at each start. It reads nothing of the folder that it is called in, and believes
// nothing that it reads.
package shim

import (
	"errors"
	"os"
	"syscall"
)

// Tools is a folder with tools and what shims know of them.
type Tools string

// Default is where a computer has them; it is enplace.ToolsDir, without the domain.
const Default Tools = "/opt/mise"

// Shims is the folder of the links, which is first on PATH.
func (t Tools) Shims() string { return string(t) + "/shims" }

// Sets is the folder with the index of each set, under the set's hash.
func (t Tools) Sets() string { return string(t) + setsFolder[:len(setsFolder)-1] }

const setsFolder = "/enplace/sets/"

// DefaultSet is the file that names the set of a shim that is called without any hint.
func (t Tools) DefaultSet() string { return string(t) + "/enplace/default" }

// Local is the folder of what was installed inside, with mise use: mise's data directory, apart from the sets' tools so that
// nothing that is done there removes one of those.
func (t Tools) Local() string { return string(t) + "/enplace/local" }

// LocalIndex is the index of what was installed inside.
func (t Tools) LocalIndex() string { return t.Local() + "/index" }

// LocalShims is where mise puts shims of its own for what was installed inside. Nothing has it on its PATH.
func (t Tools) LocalShims() string { return t.Local() + "/shims" }

// Path is where the program of the shims is inside every sandbox, at each start: the target of the links that are shims.
const Path = "/run/enplace/shim"

// Mise is the base's mise. It is called through the guest, and through no shim.
const Mise = "/usr/local/bin/mise"

// The variables that shims read.
const (
	SetVar   = "ENPLACE_SET"  // the hash of the conversation's set
	depthVar = "ENPLACE_SHIM" // how shims led to shims, see depth
)

// DefaultPath is the PATH of a sandbox, for callers that have none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Exit statuses of shells: a program that is not there, and one that cannot be run.
const (
	statusNone   = 127
	statusCannot = 126
)

// calledAs gives the name that a shim is called by. A shell that is to be a login shell is called with a hyphen before its name.
func calledAs(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	name, _ := after(afterLast(argv[0], '/'), "-")
	return name
}

// Become turns this process into the program that is meant, with arguments, variables, descriptors and signals as they are. It
// never returns.
func Become(argv, env []string) {
	why := &refusal{statusNone, "a shim is called by the name of its tool, and this one was called by none"}
	if name := calledAs(argv); name != "" {
		why = Default.become(name, argv, env)
	}
	_, _ = os.Stderr.WriteString("enplace: " + why.message + "\n")
	os.Exit(why.status)
}

// refusal says why a shim becomes nothing.
type refusal struct {
	status  int
	message string // one line
}

// become returns only with a refusal.
func (t Tools) become(name string, argv, env []string) *refusal {
	env, why := deeper(name, env)
	if why != nil {
		return why
	}
	c, why := t.selected(name, t.set(env))
	switch {
	case why != nil:
		return why
	case c == nil:
		return t.host(name, argv, env)
	case c.Failed != "":
		return &refusal{statusNone, shown(name) + " is a tool of " + c.origin() + ", which could not be installed: " + c.Failed +
			". Correct the item or ask for a retry; it is also tried again by itself after five minutes."}
	}
	errno := exec(c.Target, argv, env)
	if errno == syscall.ENOENT || errno == syscall.ENOTDIR {
		var st syscall.Stat_t
		if syscall.Stat(c.Target, &st) != nil {
			return &refusal{statusNone, shown(name) + " is a tool of " + c.origin() + ", but its program " + shown(c.Target) + " is gone. " + c.repair()}
		}
	}
	return cannot(c.Target, errno)
}

// selected gives what the set, or what was installed inside, has by that name; nil for nothing.
func (t Tools) selected(name, set string) (*Command, *refusal) {
	if set != "" {
		c, err := find(t.Sets()+"/"+set, name)
		if errors.Is(err, syscall.ENOENT) {
			return nil, &refusal{statusNone, "the tools of this conversation are not in place on this computer, so it is not known which " + shown(name) +
				" is meant. Run the command again when they are installed, or ask for a retry."}
		}
		if err != nil {
			return nil, &refusal{statusNone, "the index of this conversation's tools cannot be read (" + err.Error() + "), so it is not known which " + shown(name) +
				" is meant. Ask for a retry of the set, which writes it again."}
		}
		if c != nil {
			return c, nil
		}
	}
	c, err := find(t.LocalIndex(), name)
	if err != nil && !errors.Is(err, syscall.ENOENT) {
		return nil, &refusal{statusNone, "the index of what was installed with mise use cannot be read (" + err.Error() + "). Run mise reshim, which writes it again."}
	}
	return c, nil
}

// origin says for people where a command comes from.
func (c *Command) origin() string {
	if c.Scope == "" {
		return "what was installed here with mise use (" + c.Item + ")"
	}
	return "the item " + c.Item + " of " + c.Scope
}

func (c *Command) repair() string {
	if c.Scope == "" {
		return "Run mise install to have it again."
	}
	return "Ask for a retry of the set, which installs it again."
}
