package shim

import (
	"syscall"
)

// file is which file it is, whatever it is called.
type file struct{ dev, ino uint64 }

// identify gives the file or folder that a path leads to; kind is one of syscall.S_IF….
func identify(path string, kind uint32) (file, bool) {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil || st.Mode&syscall.S_IFMT != kind {
		return file{}, false
	}
	return file{st.Dev, st.Ino}, true
}

// host becomes the program of that name that PATH leads to where there are no shims: no folder of shims counts, by whatever
// name PATH has it, and no shim of ours or of mise's that lies elsewhere. Entries that are not absolute do not count either:
// they would run what the current folder holds.
func (t Tools) host(name string, argv, env []string) *refusal {
	var folders, shims []file
	for _, p := range []string{t.Shims(), t.LocalShims()} {
		if f, ok := identify(p, syscall.S_IFDIR); ok {
			folders = append(folders, f)
		}
	}
	for _, p := range []string{"/proc/self/exe", Mise} {
		if f, ok := identify(p, syscall.S_IFREG); ok {
			shims = append(shims, f)
		}
	}
	denied := ""
	for dir, rest, more := cut(searchPath(env), ':'); more || dir != ""; dir, rest, more = cut(rest, ':') {
		if dir == "" || dir[0] != '/' {
			continue
		}
		path := dir + "/" + name
		program, ok := identify(path, syscall.S_IFREG)
		if !ok || among(shims, program) {
			continue
		}
		if folder, ok := identify(dir, syscall.S_IFDIR); !ok || among(folders, folder) {
			continue
		}
		switch errno := exec(path, argv, env); errno {
		case syscall.ENOENT, syscall.ENOTDIR:
		case syscall.EACCES:
			denied = path
		default:
			return cannot(path, errno)
		}
	}
	if denied != "" {
		return cannot(denied, syscall.EACCES)
	}
	return &refusal{statusNone, shown(name) + ": there is no such command: this conversation's tools do not have it, and neither does the computer."}
}

func among(files []file, f file) bool {
	for _, x := range files {
		if x == f {
			return true
		}
	}
	return false
}

// searchPath gives the first PATH of an environment, as getenv does.
func searchPath(env []string) string {
	for _, e := range env {
		if v, ok := after(e, "PATH="); ok && v != "" {
			return v
		}
	}
	return DefaultPath
}
