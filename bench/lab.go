package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"enplace/client"
	"enplace/enplacetest"
)

// lab is a temporary directory with the programs, a server and what the rows share.
type lab struct {
	dir    string
	quick  bool
	client *client.Client
	server *exec.Cmd
	began  string // the load at the start
	clock  string // the program that says when it began

	project project // made by the first row that needs it
	root    string  // the base mounted, for the others' runs
}

// open builds the programs and starts the server.
func open(ctx context.Context, quick bool) (_ *lab, err error) {
	if os.Getuid() != 0 {
		return nil, errors.New("the server and the runtimes that it is compared with need root")
	}
	// Not in /tmp: that may be memory, and disks are part of what is measured.
	dir, err := os.MkdirTemp("/var/tmp", "enplace-bench-")
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir, quick: quick, began: load(), clock: filepath.Join(dir, "clock")}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w%s", err, l.serverSaid())
			l.close()
		}
	}()
	if err := os.Chmod(dir, 0o711); err != nil { // ids that containers are mapped to pass through
		return nil, err
	}
	l.progress("building the programs")
	for _, build := range [][]string{
		{"-ldflags", "enplace/cmd/enplace-shim=-s -w -E main.first", "-o", dir + "/", "./cmd/enplace", "./cmd/enplace-guest", "./cmd/enplace-shim"},
		{"-ldflags", "-s -w -E main.first", "-o", l.clock, "./bench/clock"},
	} {
		cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath"}, build...)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building: %w\n%s", err, out)
		}
	}
	return l, l.serve(ctx)
}

// data is the server's directory.
func (l *lab) data() string { return filepath.Join(l.dir, "data") }

// serve starts the server on the base that tests share, if there is one; else it makes its own.
func (l *lab) serve(ctx context.Context) error {
	if err := l.linkBase(ctx); err != nil {
		return err
	}
	said, err := os.Create(filepath.Join(l.dir, "server.log"))
	if err != nil {
		return err
	}
	defer said.Close()
	l.server = exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(l.dir, "enplace"), "serve", "--data", l.data(), "--listen", "127.0.0.1:0")
	l.server.Stdout, l.server.Stderr = said, said
	if err := l.server.Start(); err != nil {
		return err
	}
	l.progress("starting the server; where there is no base yet this takes minutes")
	// The server says by two files where it listens and with which key, and then when it is ready.
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		if l.client == nil {
			l.client = l.connect()
		} else if l.client.Ready(ctx) == nil {
			return nil
		}
	}
	return errors.Join(errors.New("the server did not become ready"), ctx.Err())
}

func (l *lab) connect() *client.Client {
	address, err := os.ReadFile(filepath.Join(l.data(), "address"))
	if err != nil {
		return nil
	}
	key, err := os.ReadFile(filepath.Join(l.data(), "operator.key"))
	if err != nil {
		return nil
	}
	c, _ := client.New(client.Config{URL: "http://" + strings.TrimSpace(string(address)), Key: strings.TrimSpace(string(key))})
	return c
}

// linkBase gives the server the base that tests share, if there is one, by links.
func (l *lab) linkBase(ctx context.Context) error {
	shared := enplacetest.Dir()
	record, err := os.ReadFile(filepath.Join(shared, "base", "base.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, dir := range []string{"", "base", "images", "images/sha256"} {
		if err := os.MkdirAll(filepath.Join(l.data(), dir), 0o711); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(l.data(), "base", "base.json"), record, 0o600); err != nil {
		return err
	}
	from, err := filepath.Abs(filepath.Join(shared, "images/sha256"))
	if err != nil {
		return err
	}
	// cp shares blocks, links or copies, as the file systems allow.
	for _, how := range []string{"--link", "--reflink=auto"} {
		if err = exec.CommandContext(ctx, "cp", "-a", how, from, filepath.Join(l.data(), "images")).Run(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("linking the base: %w", err)
}

// close ends the server and removes the directory.
func (l *lab) close() {
	if l.server != nil && l.server.Process != nil {
		_ = l.server.Process.Signal(os.Interrupt)
		_ = l.server.Wait()
	}
	if l.root != "" {
		unmountRoot(l.root)
	}
	if err := os.RemoveAll(l.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench: removing the temporary directory:", err)
	}
}

// serverSaid gives the end of the server's log, for an error.
func (l *lab) serverSaid() string {
	b, err := os.ReadFile(filepath.Join(l.dir, "server.log"))
	if err != nil || len(b) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return "\nthe server said:\n" + strings.Join(lines[max(0, len(lines)-10):], "\n")
}

func (l *lab) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}

// times gives how often something is repeated.
func (l *lab) times(full, quick int) int {
	if l.quick {
		return quick
	}
	return full
}
