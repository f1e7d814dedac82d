package shim

import (
	"syscall"
)

// Command is a command of an index. Failed, where it is not empty, says why there is no Target. Scope is empty for what was
// installed inside. No field holds a NUL, and what is for people to read is on one line: whoever writes an index sees to it.
type Command struct {
	Name, Target, Item, Scope, Failed string
}

// An index is a header, and for each command its length in four bytes, the highest first, and its five fields, each ended by a
// NUL; a length of zero ends it. A shim steps from one length to the next until the name is the one that it looks for. It is one
// file, so that a shim which reads while the index is replaced has the old one or the new.
const header = "enplace shims 1\n"

// MaxIndexBytes bounds an index: what a shim reads at each start.
const MaxIndexBytes = 1 << 20

const fields = 5

// errDamaged needs no variable: there are none yet where BecomeQuickly reads an index.
type errDamaged struct{}

func (errDamaged) Error() string { return "it is damaged" }

// Encode gives the file of an index.
func Encode(commands []Command) []byte {
	b := []byte(header)
	for _, c := range commands {
		at := len(b)
		b = append(b, 0, 0, 0, 0)
		for _, f := range [fields]string{c.Name, c.Target, c.Item, c.Scope, c.Failed} {
			b = append(append(b, f...), 0)
		}
		size := len(b) - at - 4
		b[at], b[at+1], b[at+2], b[at+3] = byte(size>>24), byte(size>>16), byte(size>>8), byte(size)
	}
	return append(b, 0, 0, 0, 0)
}

// Decode gives all commands of an index.
func Decode(index string) ([]Command, error) {
	var all []Command
	err := walk(index, func(record string) error {
		c, err := decodeCommand(record)
		if err == nil {
			all = append(all, c)
		}
		return err
	})
	return all, err
}

// Read gives all commands of the file of an index.
func Read(path string) ([]Command, error) {
	index, err := readFile(path, MaxIndexBytes)
	if err != nil {
		return nil, err
	}
	return Decode(index)
}

// lookup gives the record of the command of that name, or "". An index whose lengths are damaged anywhere is not believed.
func lookup(index, name string) (found string, err error) {
	err = walk(index, func(record string) error {
		if found == "" && len(record) > len(name) && record[:len(name)] == name && record[len(name)] == 0 {
			found = record
		}
		return nil
	})
	return found, err
}

// walk gives each record.
func walk(index string, each func(record string) error) error {
	rest, ok := after(index, header)
	for ok && len(rest) >= 4 {
		size := uint64(rest[0])<<24 | uint64(rest[1])<<16 | uint64(rest[2])<<8 | uint64(rest[3])
		if rest = rest[4:]; size == 0 {
			if rest != "" {
				break
			}
			return nil
		}
		if size > uint64(len(rest)) {
			break
		}
		if err := each(rest[:size]); err != nil {
			return err
		}
		rest = rest[size:]
	}
	return errDamaged{}
}

// command gives the command of that name, or nil.
func command(index, name string) (*Command, error) {
	record, err := lookup(index, name)
	if err != nil || record == "" {
		return nil, err
	}
	c, err := decodeCommand(record)
	if err != nil {
		return nil, err
	}
	return &c, nil
}

func decodeCommand(record string) (Command, error) {
	var f [fields]string
	for i := range f {
		value, rest, ok := cut(record, 0)
		if !ok {
			return Command{}, errDamaged{}
		}
		f[i], record = value, rest
	}
	c := Command{f[0], f[1], f[2], f[3], f[4]}
	if record != "" || c.Name == "" || c.Failed == "" && (c.Target == "" || c.Target[0] != '/') {
		return Command{}, errDamaged{}
	}
	return c, nil
}

// find looks a command up in the file of an index. An error is a syscall.Errno, or says that the index is damaged.
func find(path, name string) (*Command, error) {
	index, err := readFile(path, MaxIndexBytes)
	if err != nil {
		return nil, err
	}
	return command(index, name)
}

// readFile reads a small regular file. One that is larger is damaged. Nothing that only looks like a file may hold a shim up.
func readFile(path string, most int) (string, error) {
	fd, err := open(path)
	if err != nil {
		return "", err
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return "", err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG || st.Size > int64(most) {
		return "", errDamaged{}
	}
	return readAll(fd, int(st.Size)+1)
}

const openFlags = syscall.O_RDONLY | syscall.O_CLOEXEC | syscall.O_NONBLOCK

func open(path string) (int, error) {
	for {
		fd, err := syscall.Open(path, openFlags, 0)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

// readAll reads to the end, or so many bytes.
func readAll(fd, most int) (string, error) {
	b, n := make([]byte, most), 0
	for n < most {
		got, err := syscall.Read(fd, b[n:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return "", err
		}
		if got == 0 {
			break
		}
		n += got
	}
	return string(b[:n]), nil
}
