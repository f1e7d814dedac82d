package shim

import (
	"os"
	"strconv"
	"syscall"
)

// How often shims may lead to shims: in one process, where each becomes the next, as a script becomes its interpreter; and from
// process to process, which tools that call tools do in earnest.
const (
	maxChain = 8
	maxDepth = 64
)

// deeper counts this shim in the environment, and refuses one too many: a program that a shim leads to calls the shim again.
func deeper(name string, env []string) ([]string, *refusal) {
	pid := strconv.Itoa(os.Getpid())
	chain, depth := 1, 1
	out := make([]string, 0, len(env)+1)
	for _, e := range env {
		v, ok := after(e, depthVar+"=")
		if !ok {
			out = append(out, e)
			continue
		}
		last, counts, _ := cut(v, '.')
		c, d, _ := cut(counts, '.')
		if last == pid {
			chain = 1 + count(c)
		}
		depth = 1 + count(d)
	}
	if chain > maxChain || depth > maxDepth {
		return nil, &refusal{statusNone, shown(name) + " leads back to its own shim, again and again. A program of that name on the PATH, or the tool itself, calls " +
			shown(name) + " by its name; let it call the program by its whole path."}
	}
	return append(out, depthVar+"="+pid+"."+strconv.Itoa(chain)+"."+strconv.Itoa(depth)), nil
}

// count reads a count that anybody may have written.
func count(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxDepth {
		return 0
	}
	return n
}

// exec becomes a program. Its own name is its path and not what the shim was called by: programs find their files from it, as
// Python does, and would look for them beside the shim. The hyphen that makes a login shell is kept.
func exec(path string, argv, env []string) syscall.Errno {
	args := append([]string{path}, argv[1:]...)
	if _, login := after(argv[0], "-"); login {
		args[0] = argv[0]
	}
	errno := execve(path, args, env)
	if errno == syscall.ENOEXEC && isText(path) {
		errno = execve("/bin/sh", append([]string{"sh", path}, argv[1:]...), env) // as shells and execvp do
	}
	return errno
}

func execve(path string, argv, env []string) syscall.Errno {
	errno, _ := syscall.Exec(path, argv, env).(syscall.Errno)
	return errno
}

// isText reports whether a file that the kernel does not know is a script without a first line that names its interpreter.
func isText(path string) bool {
	fd, err := open(path)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	start, err := readAll(fd, 128)
	_, _, binary := cut(start, 0)
	return err == nil && !binary
}

// cannot says that there is a program and it does not run.
func cannot(path string, errno syscall.Errno) *refusal {
	why := errno.Error()
	if errno == syscall.ENOENT {
		why = "the interpreter that it asks for is missing"
	}
	return &refusal{statusCannot, "cannot run " + shown(path) + ": " + why}
}

// shown makes a name fit for a line on a terminal.
func shown(s string) string {
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}
