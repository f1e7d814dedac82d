package guest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/crypto/ssh"
)

// ListenerFD is the descriptor on which `enplace-guest init` expects the host's unix socket: one that listens, which the host
// bound, or one that is connected to the host.
const ListenerFD = 3

// Options configure Serve. The zero value is what every sandbox uses.
type Options struct {
	EgressSocket string // the host's proxy as seen inside; default /run/enplace/egress.sock. May be missing: no network then
	ProxyListen  string // where programs find the proxy; default 127.0.0.1:3128
	EnvFile      string // variables of the standard sessions, KEY=value, ended by NUL or newline; default /run/enplace/env
	TaskDir      string // where the standard sessions start when it exists; default /task
}

func (o Options) withDefaults() Options {
	for _, f := range []struct {
		field *string
		value string
	}{
		{&o.EgressSocket, "/run/enplace/egress.sock"}, {&o.ProxyListen, "127.0.0.1:3128"},
		{&o.EnvFile, "/run/enplace/env"}, {&o.TaskDir, "/task"},
	} {
		if *f.field == "" {
			*f.field = f.value
		}
	}
	return o
}

// server is process 1 at work.
type server struct {
	o        Options
	ssh      *ssh.ServerConfig
	procs    *table
	null     *os.File // /dev/null as it was before any command could replace it
	sessions chan struct{}
}

// Serve answers the host on ln until ctx ends or ln is closed. Only process 1 of a PID namespace may call it: it reaps every
// orphan, and kills by kill(-1).
func Serve(ctx context.Context, ln net.Listener, o Options) error {
	if os.Getpid() != 1 {
		return errors.New("the guest must be process 1 of a PID namespace of its own")
	}
	o = o.withDefaults()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("starting the guest: %w", err)
	}
	cfg, err := serverConfig()
	if err != nil {
		return err
	}
	proxy, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.ProxyListen)
	if err != nil {
		return fmt.Errorf("starting the proxy's forwarder: %w", err)
	}
	s := &server{o: o, ssh: cfg, procs: newTable(null), null: null, sessions: make(chan struct{}, maxSessions)}
	go s.procs.reap()
	go forward(proxy, o.EgressSocket)
	defer context.AfterFunc(ctx, func() { _ = ln.Close(); _ = proxy.Close() })()
	for {
		conn, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accepting the host: %w", err)
		case err != nil:
			time.Sleep(acceptPause)
			continue
		}
		go s.connection(conn, nil)
	}
}

// serverConfig authenticates nobody: who can connect to the socket is the host.
func serverConfig() (*ssh.ServerConfig, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the host key: %w", err)
	}
	signer, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		return nil, fmt.Errorf("making the host key: %w", err)
	}
	cfg := &ssh.ServerConfig{NoClientAuth: true, ServerVersion: "SSH-2.0-enplace"}
	cfg.AddHostKey(signer)
	return cfg, nil
}

// connection serves one connection of the host. env, where it is not nil, is what its standard sessions have.
func (s *server) connection(conn net.Conn, env []string) {
	defer conn.Close()
	sc, chans, reqs, err := ssh.NewServerConn(conn, s.ssh)
	if err != nil {
		return
	}
	defer sc.Close()
	go ssh.DiscardRequests(reqs) // keepalive@openssh.com wants an answer, and any will do
	for nc := range chans {
		var serve func(ssh.NewChannel)
		switch nc.ChannelType() {
		case execChannel:
			serve = s.exec
		case "session":
			serve = func(nc ssh.NewChannel) { s.session(nc, env) }
		case setupChannel:
			serve = s.setup
		case killAllChannel:
			serve = s.killAll
		case nestedChannel:
			serve = s.nested
		default:
			_ = nc.Reject(ssh.UnknownChannelType, "the guest has no such channel")
			continue
		}
		select {
		case s.sessions <- struct{}{}:
		default:
			_ = nc.Reject(ssh.ResourceShortage, fmt.Sprintf("the sandbox runs %d commands already; wait for some to end", maxSessions))
			continue
		}
		go func() {
			defer func() { <-s.sessions }()
			serve(nc)
		}()
	}
}
