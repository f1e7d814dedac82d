package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// network are attempts to reach the server, whose address is given, and what else listens near it.
func network(server, abstract string) []attempt {
	_, port, _ := net.SplitHostPort(server)
	var all []attempt
	for _, a := range []string{server, "127.0.0.1:22", "192.0.2.1:80", "169.254.169.254:80", "10.0.0.1:80", "172.17.0.1:80", "[fe80::1%lo]:80", "[fd00:ec2::254]:80"} {
		all = append(all, attempt{"connect to " + a, func() error {
			c, err := net.DialTimeout("tcp", a, time.Second)
			if err == nil {
				c.Close()
			}
			return err
		}})
	}
	for _, name := range []string{"@" + abstract, "@/tmp/.X11-unix/X0", "@/containerd-shim/x", "/run/docker.sock", "/var/run/dbus/system_bus_socket"} {
		all = append(all, attempt{"connect to unix " + name, func() error {
			c, err := net.Dial("unix", name)
			if err == nil {
				c.Close()
			}
			return err
		}})
	}
	hosts := []string{"127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]", "[::]",
		"0.0.0.0", "0", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "169.254.169.254", "[::ffff:169.254.169.254]", "metadata.google.internal", "10.0.0.1",
		"192.168.0.1", "172.16.0.1", "100.100.100.200", "[fd00:ec2::254]", "localhost.", "LOCALHOST", "ip6-localhost", "[::127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]",
		"127.0.0.1%00.example.org", "127.0.0.1#example.org", "example.org@127.0.0.1", "127。0。0。1", "⑫7.0.0.1"}
	for _, h := range hosts {
		target := h + ":" + port
		all = append(all,
			attempt{"CONNECT " + target, func() error { return proxied("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n") }},
			attempt{"GET http://" + target, func() error {
				return proxied("GET http://" + target + "/healthz HTTP/1.1\r\nHost: " + target + "\r\nConnection: close\r\n\r\n")
			}})
	}
	for _, raw := range []string{
		"GET /healthz HTTP/1.1\r\nHost: " + server + "\r\nConnection: close\r\n\r\n",
		"GET http://example.invalid/ HTTP/1.1\r\nHost: " + server + "\r\nConnection: close\r\n\r\n",
		"GET unix:///run/enplace/guest.sock HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"GET file:///etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"CONNECT /run/x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST http://example.invalid/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\nGET http://" + server + "/healthz HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		all = append(all, attempt{"raw " + strings.SplitN(raw, "\r", 2)[0], func() error { return proxied(raw) }})
	}
	return all
}

// proxied sends a request to the egress proxy, by its socket. Anything but a refusal is a success.
func proxied(request string) error {
	c, err := net.Dial("unix", "/run/enplace/egress.sock")
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := c.Write([]byte(request)); err != nil {
		return err
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode < 400 {
		return nil
	}
	if r.Header.Get("X-Request-Id") != "" {
		return nil // an error, but of the server's own
	}
	return errors.New(fmt.Sprint(r.StatusCode, " ", r.Status))
}
