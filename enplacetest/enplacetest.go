// Package enplacetest starts a real Enplace server in a temporary directory, in two lines:
//
//	srv := enplacetest.Start(t)
//	env, err := srv.Client.CreateEnvironment(ctx, enplace.CreateEnvironment{Name: "Content Studio"})
//
// It is a package of its own, and not a helper inside the tests of one, so that every package and every program that uses
// Enplace is tested against the same thing: the built binaries, in processes of their own, which can be killed. It knows the
// server by its command line and its API only.
package enplacetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"enplace/client"
)

// Variables that change where things are.
const (
	BinVar  = "ENPLACE_BIN"       // a folder with enplace, enplace-guest and enplace-shim to test, instead of building them
	DirVar  = "ENPLACE_TEST_DIR"  // where the base, and the servers' data, are kept; default DefaultDir
	ArgsVar = "ENPLACE_TEST_ARGS" // flags for every base and server, separated by spaces, such as --mirror=http://…
)

// DefaultDir keeps what tests share. Nothing above it may be closed to others, as a home directory often is: the users of
// sandboxes pass through.
const DefaultDir = "/var/cache/enplace-test"

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 40 * time.Second
)

// Server is a running server. Its methods are for one goroutine at a time; its fields change with Restart only.
type Server struct {
	URL    string
	Key    string         // of the operator
	Client *client.Client // with that key
	Data   string         // the data directory
	Bin    string         // the folder with the programs

	t    testing.TB
	args []string
	log  *serverLog
	proc *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// Start starts a server with a base in place, waits until tasks and builds can run, and ends it with the test; args are
// further flags of enplace serve. It ends the test when the host cannot run a server: skips it, or, where CI is set, fails it.
// What is notable in the server's log is shown when the test fails.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	bin, dir := prepared(t)
	data, err := newData(dir)
	if err != nil {
		t.Fatalf("making a data directory: %v", err)
	}
	s := &Server{t: t, Data: data, Bin: bin, args: append(extraArgs(), args...), log: &serverLog{}}
	t.Cleanup(s.cleanUp)
	s.Restart()
	return s
}

// Restart starts the server again after Kill or Stop, on the same data and, from the second time on, the same address.
func (s *Server) Restart() {
	s.t.Helper()
	if s.running() {
		s.Stop()
	}
	listen := "127.0.0.1:0"
	if s.URL != "" {
		listen = strings.TrimPrefix(s.URL, "http://")
	}
	started := s.log.expect()
	s.proc = exec.Command(filepath.Join(s.Bin, "enplace"), append([]string{"serve", "--data", s.Data, "--listen", listen, "--log-format", "json"}, s.args...)...)
	s.proc.Stdout, s.proc.Stderr = s.log, s.log
	s.proc.Env = append(os.Environ(), "ENPLACE_URL=", "ENPLACE_KEY=", "ENPLACE_DATA=")
	if err := s.proc.Start(); err != nil {
		s.t.Fatalf("starting the server: %v", err)
	}
	done := make(chan struct{})
	s.done = done
	go func(p *exec.Cmd) {
		_ = p.Wait() // how it ended is in its log
		close(done)
	}(s.proc)
	select {
	case address := <-started:
		s.connect(address)
	case <-done:
		s.t.Fatalf("the server ended before it was ready:\n%s", s.log)
	case <-time.After(startTimeout):
		s.t.Fatalf("the server was not ready after %s:\n%s", startTimeout, s.log)
	}
}

func (s *Server) connect(address string) {
	secret, err := os.ReadFile(filepath.Join(s.Data, "operator.key"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.URL, s.Key = "http://"+address, strings.TrimSpace(string(secret))
	s.Client = s.As(s.Key)
	if err := s.Client.Ready(context.Background()); err != nil {
		s.t.Fatalf("the server says that it is ready, and /readyz that it is not: %v", err)
	}
}

// As gives a client with another key.
func (s *Server) As(key string) *client.Client {
	c, err := client.New(client.Config{URL: s.URL, Key: key})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// Command gives a command line of enplace that speaks to the server as its operator.
func (s *Server) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.Bin, "enplace"), args...)
	cmd.Env = append(os.Environ(), "ENPLACE_URL="+s.URL, "ENPLACE_KEY="+s.Key)
	return cmd
}

// Kill ends the server as a loss of power would: by SIGKILL. What it ran may run on until it is started again.
func (s *Server) Kill() {
	_ = s.proc.Process.Kill() // it may have ended by itself
	<-s.done
}

// Stop asks the server to stop and waits until it has.
func (s *Server) Stop() {
	s.t.Helper()
	_ = s.proc.Process.Signal(syscall.SIGTERM) // likewise
	select {
	case <-s.done:
	case <-time.After(stopTimeout):
		s.Kill()
		s.t.Errorf("the server did not stop within %s", stopTimeout)
	}
}

// Log gives what the server has logged so far.
func (s *Server) Log() string { return s.log.String() }

func (s *Server) running() bool {
	if s.done == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// cleanUp leaves nothing running: a server that was killed is started once more, since it alone knows what it left.
func (s *Server) cleanUp() {
	if s.done != nil && !s.running() && s.proc.ProcessState.ExitCode() != 0 {
		s.Restart()
	}
	if s.running() {
		s.Stop()
	}
	if s.t.Failed() {
		s.t.Logf("of the server's log:\n%s", s.log.notable())
	}
	if err := os.RemoveAll(s.Data); err != nil {
		s.t.Errorf("removing the server's data: %v", err)
	}
}
