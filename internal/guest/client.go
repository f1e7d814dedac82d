package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"enplace"
)

// ErrClosed says that the connection to the guest is gone: the sandbox stopped, or the client was closed.
var ErrClosed = errors.New("the connection to the guest is closed")

// killWait is how long a cancelled Exec waits for the guest to say that everything is dead.
const killWait = 10 * time.Second

// Client is the host's connection to one guest. It is safe for concurrent use; calls share the connection.
type Client struct {
	conn ssh.Conn
}

// Dial speaks SSH over a connection to a guest's socket. The client owns conn from here on, also when Dial fails.
func Dial(ctx context.Context, conn net.Conn) (*Client, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	sc, chans, reqs, err := ssh.NewClientConn(conn, "guest", &ssh.ClientConfig{
		User: "root",
		// Whoever holds the socket is talking to the guest: it was bound by the host, and inside nobody can reach it. The key
		// only serves the protocol and is made anew by each guest.
		HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		// For the same reason the cheapest exchange will do.
		Config: ssh.Config{
			KeyExchanges: []string{ssh.KeyExchangeCurve25519},
			Ciphers:      []string{ssh.CipherAES128GCM, ssh.CipherChaCha20Poly1305},
		},
	})
	if !stop() && err == nil {
		_ = sc.Close()
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("speaking to the guest: %w", errors.Join(err, ctx.Err()))
	}
	go ssh.DiscardRequests(reqs)
	go func() {
		for nc := range chans { // a guest opens none
			_ = nc.Reject(ssh.Prohibited, "")
		}
	}()
	return &Client{conn: sc}, nil
}

// Wait returns when the connection has ended, with the reason.
func (c *Client) Wait() error { return c.conn.Wait() }

// Close ends the connection. What still runs by Exec is killed.
func (c *Client) Close() error { return c.conn.Close() }

// Exec runs a command and waits for it. When ctx ends, or the deadline passes, the command and everything it started is
// killed before Exec returns. The error says that the command could not be started (an *enplace.Error), that its output
// could not be written, that ctx ended, or ErrClosed; a command that ran and failed is no error. Exec does not wait for
// a Read of Stdin that is still under way when the command has ended.
func (c *Client) Exec(ctx context.Context, cmd Command) (Exit, error) {
	req := execRequest{Argv: cmd.Argv, Env: cmd.Env, Dir: cmd.Dir, Timeout: cmd.Timeout, TTY: cmd.TTY, Sole: cmd.Sole, Whole: cmd.Whole,
		Stdin: cmd.Stdin != nil, Stdout: cmd.Stdout != nil, Stderr: cmd.Stderr != nil}
	if cmd.Stderr != nil && same(cmd.Stdout, cmd.Stderr) {
		req.Merged, req.Stderr, cmd.Stderr = true, false, nil
	}
	if err := req.check(); err != nil {
		return Exit{}, err
	}
	payload, err := req.encode()
	if err != nil {
		return Exit{}, err
	}
	ch, reqs, err := c.open(ctx, execChannel, payload)
	if err != nil {
		return Exit{}, err
	}
	defer ch.Close()
	x := execution{cmd: cmd, ch: ch}
	end, err := x.follow(ctx, reqs)
	if err != nil {
		_ = ch.Close()
	}
	x.out.Wait()
	switch {
	case err != nil:
		return Exit{}, err
	case end.Error != nil:
		return Exit{}, end.Error.err()
	case ctx.Err() != nil && end.Signal == "KILL":
		return end.Exit, ctx.Err()
	}
	return end.Exit, errors.Join(x.outErr, x.errErr)
}

// same reports whether two writers are one. Those that cannot be compared are not.
func same(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a == b
}

// execution is one Exec under way.
type execution struct {
	cmd            Command
	ch             ssh.Channel
	out            sync.WaitGroup
	outErr, errErr error
}

