package faulttest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"enplace"
	"enplace/enplacetest"
)

// smallDisk gives the data of a server that has stopped a file system of its own with so many MiB. The base's image stays where
// it is.
func smallDisk(t *testing.T, srv *enplacetest.Server, mib int) {
	t.Helper()
	dir := t.TempDir()
	image, moved := filepath.Join(dir, "disk.img"), filepath.Join(dir, "moved")
	images := filepath.Join(srv.Data, "images", "sha256")
	bases, err := os.ReadDir(images)
	if err != nil || len(bases) != 1 {
		t.Fatalf("one base: %v, %v", bases, err)
	}
	base := bases[0].Name()
	do := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	do("truncate", "-s", fmt.Sprintf("%dM", mib), image)
	do("mkfs.ext4", "-q", "-m", "0", image)
	do("mkdir", moved)
	do("mount", "-o", "loop", image, moved)
	t.Cleanup(func() {
		srv.Stop()
		for _, at := range []string{filepath.Join(images, base), srv.Data} {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
				t.Errorf("unmounting %s: %v", at, err)
			}
		}
	})
	kept := filepath.Join(dir, base)
	do("mv", filepath.Join(images, base), kept)
	do("cp", "-a", srv.Data+"/.", moved)
	do("touch", filepath.Join(moved, "images", "sha256", base))
	do("mount", "--move", moved, srv.Data)
	do("mount", "--bind", kept, filepath.Join(images, base))
}

// filler takes all room of a file system, to the last block.
type filler struct {
	t    *testing.T
	path string
}

func (f filler) fill() {
	f.t.Helper()
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	var free unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &free); err != nil {
		f.t.Fatal(err)
	}
	_ = unix.Fallocate(int(file.Fd()), 0, 0, int64(free.Bavail)*free.Bsize*9/10) // the rest takes its time
	for size := 1 << 20; size >= 512; {
		_, err := file.Write(make([]byte, size))
		if err == nil {
			err = file.Sync()
		}
		switch {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			f.t.Fatal(err)
		}
	}
}

func (f filler) free() {
	f.t.Helper()
	if err := os.Remove(f.path); err != nil {
		f.t.Fatal(err)
	}
}

func noise(n int) []byte {
	b := make([]byte, n)
	src := rand.NewChaCha8([32]byte{1})
	_, _ = src.Read(b)
	return b
}

// TestFullDisk fills the disk to the last block while tasks and a build run. What is asked for is refused and says why, what was
// acknowledged stays, and once there is room again all goes on without a restart.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	srv := enplacetest.Start(t, "--disk-spare", "0")
	srv.Stop()
	smallDisk(t, srv, 192)
	srv.Restart()
	l := newLedger(t, "Full")
	for _, do := range []func(context.Context, *enplacetest.Server) error{l.create, l.importTar, l.build, l.task} {
		if err := do(ctx, srv); err != nil {
			t.Fatal(err)
		}
	}
	open, build := l.atWork(ctx, srv)
	ending := []string{ // all of them wait until they may go on
		l.waiting(ctx, srv, "head -c 20000000 /dev/zero > whole"),
		l.waiting(ctx, srv, "echo printed; head -c 1000 /dev/zero > whole"),
		l.waiting(ctx, srv, "head -c 1000 /dev/zero > whole"),
	}
	for _, id := range ending {
		if _, err := srv.Client.Exec(ctx, id, enplace.ExecRequest{Command: []string{"true"}}); err != nil {
			t.Fatal(err)
		}
	}
	f := filler{t, filepath.Join(srv.Data, "filler")}
	f.fill()
	for _, id := range ending {
		_, err := srv.Client.Exec(ctx, id, enplace.ExecRequest{Command: []string{"touch", "/tmp/go"}})
		if err != nil && !saysFull(err) && enplace.KindOf(err) != enplace.KindConflict { // one ends while it is told so
			t.Errorf("a command on a full disk: %v", err)
		}
	}
	acknowledged := l.refused(ctx, srv, f)
	l.readable(ctx, srv)
	f.free()
	for what, look := range acknowledged {
		if err := look(); err != nil {
			t.Errorf("%s was acknowledged on a full disk: %v", what, err)
		}
	}

	for _, id := range ending {
		l.wholeOrFailed(ctx, srv, id)
	}
	b, err := srv.Client.WaitBuild(ctx, l.env, build)
	if err != nil || b.Status == enplace.BuildFailed && !strings.Contains(b.Error.Message, "disk of the server is full") {
		t.Errorf("the build that ran: %+v %+v %v", b, b.Error, err)
	}
	if err := l.buildEnded(ctx, srv, b); err != nil {
		t.Error(err)
	}
	if r, err := srv.Client.Exec(ctx, open, enplace.ExecRequest{Command: []string{"sh", "-c", "cat note; echo more > more; sync; cat more"}}); err != nil || r.Stdout != "kept\nmore\n" {
		t.Errorf("the open task: %+v %v", r, err)
	}
	l.check(ctx, srv)
	if err := l.use(ctx, srv); err != nil {
		t.Errorf("with room again: %v", err)
	}

	srv.Stop()
	f.fill()
	l.startsOrSays(ctx, srv)
	f.free()
	srv.Restart()
	l.check(ctx, srv)
	if err := l.use(ctx, srv); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// saysFull reports whether an error tells that the disk is full.
