package guest

import (
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// hangUpGrace is what a command has to end in by itself after its terminal or connection went away.
const hangUpGrace = 2 * time.Second

// Bounds of what one standard session may set before it starts.
const (
	maxSessionVars = 256
	maxEnvFile     = 1 << 20
)

// defaultEnv is what a standard session has when no Setup wrote Options.EnvFile.
var defaultEnv = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}

// session is one standard SSH session (RFC 4254 section 6): a terminal, an editor, rsync, sftp.
type session struct {
	s    *server
	ch   ssh.Channel
	env  []string // that it starts from; nil for those of Options.EnvFile
	vars []string
	tty  *TTY
	job  *job
	done chan struct{} // closed when the job has ended
}

// session serves one standard session.
func (s *server) session(nc ssh.NewChannel, env []string) {
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	x := &session{s: s, ch: ch, env: env, done: make(chan struct{})}
	for r := range reqs {
		ok := x.handle(r)
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
		if ok && x.job != nil && (r.Type == "exec" || r.Type == "shell" || r.Type == "subsystem") {
			go x.run()
		}
	}
	if x.job != nil {
		x.hangUp()
	}
}

// handle does one request, and says whether it was understood.
func (x *session) handle(r *ssh.Request) bool {
	switch r.Type {
	case "env":
		var m struct{ Name, Value string }
		if ssh.Unmarshal(r.Payload, &m) != nil || x.job != nil || len(x.vars) >= maxSessionVars ||
			m.Name == "" || strings.ContainsAny(m.Name, "=\x00") || strings.Contains(m.Value, "\x00") {
			return false
		}
		x.vars = withVariable(x.vars, m.Name, m.Value)
		return true
	case "pty-req":
		var m struct {
			Term                         string
			Columns, Rows, Width, Height uint32
			Modes                        string
		}
		if ssh.Unmarshal(r.Payload, &m) != nil || x.job != nil {
			return false
		}
		x.tty = &TTY{Term: m.Term, Columns: int(min(m.Columns, 0xffff)), Rows: int(min(m.Rows, 0xffff))}
		return true
	case "window-change":
		var m struct{ Columns, Rows, Width, Height uint32 }
		if ssh.Unmarshal(r.Payload, &m) != nil || x.job == nil {
			return false
		}
		x.job.io.resize(int(min(m.Columns, 0xffff)), int(min(m.Rows, 0xffff)))
		return true
	case signalRequest:
		var m signalMessage
		if ssh.Unmarshal(r.Payload, &m) != nil || x.job == nil {
			return false
		}
		x.job.signal(m.Name)
		return true
	case "shell":
		return x.start("/bin/bash", []string{"bash"})
	case "exec":
		var m struct{ Line string }
		return ssh.Unmarshal(r.Payload, &m) == nil && x.start("/bin/bash", []string{"bash", "-c", m.Line})
	case "subsystem":
		var m struct{ Name string }
		// A process of its own, so that what hostile links lead it to is never process 1.
		return ssh.Unmarshal(r.Payload, &m) == nil && m.Name == "sftp" && x.start("/proc/self/exe", []string{"enplace-guest", "sftp"})
	}
	return false
}

// start starts the session's one program.
func (x *session) start(program string, argv []string) bool {
	if x.job != nil {
		return false
	}
	env := x.env
	if env == nil {
		env = x.s.sessionEnv()
	}
	r := execRequest{Argv: argv, Env: slices.Clone(env), Dir: x.sessionDir(), TTY: x.tty, Stdin: true, Stdout: true, Stderr: true}
	for _, v := range x.vars {
		name, value, _ := strings.Cut(v, "=")
		r.Env = withVariable(r.Env, name, value)
	}
	if x.tty != nil && x.tty.Term != "" {
		r.Env = withVariable(r.Env, "TERM", x.tty.Term)
	}
	j, err := x.s.beginProgram(program, r)
	if err != nil {
		_, _ = io.WriteString(x.ch.Stderr(), err.Error()+"\r\n")
		return false
	}
	x.job = j
	return true
}

// run passes the streams on and tells how the program ended.
func (x *session) run() {
	var e Exit
	if err := x.job.confirm(); err != nil {
		_, _ = io.WriteString(x.ch.Stderr(), err.Error()+"\r\n")
		e.Code = 126 // as a shell says it
	} else {
		x.job.io.forward(x.ch, x.ch, x.ch.Stderr())
		e = x.job.wait()
	}
	close(x.done)
	_ = x.ch.CloseWrite()
	if e.Signal != "" {
		_, _ = x.ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal        string
			Core          bool
			Message, Lang string
		}{Signal: e.Signal}))
	} else {
		_, _ = x.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(e.Code)}))
	}
	_ = x.ch.Close()
}

// hangUp does what the loss of a line does: the program is told, and killed with everything it started when it stays. What a
// program that goes leaves in the background lives on, so that a terminal multiplexer survives its terminal.
func (x *session) hangUp() {
	x.job.signal("HUP")
	select {
	case <-x.done:
	case <-time.After(hangUpGrace):
		x.job.kill(false)
	}
}

// sessionDir gives the folder that standard sessions start in: the working directory, or home where they bring their variables.
func (x *session) sessionDir() string {
	dir := x.s.o.TaskDir
	for _, v := range x.env {
		if home, ok := strings.CutPrefix(v, "HOME="); ok {
			dir = home
		}
	}
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return dir
	}
	return "/"
}

// sessionEnv gives the variables that standard sessions start from.
func (s *server) sessionEnv() []string {
	// Commands can write there: a pipe or an endless file must not hold the guest up.
	f, err := os.OpenFile(s.o.EnvFile, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return append([]string{}, defaultEnv...)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return append([]string{}, defaultEnv...)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxEnvFile))
	if err != nil {
		return append([]string{}, defaultEnv...)
	}
	return parseEnv(string(b))
}

// parseEnv reads KEY=value entries, ended by NUL where there is one and by newline otherwise. Others are left out.
func parseEnv(text string) []string {
	end := "\n"
	if strings.Contains(text, "\x00") {
		end = "\x00"
	}
	var env []string
	for e := range strings.SplitSeq(text, end) {
		if strings.IndexByte(e, '=') > 0 {
			env = append(env, e)
		}
	}
	return env
}

// withVariable gives env with that variable set, whatever it was before.
func withVariable(env []string, name, value string) []string {
	out := make([]string, 0, len(env)+1)
	for _, e := range env {
		if !strings.HasPrefix(e, name+"=") {
			out = append(out, e)
		}
	}
	return append(out, name+"="+value)
}

// SFTP serves the file transfer protocol on standard input and output, from the current folder, until input ends.
func SFTP() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	srv, err := sftp.NewServer(struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout}, sftp.WithServerWorkingDirectory(dir))
	if err != nil {
		return err
	}
	return srv.Serve()
}
