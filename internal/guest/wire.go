package guest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"enplace"
)

// The channels and requests of our own, named as RFC 4250 section 4.6.1 asks for. A channel's payload stands in its open
// message as far as it fits and goes on in its data, so that a common command takes a single round trip.
const (
	execChannel    = "exec@enplace"
	setupChannel   = "setup@enplace"
	killAllChannel = "kill-all@enplace"
	nestedChannel  = "connection@enplace"

	startedRequest = "started@enplace" // from the guest: the program runs, what follows is its output
	endedRequest   = "ended@enplace"   // from the guest: an ended, as JSON
	signalRequest  = "signal"          // RFC 4254 section 6.9; KILL ends everything that the command started
)

// Bounds of what the guest takes. Setup carries files, a task's input among them, in base64.
const (
	maxExecBytes  = 8 << 20
	maxSetupBytes = 32 << 20
	maxOpenBytes  = 128 << 10 // of a payload in the open message; x/crypto takes packets up to 256 KiB
	maxSessions   = 256       // channels at once, over all connections
)

// execRequest is a Command on its way. Its strings may hold any byte but NUL, so it travels as execve takes it and not as
// JSON, which would mangle what is not UTF-8.
type execRequest struct {
	Argv, Env             []string
	Dir                   string
	Timeout               time.Duration
	TTY                   *TTY
	Stdin, Stdout, Stderr bool // whether the host has one; /dev/null otherwise
	Merged                bool // standard error goes where standard output does, in the order of writing
	Sole, Whole           bool
}

// encode gives the fields, each ended by a NUL: folder, milliseconds, flags, terminal, columns, rows, number of arguments,
// the arguments, and the variables.
func (r execRequest) encode() ([]byte, error) {
	var flags []byte
	for _, f := range []struct {
		set  bool
		flag byte
	}{{r.Stdin, 'i'}, {r.Stdout, 'o'}, {r.Stderr, 'e'}, {r.Merged, 'm'}, {r.TTY != nil, 't'}, {r.Sole, 's'}, {r.Whole, 'w'}} {
		if f.set {
			flags = append(flags, f.flag)
		}
	}
	tty := TTY{}
	if r.TTY != nil {
		tty = *r.TTY
	}
	// A deadline below a millisecond is still a deadline.
	ms := int64((r.Timeout + time.Millisecond - 1) / time.Millisecond)
	fields := []string{r.Dir, strconv.FormatInt(ms, 10), string(flags), tty.Term,
		strconv.Itoa(tty.Columns), strconv.Itoa(tty.Rows), strconv.Itoa(len(r.Argv))}
	var b []byte
	for _, list := range [][]string{fields, r.Argv, r.Env} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return nil, enplace.Invalidf("%q holds a NUL byte, which no argument, variable or folder can", s)
			}
			b = append(append(b, s...), 0)
		}
	}
	if len(b) > maxExecBytes {
		return nil, enplace.TooLargef("arguments and variables have %d bytes; the limit is %d", len(b), maxExecBytes)
	}
	return b, nil
}

// decodeExec reads what encode wrote, and refuses everything else.
func decodeExec(b []byte) (execRequest, error) {
	malformed := func(what string) (execRequest, error) {
		return execRequest{}, enplace.Errorf(enplace.KindMalformed, "the guest was sent a command with %s", what)
	}
	if len(b) == 0 || b[len(b)-1] != 0 {
		return malformed("an unfinished field")
	}
	f := strings.Split(string(b[:len(b)-1]), "\x00")
	if len(f) < 8 {
		return malformed("too few fields")
	}
	var n [4]int64 // milliseconds, columns, rows, arguments
	for i, at := range []int{1, 4, 5, 6} {
		v, err := strconv.ParseInt(f[at], 10, 64)
		if err != nil || v < 0 || v > 1<<40 {
			return malformed("a number that is none")
		}
		n[i] = v
	}
	r := execRequest{Dir: f[0], Timeout: time.Duration(n[0]) * time.Millisecond}
	for _, flag := range []byte(f[2]) {
		switch flag {
		case 'i':
			r.Stdin = true
		case 'o':
			r.Stdout = true
		case 'e':
			r.Stderr = true
		case 'm':
			r.Merged = true
		case 't':
			r.TTY = &TTY{Term: f[3], Columns: int(min(n[1], 0xffff)), Rows: int(min(n[2], 0xffff))}
		case 's':
			r.Sole = true
		case 'w':
			r.Whole = true
		default:
			return malformed("an unknown flag")
		}
	}
	rest := f[7:]
	if n[3] < 1 || n[3] > int64(len(rest)) {
		return malformed("no arguments")
	}
	r.Argv, r.Env = rest[:n[3]], rest[n[3]:]
	return r, r.check()
}

