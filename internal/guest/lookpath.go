package guest

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"enplace"
)

// ErrNoProgram is the cause where a command could not be started because its program is not there, and not because it cannot be run.
var ErrNoProgram = errors.New("no such program")

// resolve finds the program of a command as its own environment and folder say, not as the guest's do.
func resolve(r execRequest) (string, error) {
	switch info, err := os.Stat(r.Dir); {
	case err != nil:
		return "", enplace.Invalidf("cannot run in %s: %s", r.Dir, reason(err)).WithField("cwd")
	case !info.IsDir():
		return "", enplace.Invalidf("cannot run in %s: it is not a folder", r.Dir).WithField("cwd")
	}
	name := r.Argv[0]
	if strings.Contains(name, "/") {
		p := name
		if !path.IsAbs(p) {
			p = path.Join(r.Dir, p)
		}
		if err := executable(p); err != nil {
			denied := enplace.Invalidf("cannot run %s: %s", name, reason(err)).WithField("command")
			if errors.Is(err, fs.ErrNotExist) {
				denied.Err = ErrNoProgram
			}
			return "", denied
		}
		return p, nil
	}
	search := ""
	for _, e := range r.Env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			search = v
			break // as getenv does
		}
	}
	var denied error
	for dir := range strings.SplitSeq(search, ":") {
		// An empty or relative entry would run whatever the current folder holds.
		if !path.IsAbs(dir) {
			continue
		}
		p := path.Join(dir, name)
		err := executable(p)
		if err == nil {
			return p, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = enplace.Invalidf("cannot run %s: %s is not executable", name, p).WithField("command")
		}
	}
	if denied != nil {
		return "", denied
	}
	if search == "" {
		return "", enplace.Invalidf("cannot find the program %s: the command has no PATH; give one, or the program's whole path", name).WithField("command").WithCause(ErrNoProgram)
	}
	return "", enplace.Invalidf("there is no program %s on the PATH %s", name, search).WithField("command").WithCause(ErrNoProgram)
}

// executable says why a path cannot be run. Root may run what anybody may.
func executable(p string) error {
	info, err := os.Stat(p)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return unix.EISDIR
	case info.Mode()&0o111 == 0:
		return fs.ErrPermission
	}
	return nil
}

// reason gives the bare reason of a failed system call.
func reason(err error) string {
	if pe, ok := err.(*fs.PathError); ok {
		err = pe.Err
	}
	return err.Error()
}

// startError says why the kernel did not run a program that is there.
func startError(r execRequest, program string, errno syscall.Errno) error {
	switch errno {
	case unix.EAGAIN, unix.ENOMEM:
		return enplace.Errorf(enplace.KindBusy, "cannot run %s: the sandbox has reached its limit on processes or memory", r.Argv[0]).WithCause(errno)
	case unix.E2BIG:
		return enplace.TooLargef("cannot run %s: its arguments and variables are larger than the kernel takes", r.Argv[0]).WithField("command")
	case unix.ENOENT:
		return enplace.Invalidf("cannot run %s: the interpreter that %s asks for is missing", r.Argv[0], program).WithField("command")
	case unix.ENOEXEC:
		return enplace.Invalidf("cannot run %s: %s is neither a program of this machine nor a script with a #! line", r.Argv[0], program).WithField("command")
	}
	return enplace.Invalidf("cannot run %s: %s", r.Argv[0], errno.Error()).WithField("command")
}
