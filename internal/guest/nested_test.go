package guest

import (
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newConnectedBox starts a box whose guest has one end of a connection and nothing that listens.
func newConnectedBox(t *testing.T) *box {
	t.Helper()
	if os.Getuid() != 0 {
		skip(t, "needs root to make namespaces")
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(fds[0]), "guest")
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	_ = ours.Close()
	b := &box{t: t}
	b.start("", os.NewFile(uintptr(fds[1]), "host"))
	b.meet(conn)
	return b
}

// Over its one connection a guest does all that it does over many, and further ones travel inside.
func TestNestedConnections(t *testing.T) {
	b := newConnectedBox(t)
	if out := b.must("echo outer"); out != "outer\n" {
		t.Errorf("got %q", out)
	}
	for range 3 {
		conn, err := b.DialNested(deadline(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		inner, err := Dial(deadline(t), conn)
		if err != nil {
			t.Fatal(err)
		}
		nested := &box{Client: inner, t: t}
		if out := nested.must("head -c 3000000 /dev/zero | wc -c"); out != "3000000\n" {
			t.Errorf("got %q", out)
		}
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
		_ = inner.Wait()
	}
	if out := b.must("echo still here"); out != "still here\n" {
		t.Errorf("got %q", out)
	}
}

// A guest whose one connection has gone ends, and the sandbox with it: nobody could ever reach it again.
func TestEndsWithItsConnection(t *testing.T) {
	b := newConnectedBox(t)
	b.must("sleep 1000 & echo left")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- b.cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the guest goes on")
	}
}
