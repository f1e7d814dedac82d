package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"
	"golang.org/x/term"

	"enplace"
	"enplace/client"
)

func newTaskSSH(c *cli) *cobra.Command {
	var stdio bool
	cmd := &cobra.Command{
		Use:   "ssh TASK [-- COMMAND…]",
		Short: "Open a shell, or run a command, in a running task's sandbox over SSH",
		Long: `Open a shell in a running task's sandbox, on a terminal when this is one; or run a command there, word by word.
The exit status is the shell's or the command's.

With --stdio the connection itself is passed through, for ssh, scp, rsync and editors. In ~/.ssh/config:

  Host task_*
    User root
    ProxyCommand enplace task ssh --stdio %h
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null

Who may connect is the API's to say, and the connection comes through it: so there is no password, and the host
key, which each sandbox makes for itself, proves nothing.`,
		Example: `  enplace task ssh task_…
  enplace task ssh task_… -- tail -f /task/agent.log
  ssh -o ProxyCommand="enplace task ssh --stdio task_…" root@task
  rsync -e 'ssh -o ProxyCommand="enplace task ssh --stdio task_…"' -a root@task:/task/ ./results/`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeTasks(c, enplace.TaskRunning),
	}
	cmd.Flags().BoolVar(&stdio, "stdio", false, "pass the connection through standard input and output, for ProxyCommand")
	cmd.RunE = withTask(c, func(ctx context.Context, api *client.Client, id string, args []string) error {
		if stdio && len(args) > 0 {
			return usageError(cmd, "--stdio takes no command")
		}
		conn, err := api.DialSSH(ctx, id)
		if err != nil {
			return err
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		if stdio {
			return bridge(c, conn)
		}
		return remote(ctx, c, conn, args)
	})
	return cmd
}

// bridge copies both ways until the far end is done.
func bridge(c *cli, conn net.Conn) error {
	go func() {
		if _, err := io.Copy(conn, c.in); err != nil {
			conn.Close()
		}
	}()
	_, err := io.Copy(c.out, conn)
	return err
}

// remote runs a command, or a shell, at the other end of a connection.
func remote(ctx context.Context, c *cli, conn net.Conn, argv []string) error {
	sc, chans, reqs, err := ssh.NewClientConn(conn, "task", &ssh.ClientConfig{
		User:            "root",
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), //nolint:gosec // the connection comes through the API, which has said who both ends are
	})
	if err != nil {
		return fmt.Errorf("speaking SSH with the sandbox: %w", err)
	}
	far := ssh.NewClient(sc, chans, reqs)
	defer far.Close()
	session, err := far.NewSession()
	if err != nil {
		return fmt.Errorf("opening a session in the sandbox: %w", err)
	}
	defer session.Close()
	session.Stdin, session.Stdout, session.Stderr = c.in, c.out, c.err
	if in, ok := c.in.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		restore, err := terminal(session, in)
		if err != nil {
			return err
		}
		defer restore()
	}
	if len(argv) > 0 {
		err = session.Start(quoteWords(argv)) // SSH knows lines only; a shell at the other end reads these words back
	} else {
		err = session.Shell()
	}
	if err == nil {
		err = session.Wait()
	}
	var exit *ssh.ExitError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &exit):
		return statusError(exit.ExitStatus())
	case err != nil:
		return enplace.Errorf(enplace.KindUnavailable, "the connection to the sandbox ended before the command did; has the task ended?").WithCause(err)
	}
	return nil
}

// terminal gives the session a terminal like ours, which passes every key on until restore is called.
func terminal(session *ssh.Session, in *os.File) (restore func(), err error) {
	width, height, err := term.GetSize(int(in.Fd()))
	if err != nil {
		width, height = 80, 24
	}
	name := os.Getenv("TERM")
	if name == "" {
		name = "xterm-256color"
	}
	if err := session.RequestPty(name, height, width, ssh.TerminalModes{}); err != nil {
		return nil, fmt.Errorf("asking the sandbox for a terminal: %w", err)
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("setting this terminal: %w", err)
	}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	go func() {
		for range resized {
			if w, h, err := term.GetSize(int(in.Fd())); err == nil {
				_ = session.WindowChange(h, w) // a session that is over needs none
			}
		}
	}()
	return func() {
		signal.Stop(resized)
		close(resized)
		_ = term.Restore(int(in.Fd()), old) // there is no one left to tell
	}, nil
}
