package guest

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxForwards bounds the connections to the proxy at once. Each takes six descriptors of the guest, and what runs inside must
// not be able to use up those that the host's calls need.
func maxForwards() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 64
	}
	return int(min(512, limit.Cur/16+1))
}

// acceptPause is how long to wait when a connection could not be taken, which more descriptors or memory may mend.
const acceptPause = 10 * time.Millisecond

const noNetwork = "This sandbox has no network: its egress policy gives it none.\n"

// forward passes every connection on to the host's proxy, until ln is closed.
func forward(ln net.Listener, socket string) {
	slots := make(chan struct{}, maxForwards())
	for {
		slots <- struct{}{}
		conn, err := ln.Accept()
		if err != nil {
			<-slots
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(acceptPause)
			continue
		}
		go func() {
			defer func() { <-slots }()
			forwardOne(conn.(*net.TCPConn), socket)
		}()
	}
}

// forwardOne copies both ways; when one side has sent everything, the other is told and may still answer. Once the host is gone
// for good it ends, whatever the client does: many keep a connection that nobody answers until they want to use it again.
func forwardOne(client *net.TCPConn, socket string) {
	defer client.Close()
	host, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		refuse(client)
		return
	}
	defer host.Close()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(host, client)
		_ = host.CloseWrite()
	})
	_, _ = io.Copy(client, host)
	_ = client.CloseWrite()
	go func() {
		awaitHangUp(host) // or our own closing of it
		_ = client.Close()
	}()
	both.Wait()
}

// awaitHangUp returns when the other side has closed the connection, and not only its half of it.
func awaitHangUp(c *net.UnixConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) (done bool) {
		p := []unix.PollFd{{Fd: int32(fd)}} // a hang-up is told of without being asked for
		_, err := unix.Poll(p, 0)
		return err != nil && err != unix.EINTR || p[0].Revents&unix.POLLHUP != 0
	})
}

// refuse answers by hand: net/http would double the guest.
func refuse(client *net.TCPConn) {
	_ = client.SetDeadline(time.Now().Add(2 * time.Second))
	_, _ = io.WriteString(client, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: "+
		strconv.Itoa(len(noNetwork))+"\r\nConnection: close\r\n\r\n"+noNetwork)
	_ = client.CloseWrite()
	// Closing with a request unread would reset the connection, and the client might never see the answer.
	_, _ = io.CopyN(io.Discard, client, 64<<10)
}
