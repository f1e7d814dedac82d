package shim

import (
	"strconv"
	"syscall"
	"unsafe"
)

// Stack is what the kernel leaves for a program: how many arguments there are, as an integer; these; nil; the variables; nil.
// It is read no further than that.
type Stack [1 << 20]*byte

// What BecomeQuickly works with, so that it asks nobody for memory. Its size is paid for where it is used.
var quick struct {
	pid, marker, path [128]byte
	vars              [4096]*byte
	stat              syscall.Stat_t
	index             [256 << 10]byte
}

// BecomeQuickly is Become for what nearly every call of a shim is, a command of the set that the variables name, and is called
// before Go's runtime is there. It returns where the call is any other, having changed nothing, and Become has to say what is so.
//
// Without the runtime there is no memory to be had, no goroutine, no deferred call, no variable that a package sets at its start,
// and no system call but a raw one; a panic ends the process. TestQuickTakesNoMemory holds what is called here to the first.
func BecomeQuickly(stack *Stack) {
	args, vars := stack.split()
	if len(args) == 0 {
		return
	}
	name, login := after(afterLast(text(args[0]), '/'), "-")
	set, ok := quickVars(vars)
	if name == "" || login || !ok {
		return
	}
	index, ok := quickIndex(set)
	if !ok {
		return
	}
	target := quickTarget(index, name)
	if target == "" {
		return
	}
	called := args[0]
	args[0] = unsafe.StringData(target) // which a NUL follows, as every field of an index
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXECVE, address(args[0]), address((*byte)(unsafe.Pointer(&args[0]))), address((*byte)(unsafe.Pointer(&quick.vars[0]))))
	args[0] = called
}

// split gives the arguments and the variables; none where there are more than can be.
func (s *Stack) split() (args, vars []*byte) {
	argc := *(*int)(unsafe.Pointer(s))
	if argc < 1 || argc > len(s)-2 {
		return nil, nil
	}
	vars = s[argc+2:]
	for i, v := range vars {
		if v == nil {
			return s[1 : argc+1], vars[:i]
		}
	}
	return nil, nil
}

// quickVars gives the set that the variables name, and puts them into quick.vars as deeper does.
func quickVars(vars []*byte) (set string, ok bool) {
	if len(vars) > len(quick.vars)-2 {
		return "", false
	}
	id, _, _ := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
	digits := strconv.AppendInt(quick.pid[:0], int64(id), 10)
	pid := unsafe.String(&digits[0], len(digits))
	m, n := marker{1, 1}, 0
	for _, v := range vars {
		e := text(v)
		if value, is := after(e, depthVar+"="); is {
			m.count(value, pid)
			continue
		}
		if value, is := after(e, SetVar+"="); is && set == "" && IsHash(value) {
			set = value
		}
		quick.vars[n] = v
		n++
	}
	quick.vars[n] = &m.append(quick.marker[:0], pid)[0]
	return set, set != "" && !m.tooFar()
}

// quickIndex gives the index of a set.
func quickIndex(set string) (index string, ok bool) {
	path := append(append(append(quick.path[:0], Default...), setsFolder...), set...)
	path = append(path, 0)
	at := -0x64 // AT_FDCWD
	fd, _, errno := syscall.RawSyscall6(syscall.SYS_OPENAT, uintptr(at), address(&path[0]), openFlags, 0, 0, 0)
	if errno != 0 {
		return "", false
	}
	_, _, errno = syscall.RawSyscall(syscall.SYS_FSTAT, fd, address((*byte)(unsafe.Pointer(&quick.stat))), 0)
	size, n := quick.stat.Size, 0
	ok = errno == 0 && quick.stat.Mode&syscall.S_IFMT == syscall.S_IFREG && size < int64(len(quick.index))
	for ok {
		got, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, address(&quick.index[n]), uintptr(len(quick.index)-n))
		n += int(got)
		if ok = errno == 0; got == 0 || n == len(quick.index) {
			break
		}
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0)
	return unsafe.String(&quick.index[0], n), ok && n < len(quick.index)
}

// quickTarget gives the program of a command that there is and that did not fail.
func quickTarget(index, name string) string {
	record, err := lookup(index, name)
	if err != nil || record == "" {
		return ""
	}
	c, err := decodeCommand(record)
	if err != nil || c.Failed != "" {
		return ""
	}
	return c.Target
}

// text gives the string that ends with a NUL.
func text(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return unsafe.String(p, n)
}

func address(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }
