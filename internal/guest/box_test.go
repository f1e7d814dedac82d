package guest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The variables by which this test binary knows that it is the start of a sandbox.
const (
	boxVar    = "ENPLACE_TEST_BOX"    // the guest's binary
	egressVar = "ENPLACE_TEST_EGRESS" // a unix socket of the host to show inside; may be empty
)

var guestBinary string

func TestMain(m *testing.M) {
	if os.Getenv(boxVar) != "" {
		fmt.Fprintln(os.Stderr, "starting the box:", enterBox())
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "enplace-guest-")
	if err != nil {
		panic(err)
	}
	guestBinary = filepath.Join(dir, "enplace-guest")
	build := exec.Command("go", "build", "-o", guestBinary, "enplace/cmd/enplace-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	for p, mode := range map[string]os.FileMode{dir: 0o711, guestBinary: 0o711} {
		if err := os.Chmod(p, mode); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// box is a sandbox in namespaces of its own, with the real guest as process 1 and the capabilities of a container.
type box struct {
	*Client
	t      testing.TB
	socket string
	cmd    *exec.Cmd
}

// newBox starts one; egress is a socket of the host's, or "".
func newBox(t testing.TB, egress string) *box {
	t.Helper()
	if os.Getuid() != 0 {
		skip(t, "needs root to make namespaces")
	}
	b := &box{t: t, socket: filepath.Join(t.TempDir(), "guest.sock")}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: b.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := ln.File()
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	_ = ln.Close()
	b.start(egress, f)
	b.meet(b.dial())
	return b
}

// start starts the box, whose guest gets the socket.
func (b *box) start(egress string, f *os.File) {
	t := b.t
	t.Helper()
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100000, Size: 65536}}
	b.cmd = exec.Command("/proc/self/exe")
	b.cmd.Env = []string{boxVar + "=" + guestBinary, egressVar + "=" + egress}
	b.cmd.ExtraFiles = []*os.File{f}
	b.cmd.Stderr = os.Stderr
	b.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Credential: &syscall.Credential{}, UidMappings: ids, GidMappings: ids, Pdeathsig: syscall.SIGKILL,
	}
	err := b.cmd.Start()
	_ = f.Close() // now only the guest holds it: when it dies, the dialler hears so
	if err != nil {
		skip(t, "cannot make namespaces: "+err.Error())
	}
	t.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
	})
}

// meet speaks to the guest over a connection.
func (b *box) meet(conn net.Conn) {
	b.t.Helper()
	c, err := Dial(context.Background(), conn)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Client = c
	b.t.Cleanup(func() { _ = c.Close() })
}

// skip skips a test for what the host lacks, which in CI is a fault.
func skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

func (b *box) dial() net.Conn {
	b.t.Helper()
	conn, err := net.Dial("unix", b.socket)
	if err != nil {
		b.t.Fatal(err)
	}
	return conn
}

// env is what the commands of the tests get, unless they say otherwise.
var env = []string{"PATH=/usr/bin:/bin", "HOME=/root", "LANG=C.UTF-8"}

// run runs a line of bash and gives what it printed on both streams.
func (b *box) run(line string) (string, Exit) {
	b.t.Helper()
	var out bytes.Buffer
	e, err := b.Exec(deadline(b.t), Command{Argv: []string{"bash", "-c", line}, Env: env, Dir: "/task", Stdout: &out, Stderr: &out})
	if err != nil {
		b.t.Fatalf("%s: %v", line, err)
	}
	return out.String(), e
}

// must runs a line that has to succeed.
func (b *box) must(line string) string {
	b.t.Helper()
	out, e := b.run(line)
	if e.Code != 0 {
		b.t.Fatalf("%s: %+v\n%s", line, e, out)
	}
	return out
}