func saysFull(err error) bool {
	return enplace.KindOf(err) == enplace.KindUnavailable && strings.Contains(err.Error(), "disk of the server is full")
}

// atWork gives an open task that has written a file, and a build in the middle of its check.
func (l *ledger) atWork(ctx context.Context, srv *enplacetest.Server) (task string, build int) {
	l.t.Helper()
	h, err := srv.Client.CreateHarness(ctx, enplace.CreateHarness{Name: "open", Environment: l.env})
	if err != nil {
		l.t.Fatal(err)
	}
	open, err := srv.Client.CreateTask(ctx, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: h.ID}})
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := srv.Client.Exec(ctx, open.ID, enplace.ExecRequest{Command: []string{"sh", "-c", "echo kept > note; sync"}}); err != nil {
		l.t.Fatal(err)
	}
	l.declared = []string{"sleep", "4"}
	if _, err := srv.Client.UpdateEnvironment(ctx, l.env, enplace.UpdateEnvironment{Check: &l.declared}); err != nil {
		l.t.Fatal(err)
	}
	b, err := srv.Client.StartBuild(ctx, l.env)
	if err != nil {
		l.t.Fatal(err)
	}
	l.started = append(l.started, b.N)
	if err := l.logged(ctx, srv, b.N, "$ sleep 4"); err != nil {
		l.t.Fatal(err)
	}
	return open.ID, b.N
}

// waiting starts a task that goes on with a command once /tmp/go is there.
func (l *ledger) waiting(ctx context.Context, srv *enplacetest.Server, command string) string {
	l.t.Helper()
	task, err := srv.Client.CreateTask(ctx, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: l.harness},
		Input: "until [ -e /tmp/go ]; do sleep 0.05; done\n" + command})
	if err != nil {
		l.t.Fatal(err)
	}
	return task.ID
}

// wholeOrFailed proves that a task which says that it succeeded has kept its file whole, and that one which does not says why.
func (l *ledger) wholeOrFailed(ctx context.Context, srv *enplacetest.Server, id string) {
	l.t.Helper()
	task, err := srv.Client.WaitTask(ctx, id)
	if err != nil {
		l.t.Errorf("the end of %s: %v", id, err)
		return
	}
	l.t.Logf("%s: %s %+v", id, task.Status, task.Error)
	if task.Status != enplace.TaskSucceeded {
		if task.Error.Reason != enplace.ReasonDisk || !strings.Contains(task.Error.Message, "disk of the server is full") {
			l.t.Errorf("%s: %+v", id, task.Error)
		}
		return
	}
	whole, err := readAll(srv.Client.OpenTaskFile(ctx, id, "whole"))
	if err != nil || len(whole) < 1000 || strings.Trim(whole, "\x00") != "" {
		l.t.Errorf("%s succeeded, and left %d bytes, %v", id, len(whole), err)
	}
}