// check refuses what could not be run, on both sides of the wire.
func (r execRequest) check() error {
	if len(r.Argv) == 0 || r.Argv[0] == "" {
		return enplace.Invalidf("names no program").WithField("command")
	}
	if !path.IsAbs(r.Dir) {
		return enplace.Invalidf("the folder %q to run in is not absolute", r.Dir).WithField("cwd")
	}
	for _, e := range r.Env {
		if strings.IndexByte(e, '=') < 1 {
			return enplace.Invalidf("the variable %q is not KEY=value", e).WithField("env")
		}
	}
	return nil
}

// ended is how a call to the guest came out.
type ended struct {
	Exit
	Error *wireError `json:"error,omitempty"`
}

// wireError is an error on its way to the host. One without a kind is internal there too.
type wireError struct {
	Kind    enplace.Kind `json:"kind,omitempty"`
	Message string       `json:"message"`
	Field   string       `json:"field,omitempty"`
	Fixes   []string     `json:"fixes,omitempty"`

	NoProgram bool `json:"no_program,omitempty"` // ErrNoProgram is its cause
}

func toWire(err error) *wireError {
	if err == nil {
		return nil
	}
	// What runs inside can bring these about, so they are no faults of ours.
	for _, short := range []syscall.Errno{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ENOSPC, unix.ENOBUFS} {
		if errors.Is(err, short) && enplace.KindOf(err) == enplace.KindInternal {
			err = enplace.Errorf(enplace.KindBusy, "the sandbox has used up its processes, memory, open files or disk (%v)", err).WithFix("end some of what runs in it, or wait until some of it has ended")
		}
	}
	var e *enplace.Error
	if errors.As(err, &e) {
		return &wireError{Kind: e.Kind, Message: e.Message, Field: e.Field, Fixes: e.Fixes, NoProgram: errors.Is(err, ErrNoProgram)}
	}
	return &wireError{Message: err.Error()}
}

func (w *wireError) err() error {
	if w == nil {
		return nil
	}
	if w.Kind == "" {
		return fmt.Errorf("the guest: %s", w.Message)
	}
	e := &enplace.Error{Kind: w.Kind, Message: w.Message, Field: w.Field, Fixes: w.Fixes}
	if w.NoProgram {
		e.Err = ErrNoProgram
	}
	return e
}

// sendEnded answers a call. A host that is gone hears nothing.
func sendEnded(ch ssh.Channel, e ended) {
	b, err := json.Marshal(e)
	if err != nil {
		return // cannot be: strings, numbers and booleans
	}
	_, _ = ch.SendRequest(endedRequest, false, b)
}

// openData gives what stands in the open message of a channel: the length of the payload, and as much of it as fits.
func openData(payload []byte) []byte {
	first := payload[:min(len(payload), maxOpenBytes)]
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(first)), uint32(len(payload))), first...)
}

// readPayload puts a payload together from the open message and the channel's data, of at most limit bytes.
func readPayload(open []byte, data io.Reader, limit int) ([]byte, error) {
	malformed := enplace.Errorf(enplace.KindMalformed, "the guest was sent a request of another length than it says")
	if len(open) < 4 {
		return nil, malformed
	}
	size, first := int64(binary.BigEndian.Uint32(open)), open[4:]
	switch {
	case size > int64(limit):
		return nil, enplace.TooLargef("the request to the guest has %d bytes; the limit is %d", size, limit)
	case int64(len(first)) > size:
		return nil, malformed
	case int64(len(first)) == size:
		return first, nil
	}
	// Grows with what really comes, so that a length alone reserves nothing.
	b := bytes.NewBuffer(bytes.Clone(first))
	if _, err := io.CopyN(b, data, size-int64(len(first))); err != nil {
		return nil, malformed
	}
	return b.Bytes(), nil
}
