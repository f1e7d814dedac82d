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
	m := marker{1, 1}
	out := make([]string, 0, len(env)+1)
	for _, e := range env {
		if v, ok := after(e, depthVar+"="); ok {
			m.count(v, pid)
		} else {
			out = append(out, e)
		}
	}
	if m.tooFar() {
		return nil, &refusal{statusNone, shown(name) + " leads back to its own shim, again and again. A program of that name on the PATH, or the tool itself, calls " +
			shown(name) + " by its name; let it call the program by its whole path."}
	}
	b := m.append(nil, pid)
	return append(out, string(b[:len(b)-1])), nil
}

// marker is what the variable says that shims leave to shims: how often they led to each other in this process, and in all.
type marker struct{ chain, depth int }

func (m marker) tooFar() bool { return m.chain > maxChain || m.depth > maxDepth }

// count goes on from what an earlier shim left.
func (m *marker) count(value, pid string) {
	last, counts, _ := cut(value, '.')
	c, d, _ := cut(counts, '.')
	if last == pid {
		m.chain = 1 + count(c)
	}
	m.depth = 1 + count(d)
}

// append writes the variable, and a NUL.
func (m marker) append(b []byte, pid string) []byte {
	b = append(append(b, depthVar+"="...), pid...)
	b = strconv.AppendInt(append(b, '.'), int64(m.chain), 10)
	b = strconv.AppendInt(append(b, '.'), int64(m.depth), 10)
	return append(b, 0)
}

// count reads a count that anybody may have written; 0 for what is none.
func count(s string) (n int) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' || n > maxDepth {
			return 0
		}
		n = 10*n + int(c-'0')
	}
	if n > maxDepth {
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
