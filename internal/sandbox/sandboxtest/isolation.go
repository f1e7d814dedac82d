package sandboxtest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"enplace"
	"enplace/internal/sandbox"
)

// Root inside has what containers have by default, and the system calls that lead out are closed to it.
func testPrivileges(t *testing.T, h Harness) {
	b := h.Start(t, h.Spec("privileges"))
	want(t, b, "grep -E '^(CapEff|CapBnd|CapPrm|CapInh|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr '\\t' ' '", strings.Join([]string{
		"CapInh: 0000000000000000", "CapPrm: 00000000a80425fb", "CapEff: 00000000a80425fb", "CapBnd: 00000000a80425fb",
		"CapAmb: 0000000000000000", "NoNewPrivs: 1", "Seccomp: 2"}, "\n"))
	for _, attempt := range []string{"keyctl", "bpf", "perf", "io_uring", "userns", "mountns", "open_tree"} {
		refused(t, b, "probe "+attempt, "operation not permitted", "function not implemented")
	}
	refused(t, b, "probe clone3", "function not implemented") // any other answer, and C libraries make no threads
	refused(t, b, "mount -t tmpfs none /mnt || mount -t tmpfs none /tmp", "permission denied", "not permitted")
	refused(t, b, "mount --bind /task /env", "permission denied", "not permitted")
	refused(t, b, "unshare -Ur true", "not permitted")
	refused(t, b, "chroot /task true; swapon /task; reboot -f; echo no", "no")
	if owner := outside(t, h, b); owner < 65536 {
		t.Errorf("what root inside makes belongs to %d outside", owner)
	}
}

func testKernelFiles(t *testing.T, h Harness) {
	b := h.Start(t, h.Spec("kernelfiles"))
	for _, path := range []string{"/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger", "/proc/irq/x", "/sys/x"} {
		refused(t, b, "echo 1 > "+path, "read-only file system", "permission denied", "not permitted", "nonexistent", "input/output error")
	}
	for _, path := range []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug"} {
		want(t, b, "if [ -e "+path+" ]; then cat "+path+"; fi", "")
	}
	want(t, b, "ls -A /sys/firmware", "")
	refused(t, b, "if [ -d /sys/fs/cgroup/memory ]; then cd /sys/fs/cgroup/memory; else cd /sys/fs/cgroup; fi; mkdir x", "read-only file system", "can't create", "not permitted")
}

func testDevices(t *testing.T, h Harness) {
	b := h.Start(t, h.Spec("devices"))
	refused(t, b, "mknod /task/disk b 254 0", "not permitted")
	refused(t, b, "mknod /task/mem c 1 1", "not permitted")
	want(t, b, "find /dev -type b", "")
	want(t, b, "cd /dev; for d in full null random tty urandom zero; do [ -c $d ] || echo $d; done; echo x > null; head -c 2 zero | wc -c", "2")
	for _, d := range []string{"kmsg", "mem", "fuse", "loop-control", "kvm"} {
		if d == "fuse" && h.Runtime.Abilities().OwnKernel {
			t.Log("/dev/fuse is not looked for: it is that of the sandbox's own kernel")
			continue
		}
		want(t, b, "[ ! -e /dev/"+d+" ] && echo none", "none")
	}
}

// Two sandboxes see nothing of each other, and have no ids in common.
func testNeighbours(t *testing.T, h Harness) {
	a, b := h.Start(t, h.Spec("neighbour-a")), h.Start(t, h.Spec("neighbour-b"))
	want(t, a, "echo secret | tee /task/f /tmp/f /f /dev/shm/f /run/f; (sleep 7321 &)", "secret")
	want(t, b, "ls /task/f /tmp/f /f /dev/shm/f /run/f 2>/dev/null || true", "")
	want(t, b, "ps | grep '[s]leep' || true", "")
	want(t, a, "mv /env /env2 && mkdir -p /env/x && ls -d /env2", "/env2")
	want(t, b, "ls -d /env /env2 2>/dev/null || true", "/env")
	if x, y := outside(t, h, a), outside(t, h, b); x == y || x < 65536 || y < 65536 {
		t.Errorf("root is %d and %d outside", x, y)
	}
}

// outside gives the id that root of a sandbox has on the host.
func outside(t *testing.T, h Harness, b sandbox.Sandbox) uint32 {
	t.Helper()
	sh(t, b, "touch made")
	w, err := h.Runtime.Work(t.Context(), b.ID())
	check(t, err)
	defer w.Close()
	st, err := w.Root.Lstat("made")
	check(t, err)
	return st.Sys().(*syscall.Stat_t).Uid
}

// There is no way out but the proxy.
func testNetwork(t *testing.T, h Harness) {
	b := h.Start(t, h.Spec("network"))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer ln.Close()
	name := fmt.Sprintf("enplace-sandboxtest-%d", os.Getpid())
	abstract, err := net.Listen("unix", "@"+name)
	check(t, err)
	defer abstract.Close()
	want(t, b, "tail -n +3 /proc/net/dev | cut -d : -f 1", "lo")
	want(t, b, "tail -n +2 /proc/net/route", "")
	refused(t, b, "probe dial "+ln.Addr().String(), "connection refused")
	refused(t, b, "probe dial 192.0.2.1:80", "network is unreachable")
	refused(t, b, "probe abstract "+name, "connection refused")
	want(t, b, "ping -c 1 -W 1 127.0.0.1 >/dev/null && echo up", "up")
}

func testEgress(t *testing.T, h Harness) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer srv.Close()
	fetch := "wget -q -O - " + srv.URL
	s := h.Spec("egress-none")
	b := h.Start(t, s)
	if r := sh(t, b, fetch); r.Code == 0 {
		t.Errorf("policy none let %q through", r.out)
	}
	stats, err := b.Stats(t.Context())
	check(t, err)
	if !slices.Contains(stats.Refused, "127.0.0.1") {
		t.Errorf("refused: %v", stats.Refused)
	}
	s.ID, s.Egress = "egress-allowlist", enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: []string{"127.0.0.1"}}
	b = h.Start(t, s)
	want(t, b, fetch, "hello")
	stats, err = b.Stats(t.Context())
	check(t, err)
	if len(stats.Refused) > 0 {
		t.Errorf("refused: %v", stats.Refused)
	}
	if r := sh(t, b, "wget -q -O - http://example.org/"); r.Code == 0 {
		t.Error("a host that is not listed was let through")
	}
}
