package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// writes are attempts to change what is attached at dir to be read, and what lies below it.
func writes(dir string) []attempt {
	var all []attempt
	var dirs, files []string
	_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case d.IsDir():
			dirs = append(dirs, p)
		case d.Type().IsRegular():
			files = append(files, p)
		}
		return nil
	})
	if len(dirs) < 3 || len(files) == 0 {
		fmt.Printf("too little in %s\tSUCCEEDED\n", dir)
	}
	for _, d := range some(dirs, 40) {
		all = append(all, folderWrites(d)...)
	}
	for _, f := range some(files, 40) {
		all = append(all, fileWrites(f)...)
	}
	return all
}

func folderWrites(d string) []attempt {
	return []attempt{
		{"create " + d, func() error { return os.WriteFile(d+"/new", nil, 0o644) }},
		{"mkdir " + d, func() error { return os.Mkdir(d+"/newdir", 0o755) }},
		{"symlink " + d, func() error { return os.Symlink("x", d+"/newlink") }},
		{"mknod " + d, func() error { return unix.Mknod(d+"/newnod", unix.S_IFIFO|0o644, 0) }},
		{"whiteout " + d, func() error { return unix.Mknod(d+"/newout", unix.S_IFCHR, 0) }},
		{"tmpfile " + d, func() error { _, err := unix.Open(d, unix.O_TMPFILE|unix.O_RDWR, 0o600); return err }},
		{"chmod " + d, func() error { return os.Chmod(d, 0o777) }},
		{"chown " + d, func() error { return os.Chown(d, 1, 1) }},
		{"opaque " + d, func() error { return unix.Setxattr(d, "trusted.overlay.opaque", []byte("y"), 0) }},
		{"user xattr " + d, func() error { return unix.Setxattr(d, "user.x", []byte("y"), 0) }},
		{"utimes " + d, func() error { return unix.Utimes(d, make([]unix.Timeval, 2)) }},
		{"rename " + d, func() error { return os.Rename(d, "/env/elsewhere") }},
		{"bind over " + d, func() error { return unix.Mount("/task", d, "", unix.MS_BIND, "") }},
		{"remount " + d, func() error { return unix.Mount("", d, "", unix.MS_BIND|unix.MS_REMOUNT, "") }},
		{"unmount " + d, func() error { return unix.Unmount(d, unix.MNT_DETACH) }},
	}
}

func fileWrites(f string) []attempt {
	return []attempt{
		{"write " + f, func() error { return put(f, "x") }},
		{"truncate " + f, func() error { return os.Truncate(f, 0) }},
		{"remove " + f, func() error { return os.Remove(f) }},
		{"link " + f, func() error { return os.Link(f, f+".2") }},
		{"link out " + f, func() error { return os.Link(f, "/task/stolen") }},
		{"chmod " + f, func() error { return os.Chmod(f, 0o777) }},
		{"capability " + f, func() error { return unix.Setxattr(f, "security.capability", make([]byte, 20), 0) }},
		{"reopen " + f, func() error { return reopen(f) }},
		{"shared map " + f, func() error { return sharedMap(f) }},
		{"write through /proc/self/mem " + f, func() error { return throughMem(f) }},
		{"immutable flag " + f, func() error {
			fd, err := unix.Open(f, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x10)
		}},
	}
}

func some(all []string, n int) []string {
	if len(all) <= n {
		return all
	}
	var out []string
	for i := range n {
		out = append(out, all[i*len(all)/n])
	}
	return out
}

// reopen opens a file to be read and again, through its descriptor, to be written.
func reopen(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0)
	if err == nil {
		w.Close()
	}
	return err
}

func sharedMap(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		_ = unix.Munmap(b)
	}
	return err
}

// throughMem maps a file to be read, and writes to the mapping as a debugger would: what comes of it must be a private page.
func throughMem(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	before := make([]byte, 1)
	if _, err := f.ReadAt(before, 0); err != nil {
		return err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(b) }()
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	if _, err := mem.WriteAt([]byte{before[0] ^ 1}, int64(uintptr(unsafe.Pointer(&b[0])))); err != nil {
		return err
	}
	after := make([]byte, 1)
	if _, err := f.ReadAt(after, 0); err != nil {
		return err
	}
	if after[0] != before[0] {
		return nil
	}
	return syscall.EACCES
}
