package guest

import (
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// forwarded gives the two ends of a connection through forwardOne, and what is closed when that has ended.
func forwarded(t *testing.T) (client *net.TCPConn, host *net.UnixConn, ended <-chan struct{}) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "egress.sock")
	hosts, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer hosts.Close()
	clients, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer clients.Close()
	outer, err := net.Dial("tcp", clients.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	inner, err := clients.Accept()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		forwardOne(inner.(*net.TCPConn), socket)
	}()
	if host, err = hosts.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{outer, host} {
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		t.Cleanup(func() { _ = c.Close() })
	}
	return outer.(*net.TCPConn), host, done
}

func TestHalfClosedConnectionStillCarries(t *testing.T) {
	t.Parallel()
	client, host, ended := forwarded(t)
	_ = host.CloseWrite()
	if _, err := io.ReadAll(client); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte("late")); err != nil {
		t.Fatal(err)
	}
	_ = client.CloseWrite()
	if got, err := io.ReadAll(host); string(got) != "late" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	<-ended
}

// A client that keeps a dead connection in its pool must not use up the forwarder's slots.
func TestClientThatKeepsADeadConnectionIsLetGo(t *testing.T) {
	t.Parallel()
	for _, halfFirst := range []bool{false, true} {
		client, host, ended := forwarded(t)
		if halfFirst {
			_ = host.CloseWrite()
			if _, err := io.ReadAll(client); err != nil {
				t.Fatal(err)
			}
		}
		_ = host.Close()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatalf("half closed first %v: the connection is still held", halfFirst)
		}
	}
}