// processes gives the command lines of all processes inside but the guest, its supervisors and the asking one.
func (b *box) processes() []string {
	b.t.Helper()
	out := b.must(`for p in /proc/[0-9]*; do n=${p#/proc/}; [ $n = 1 -o $n = $$ ] && continue
		s=$(sed 's/.*) //' $p/stat 2>/dev/null | cut -d' ' -f1) || continue
		{ c=$(tr '\0' ' ' <$p/cmdline); } 2>/dev/null
		case "$c" in "enplace-guest run "|"") [ "$s" = Z ] && echo "zombie $n $(cat $p/comm)";; *) echo "$c";; esac; done; true`)
	var list []string
	for l := range strings.Lines(out) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "bash -c for p in") {
			list = append(list, l)
		}
	}
	return list
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// enterBox runs as the first process of the new namespaces: it makes a root filesystem and becomes the guest.
func enterBox() error {
	runtime.LockOSThread()
	const root = "/mnt"
	var failed error
	step := func(what string, err error) {
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s: %w", what, err)
		}
	}
	mount := func(source, target, kind string, flags uintptr, data string) {
		step("mounting "+target, unix.Mount(source, root+target, kind, flags, data))
	}
	step("private", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	mount("tmpfs", "", "tmpfs", 0, "mode=755")
	for _, d := range []string{"usr", "etc", "dev/pts", "proc", "run/enplace", "task", "tmp", "env/ro", "env/leaky", "root", "opt"} {
		step("mkdir", os.MkdirAll(root+"/"+d, 0o755))
	}
	for _, l := range []string{"bin", "sbin", "lib", "lib64"} {
		step("link", os.Symlink("usr/"+l, root+"/"+l))
	}
	mount("/usr", "/usr", "", unix.MS_BIND|unix.MS_REC, "")
	files := map[string]string{os.Getenv(boxVar): "/opt/guest", "/dev/null": "/dev/null", "/dev/zero": "/dev/zero",
		"/dev/urandom": "/dev/urandom", "/dev/tty": "/dev/tty"}
	if s := os.Getenv(egressVar); s != "" {
		files[s] = "/run/enplace/egress.sock"
	}
	for from, to := range files {
		step("touch", os.WriteFile(root+to, nil, 0o600))
		mount(from, to, "", unix.MS_BIND, "")
	}
	mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666")
	step("ptmx", os.Symlink("pts/ptmx", root+"/dev/ptmx"))
	step("fd", os.Symlink("/proc/self/fd", root+"/dev/fd"))
	mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	for _, d := range []string{"/env/ro", "/env/leaky"} {
		mount("tmpfs", d, "tmpfs", 0, "mode=755")
		step("mkdir", os.MkdirAll(root+d+"/a/b/c", 0o755))
		step("file", os.WriteFile(root+d+"/a/b/file", []byte("x"), 0o644))
		if d == "/env/leaky" {
			mount("tmpfs", d+"/a/b/c", "tmpfs", 0, "mode=755")
		}
		mount("", d, "", unix.MS_REMOUNT|unix.MS_RDONLY, "mode=755")
	}
	step("chroot", unix.Chroot(root))
	step("chdir", unix.Chdir("/"))
	keep := map[uintptr]bool{unix.CAP_CHOWN: true, unix.CAP_DAC_OVERRIDE: true, unix.CAP_FSETID: true, unix.CAP_FOWNER: true, unix.CAP_MKNOD: true,
		unix.CAP_NET_RAW: true, unix.CAP_SETGID: true, unix.CAP_SETUID: true, unix.CAP_SETFCAP: true, unix.CAP_SETPCAP: true,
		unix.CAP_NET_BIND_SERVICE: true, unix.CAP_SYS_CHROOT: true, unix.CAP_KILL: true, unix.CAP_AUDIT_WRITE: true}
	step("loopback", loopbackUp()) // as the runtime does, which the guest could not without CAP_NET_ADMIN
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if !keep[c] {
			step("capability", unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0))
		}
	}
	step("no_new_privs", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	if failed != nil {
		return failed
	}
	return syscall.Exec("/opt/guest", []string{"enplace-guest", "init"}, nil)
}