// refused asks for everything that needs room. A record may find some: then it is to be there.
func (l *ledger) refused(ctx context.Context, srv *enplacetest.Server, f filler) (acknowledged map[string]func() error) {
	l.t.Helper()
	acknowledged = map[string]func() error{}
	answer := func(what string, err error, look func() error) {
		switch {
		case err == nil && look != nil:
			acknowledged[what] = look
		case !saysFull(err):
			l.t.Errorf("%s on a full disk: %v (%s)", what, err, enplace.KindOf(err))
		}
		f.fill() // what has ended meanwhile gave room
	}
	f.fill()
	_, _, err := srv.Client.PutFile(ctx, l.env, "big", bytes.NewReader(noise(1<<20)), false)
	answer("a file", err, nil)
	_, err = srv.Client.Import(ctx, l.env, tarOf(map[string]string{"x/big": string(noise(4 << 20)), "y": ""}), false)
	answer("an archive", err, nil)
	e, err := srv.Client.CreateEnvironment(ctx, enplace.CreateEnvironment{Name: "Another"})
	answer("an environment", err, func() error { _, err := srv.Client.Environment(ctx, e.ID); return err })
	h, err := srv.Client.CreateHarness(ctx, enplace.CreateHarness{Name: "another", Instructions: strings.Repeat("long ", 10_000)})
	answer("a harness", err, func() error { _, err := srv.Client.Harness(ctx, h.ID); return err })
	task, err := srv.Client.CreateTask(ctx, enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: l.harness}, Input: strings.Repeat("# long\n", 10_000)})
	answer("a task", err, func() error { _, err := srv.Client.WaitTask(ctx, task.ID); return err })
	k, err := srv.Client.CreateKey(ctx, enplace.CreateKey{Name: "another", Kind: enplace.KeyOperator})
	answer("a key", err, func() error { _, err := srv.As(k.Secret).Whoami(ctx); return err })
	return acknowledged
}

// readable reads what needs no room.
func (l *ledger) readable(ctx context.Context, srv *enplacetest.Server) {
	l.t.Helper()
	l.checkTree(ctx, srv)
	if _, err := srv.Client.Environment(ctx, l.env); err != nil {
		l.t.Error(err)
	}
	if _, err := srv.Client.ListTasks(ctx, enplace.TaskQuery{}, enplace.Page{}); err != nil {
		l.t.Error(err)
	}
	if _, err := readAll(srv.Client.BuildLog(ctx, l.env, 1)); err != nil {
		l.t.Error(err)
	}
}

// startsOrSays starts the server on a full disk: it is there to be read, or says what is wrong.
func (l *ledger) startsOrSays(ctx context.Context, srv *enplacetest.Server) {
	l.t.Helper()
	cmd := exec.CommandContext(ctx, filepath.Join(srv.Bin, "enplace"), "serve", "--data", srv.Data, "--listen", strings.TrimPrefix(srv.URL, "http://"), "--disk-spare", "0")
	ready := &seen{text: "msg=ready", yes: make(chan struct{})}
	var log bytes.Buffer
	cmd.Stderr = tee{ready, &log}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ready.yes:
		l.readable(ctx, srv)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		l.t.Log("it starts")
	case <-ended:
		if !strings.Contains(log.String(), "disk of the server is full") {
			l.t.Errorf("on a full disk it said:\n%s", &log)
		}
		l.t.Logf("it says %s", &log)
	}
}

func tarOf(files map[string]string) *bytes.Buffer {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for name, content := range files {
		_ = tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}) // to memory
		_, _ = tw.Write([]byte(content))
	}
	_ = tw.Close()
	return &b
}
