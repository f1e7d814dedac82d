package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// sshClient is a standard client, as a person's would be.
func (b *box) sshClient() *ssh.Client {
	b.t.Helper()
	conn, chans, reqs, err := ssh.NewClientConn(b.dial(), "guest", &ssh.ClientConfig{User: "root", HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		b.t.Fatal(err)
	}
	c := ssh.NewClient(conn, chans, reqs)
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

func newSession(t *testing.T, c *ssh.Client) *ssh.Session {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStandardSessions(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	if err := b.Setup(deadline(t), Setup{Files: []SetupFile{{Path: "/run/enplace/env", Mode: 0o644, Content: []byte("PATH=/usr/bin:/bin\x00LINES2=a\nb\x00noise\x00X=old\x00")}}}); err != nil {
		t.Fatal(err)
	}
	c := b.sshClient()

	s := newSession(t, c)
	if err := s.Setenv("X", "new"); err != nil {
		t.Fatal(err)
	}
	s.Stdin = strings.NewReader("input")
	out, err := s.Output(`pwd; echo "$X|$LINES2"; cat`)
	if err != nil || string(out) != "/task\nnew|a\nb\ninput" {
		t.Errorf("exec: %q, %v", out, err)
	}

	var exit *ssh.ExitError
	if err := newSession(t, c).Run("exit 9"); !errors.As(err, &exit) || exit.ExitStatus() != 9 {
		t.Errorf("status: %v", err)
	}
	if err := newSession(t, c).Run("kill -TERM $$"); !errors.As(err, &exit) || exit.Signal() != "TERM" {
		t.Errorf("signal: %v", err)
	}

	s = newSession(t, c)
	if err := s.RequestPty("vt100", 33, 77, ssh.TerminalModes{}); err != nil {
		t.Fatal(err)
	}
	in, _ := s.StdinPipe()
	var screen bytes.Buffer
	s.Stdout = &screen
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	if err := s.WindowChange(44, 88); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(in, "until [ \"$(stty size)\" = '44 88' ]; do :; done; echo $TERM; exit 5\n")
	if err := s.Wait(); !errors.As(err, &exit) || exit.ExitStatus() != 5 || !strings.Contains(screen.String(), "vt100") {
		t.Errorf("shell: %v: %s", err, screen.String())
	}

	s = newSession(t, c)
	line, _ := s.StdoutPipe()
	if err := s.Start("trap 'exit 4' USR1; echo ready; while :; do read -t 0.01 <> <(:); done"); err != nil {
		t.Fatal(err)
	}
	if _, err := line.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if err := s.Signal(ssh.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); !errors.As(err, &exit) || exit.ExitStatus() != 4 {
		t.Errorf("signal to a session: %v", err)
	}
}

func TestHangUp(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	for name, line := range map[string]string{"goes": "echo ready; sleep 600", "stays": "trap '' HUP; echo ready; setsid sleep 601 & while :; do sleep 600; done"} {
		c := b.sshClient()
		s := newSession(t, c)
		out, _ := s.StdoutPipe()
		if err := s.Start(line); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		waitFor(t, "the end of the one that "+name, func() bool { return len(b.processes()) == 0 })
	}
}

func TestFileTransfer(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	c, err := sftp.NewClient(b.sshClient())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	data := bytes.Repeat([]byte("0123456789"), 300_000)
	f, err := c.Create("sent") // relative to /task
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadFrom(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if got := b.must("wc -c </task/sent"); strings.TrimSpace(got) != fmt.Sprint(len(data)) {
		t.Errorf("inside it has %s bytes", got)
	}
	if f, err = c.Open("/task/sent"); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back: %v", len(got), err)
	}
}

func TestOpenSSHClient(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh"); err != nil {
		skip(t, "no ssh client")
	}
	b := newBox(t, "")
	// ssh wants a command to connect by; bash can hold both ends of nothing but TCP, so a tiny bridge stands between.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if conn, err := ln.Accept(); err == nil {
			guest := b.dial()
			go func() { _, _ = io.Copy(guest, conn) }()
			_, _ = io.Copy(conn, guest)
			_ = conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	cmd := exec.CommandContext(deadline(t), "ssh", "-F", "none", "-p", port, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
		"root@127.0.0.1", "cat; exit 3")
	cmd.Stdin = strings.NewReader("over ssh")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || string(out) != "over ssh" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestProxyForwarder(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(filepath.Dir(guestBinary), "egress.sock") // where root inside, who is nobody here, may go
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := os.Chmod(socket, 0o777); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		request, _ := io.ReadAll(conn) // until the client has sent everything
		got <- string(request)
		_, _ = io.WriteString(conn, strings.Repeat("answer ", 100_000))
		_ = conn.Close()
	}()
	b := newBox(t, socket)
	// Perl shuts its half down, which bash cannot.
	out := b.must(`perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new("127.0.0.1:3128") or die; print $s "question"; $s->flush; shutdown $s, 1; local $/; print <$s>'`)
	if q := <-got; q != "question" || len(out) != 700_000 {
		t.Errorf("asked %q, %d bytes came back", q, len(out))
	}
}

func TestNoNetworkIsSaidSo(t *testing.T) {
	t.Parallel()
	b := newBox(t, "")
	out := b.must(`exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT pypi.org:443 HTTP/1.1\r\n\r\n' >&3; cat <&3`)
	if !strings.HasPrefix(out, "HTTP/1.1 502 ") || !strings.Contains(out, "This sandbox has no network") {
		t.Errorf("%s", out)
	}
}

func TestDialGivesUp(t *testing.T) {
	t.Parallel()
	a, silent := net.Pipe()
	defer silent.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Dial(ctx, a); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
