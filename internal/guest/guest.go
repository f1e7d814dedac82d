// Package guest is what runs inside every sandbox as process 1, and the host's client of it. They speak SSH (RFC 4253,
// 4254) over a unix socket that only the host can reach, so terminals, editors, rsync and file transfer need nothing of our
// own. Our own are three kinds of channel, for what SSH has no word for: a command as data with its deadline, a setup, and
// the end of every process. What the guest links is pinned by a test: it is in every sandbox, and small.
package guest

import (
	"io"
	"time"
)

// Command is what to run. It travels as data, never as a shell string.
type Command struct {
	Argv    []string
	Env     []string // the whole environment, as KEY=value; nothing is inherited
	Dir     string
	Stdin   io.Reader     // nil reads as empty. It may still be read from for a moment after the command has ended
	Stdout  io.Writer     // nil drops it
	Stderr  io.Writer     // the same as Stdout keeps both in the order of writing
	Timeout time.Duration // 0 for none; at its end the command and all that it started are killed
	TTY     *TTY          // nil for none

	// Sole says that the sandbox stops when this command ends, so nothing has to watch over what it starts: it is started a
	// little faster, its end by deadline or cancellation ends every process of the sandbox, and Exit.Background is not told.
	Sole bool

	// Whole says that what the command started ends with it: what it leaves running is killed before the answer, which tells
	// it by Exit.Background all the same.
	Whole bool

	// Started, when not nil, is called once the program has been started, before any of its output.
	Started func()
}

// TTY asks for a terminal of that size.
type TTY struct {
	Term          string
	Columns, Rows int
}

// Exit is how a command ended.
type Exit struct {
	Code       int    // exit status; 128 + the signal's number when a signal ended it
	Signal     string // without SIG, such as KILL; empty when it exited
	TimedOut   bool
	Background bool // it left processes running, which hold none of the answer; killed where the command is Whole
}

// Setup is what the guest does to its sandbox when it is given an owner: as root inside, before any command.
type Setup struct {
	Files []SetupFile `json:"files,omitempty"`
	Links []SetupLink `json:"links,omitempty"`
	// ReadOnly are paths that must refuse a write by root with EROFS: each itself, and three levels down where there are any.
	// The guest tries, and the setup fails when a write went through.
	ReadOnly []string `json:"read_only,omitempty"`
}

// SetupFile is a file to write; its folder is made.
type SetupFile struct {
	Path    string `json:"path"`
	Content []byte `json:"content"`
	Mode    uint32 `json:"mode"`
}

// SetupLink is a symbolic link to make in place of whatever link or file is there.
type SetupLink struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}