// follow waits for the end of the command, and kills it when ctx ends.
func (x *execution) follow(ctx context.Context, reqs <-chan *ssh.Request) (ended, error) {
	cancelled := ctx.Done()
	var giveUp <-chan time.Time
	for {
		select {
		case r, ok := <-reqs:
			switch {
			case !ok:
				return ended{}, errors.Join(ErrClosed, ctx.Err())
			case r.Type == startedRequest:
				x.started()
			case r.Type == endedRequest:
				var end ended
				if err := json.Unmarshal(r.Payload, &end); err != nil {
					return ended{}, fmt.Errorf("reading the guest's answer: %w", err)
				}
				return end, nil
			}
		case <-cancelled:
			cancelled, giveUp = nil, time.After(killWait)
			_, _ = x.ch.SendRequest(signalRequest, false, ssh.Marshal(signalMessage{"KILL"}))
		case <-giveUp:
			return ended{}, fmt.Errorf("the guest did not confirm the kill in %s: %w", killWait, ctx.Err())
		}
	}
}

// started tells the caller, and only then lets the streams flow.
func (x *execution) started() {
	if x.cmd.Started != nil {
		x.cmd.Started()
	}
	if x.cmd.Stdin != nil {
		go func() {
			_, _ = io.Copy(x.ch, x.cmd.Stdin) // fails when the command ended first, which is no fault
			_ = x.ch.CloseWrite()
		}()
	} else if x.cmd.TTY != nil {
		_ = x.ch.CloseWrite() // a terminal is always open for input: say that none comes
	}
	copyOut := func(w io.Writer, r io.Reader, err *error, what string) {
		if w == nil {
			return
		}
		x.out.Go(func() {
			if _, e := io.Copy(w, r); e != nil {
				*err = fmt.Errorf("copying %s: %w", what, e)
				_, _ = io.Copy(io.Discard, r) // or the command would wait for us for ever
			}
		})
	}
	copyOut(x.cmd.Stdout, x.ch, &x.outErr, "standard output")
	copyOut(x.cmd.Stderr, x.ch.Stderr(), &x.errErr, "standard error")
}

// Setup does a Setup inside. The first thing that cannot be done fails it, and leaves what was done before.
func (c *Client) Setup(ctx context.Context, s Setup) error {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding the setup: %w", err)
	}
	if len(b) > maxSetupBytes {
		return enplace.TooLargef("the files of the setup have %d bytes in base64; the limit is %d", len(b), maxSetupBytes)
	}
	return c.call(ctx, setupChannel, b)
}

// KillAll kills every process but the guest, and returns when none is left. Commands that run end by signal KILL.
func (c *Client) KillAll(ctx context.Context) error { return c.call(ctx, killAllChannel, nil) }

// call sends a payload and waits for how it came out.
func (c *Client) call(ctx context.Context, channel string, payload []byte) error {
	ch, reqs, err := c.open(ctx, channel, payload)
	if err != nil {
		return err
	}
	defer ch.Close()
	end, err := (&execution{ch: ch}).follow(ctx, reqs)
	if err != nil {
		return err
	}
	return end.Error.err()
}

// open opens a channel with its payload.
func (c *Client) open(ctx context.Context, name string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	type opened struct {
		ch   ssh.Channel
		reqs <-chan *ssh.Request
		err  error
	}
	answer := make(chan opened, 1)
	go func() {
		ch, reqs, err := c.conn.OpenChannel(name, openData(payload))
		answer <- opened{ch, reqs, err}
	}()
	var o opened
	select {
	case o = <-answer:
	case <-ctx.Done():
		go func() { // a guest that answers late must not keep a channel that nobody reads
			if o := <-answer; o.err == nil {
				go ssh.DiscardRequests(o.reqs)
				_ = o.ch.Close()
			}
		}()
		return nil, nil, ctx.Err()
	}
	var refused *ssh.OpenChannelError
	switch {
	case errors.As(o.err, &refused) && refused.Reason == ssh.ResourceShortage:
		return nil, nil, enplace.Errorf(enplace.KindBusy, "%s", refused.Message)
	case errors.As(o.err, &refused):
		return nil, nil, fmt.Errorf("the guest refuses %s: %s", name, refused.Message)
	case o.err != nil:
		return nil, nil, fmt.Errorf("%w: %w", ErrClosed, o.err)
	}
	if len(payload) > maxOpenBytes {
		if _, err := o.ch.Write(payload[maxOpenBytes:]); err != nil && !errors.Is(err, io.EOF) {
			_ = o.ch.Close()
			return nil, nil, fmt.Errorf("%w: %w", ErrClosed, err)
		}
	}
	return o.ch, o.reqs, nil
}
