package shim

import (
	"os"
	"strconv"
	"syscall"
)

// Bounds of the search for a set among the ancestors of a shim.
const (
	maxAncestors    = 64
	maxEnvironBytes = 256 << 10 // of each
)

// set gives the set of the conversation that a shim is called in: the one that its variables name; after env -i, sudo or cron
// the one that its nearest ancestor was started with; else, also where such an ancestor has since become another program, the
// computer's own. It is "" where there is none.
func (t Tools) set(env []string) string {
	for _, e := range env {
		if v, ok := after(e, SetVar+"="); ok && IsHash(v) {
			return v
		}
	}
	pid := os.Getppid()
	for range maxAncestors {
		if pid < 1 {
			break
		}
		if set := startedWith(pid); set != "" {
			return set
		}
		pid = parent(pid)
	}
	hash, err := readFile(t.DefaultSet(), 128)
	if hash, _, _ = cut(hash, '\n'); err != nil || !IsHash(hash) {
		return ""
	}
	return hash
}

// IsHash reports whether s is the hash of a set, which is part of a path.
func IsHash(s string) bool {
	if len(s) != 64 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// startedWith gives the set that a process was started with; "" also where that may not be read.
func startedWith(pid int) string {
	environ := process(pid, "environ", maxEnvironBytes)
	for e, rest, more := cut(environ, 0); more || e != ""; e, rest, more = cut(rest, 0) {
		if v, ok := after(e, SetVar+"="); ok && IsHash(v) {
			return v
		}
	}
	return ""
}

// parent gives the parent of a process, or 0. The name of a program, in brackets, can hold anything.
func parent(pid int) int {
	fields, _ := after(afterLast(process(pid, "stat", 4096), ')'), " ")
	_, ppid, _ := cut(fields, ' ')
	ppid, _, _ = cut(ppid, ' ')
	n, _ := strconv.Atoi(ppid)
	return n
}

func process(pid int, file string, most int) string {
	fd, err := open("/proc/" + strconv.Itoa(pid) + "/" + file)
	if err != nil {
		return ""
	}
	defer syscall.Close(fd)
	s, _ := readAll(fd, most)
	return s
}
