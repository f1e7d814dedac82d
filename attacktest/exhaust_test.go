package attacktest

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"enplace"
)

// runProbe has the host take what a sandbox may have used up.
func runProbe(t *testing.T, probe, what string) string {
	t.Helper()
	out, err := exec.Command(probe, "take", what).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// A sandbox that fills whatever it can comes to its own limits. The host, the server and the others go on.
func floods(t *testing.T, l *lab) {
	b := l.open(t, l.Client, enplace.CreateHarness{Limits: enplace.Limits{DiskMiB: 128, MemoryMiB: 256, Processes: 64}})
	before := free(t, l.Data)
	for name, script := range map[string]string{
		"disk":      "dd if=/dev/urandom of=/task/full bs=1M; dd if=/dev/urandom of=/var/full bs=1M; dd if=/dev/zero of=/root/more bs=1M; rm -f /task/full /var/full",
		"files":     "cd /task; seq 1 60000 | xargs touch; rm -rf /task/*",
		"tmpfs":     "dd if=/dev/zero of=/run/full bs=1M; dd if=/dev/zero of=/dev/full2 bs=1M; dd if=/dev/zero of=/sys/fs/cgroup/full bs=1M count=2000; dd if=/dev/zero of=/dev/shm/full bs=1M; rm -f /run/full /dev/shm/full /sys/fs/cgroup/full",
		"memory":    "python3 -c 'x = bytearray(8 << 30)'; python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'",
		"processes": "f() { f | f & }; f; sleep 3",
		"pipes": `python3 -c 'import os,fcntl
p=[]
try:
    while True:
        r, w = os.pipe(); p.append((r, w)); os.set_blocking(w, False); os.write(w, b"x" * 65536)
except OSError as e: print(e)'`,
		"attributes": `cd /task; for i in $(seq 1 200); do setfattr -n user.x$i -v $(head -c 3000 /dev/zero | tr '\0' x) . 2>/dev/null; done`,
		"sparse":     "truncate -s 1T /task/sparse; dd if=/dev/zero of=/task/sparse bs=1 count=1 seek=900G conv=notrunc; rm /task/sparse",
	} {
		_, err := b.try(enplace.ExecRequest{Command: []string{"bash", "-c", "(" + script + ") > /dev/null 2>&1"}, Timeout: 20})
		if kind := enplace.KindOf(err); err != nil && kind != enplace.KindBusy && kind != enplace.KindConflict {
			t.Errorf("%s: %v", name, err)
		}
		if kind := enplace.KindOf(err); kind == enplace.KindConflict { // process 1 may be what the kernel chose to kill
			b = l.open(t, l.Client, enplace.CreateHarness{Limits: enplace.Limits{DiskMiB: 128, MemoryMiB: 256, Processes: 64}})
		}
		if err := l.Client.Ready(t.Context()); err != nil {
			t.Errorf("%s: the server is not ready: %v", name, err)
		}
	}
	if used := (before - free(t, l.Data)) >> 20; used > 600 {
		t.Errorf("the host has %d MiB less", used)
	}
	if n := runOpen(t, l, "echo on"); n != "on\n" {
		t.Errorf("another task says %q", n)
	}
}

func free(t *testing.T, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

func runOpen(t *testing.T, l *lab, script string) string {
	t.Helper()
	b := l.open(t, l.Client, enplace.CreateHarness{})
	return b.sh(script).Stdout
}

// Whatever a command does to what serves it, a call has an end, and so has the task.
func wedging(t *testing.T, l *lab) {
	b := l.open(t, l.Client, enplace.CreateHarness{Limits: enplace.Limits{Processes: 128}})
	for name, in := range map[string]enplace.ExecRequest{
		"a flood":           {Command: []string{"timeout", "2", "yes", strings.Repeat("y", 1000)}},
		"tiny writes":       {Command: []string{"timeout", "2", "python3", "-c", "import os\nwhile True: os.write(1, b'.'); os.write(2, b'\\n')"}},
		"no line end":       {Command: []string{"sh", "-c", "timeout 2 cat /dev/zero | tr '\\0' x"}},
		"noise":             {Command: []string{"timeout", "2", "cat", "/dev/urandom"}},
		"redraws":           {Command: []string{"sh", "-c", "timeout 2 yes | tr '\\n' '\\r'"}},
		"closed streams":    {Command: []string{"sh", "-c", "exec 0<&- 1>&- 2>&-; sleep 1"}},
		"a held stream":     {Command: []string{"sh", "-c", "sleep 1000 & echo done"}},
		"killed all":        {Command: []string{"sh", "-c", "kill -9 -1"}},
		"stopped all":       {Command: []string{"sh", "-c", "kill -STOP -1; sleep 100"}, Timeout: 2},
		"no descriptors":    {Command: []string{"bash", "-c", "ulimit -n 3; exec cat /dev/null"}},
		"a lost directory":  {Command: []string{"sh", "-c", "mkdir /task/x; cd /task/x; rmdir /task/x; pwd"}},
		"a terminal storm":  {Command: []string{"python3", "-c", "import pty, os\nfor _ in range(200):\n    try: os.openpty()\n    except OSError: break\nprint('full')"}},
		"a pipe for a file": {Command: []string{"sh", "-c", "rm -f /run/enplace/env; mkfifo /run/enplace/env; mv /usr/bin/env /usr/bin/env2"}},
		"proxy connections": {Command: []string{"python3", "-c", "import socket\ns=[]\nfor _ in range(700):\n    try:\n        c=socket.create_connection(('127.0.0.1',3128),1); s.append(c)\n    except OSError: break\nprint(len(s))"}},
	} {
		in.Timeout = max(in.Timeout, 20)
		start := time.Now()
		if _, err := b.try(in); err != nil && enplace.KindOf(err) == enplace.KindInternal {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(start); took > 45*time.Second {
			t.Errorf("%s: the answer took %s", name, took)
		}
		if r := b.sh("echo alive"); r.Stdout != "alive\n" {
			t.Errorf("%s: after it the sandbox says %+v", name, r)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if task, err := l.Client.CancelTask(ctx, b.id); err != nil || !task.Status.Ended() {
		t.Errorf("%+v %v", task, err)
	}
	if n := memory(t, l); n > 1<<30 {
		t.Errorf("the server holds %d MiB", n>>20)
	}
}

// memory gives what the server has of memory, in bytes.
func memory(t *testing.T, l *lab) int64 {
	t.Helper()
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range found {
		b, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(b), l.Data) || !strings.Contains(string(b), "serve") {
			continue
		}
		statm, err := os.ReadFile(filepath.Join(filepath.Dir(f), "statm"))
		if err != nil {
			t.Fatal(err)
		}
		pages, err := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return pages * int64(os.Getpagesize())
	}
	t.Fatal("the server's process is not to be found")
	return 0
}

// The server lists, reads and archives a working directory that fights it: it follows nothing, waits for nothing, and holds little.
func workingDirectory(t *testing.T, l *lab) {
	b := l.open(t, l.Client, enplace.CreateHarness{})
	secret := filepath.Join(l.Data, "operator.key")
	r := b.sh(`cd /task; mkdir real; echo inside > real/f; echo inside > file
ln -s ` + l.Data + ` data; ln -s ` + secret + ` key; ln -s /proc/self/root root; ln -s / slash; ln -s ../../../../../../../../../.. up; ln real/f hard
mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'; mknod out c 0 0; truncate -s 1T sparse
touch "$(printf 'a\nb')" "$(printf 'c\xff\xfe')" "$(printf '\033[31m')" -- '-rf' '...' '%2e%2e' ' '
python3 - <<'P'
import os
os.makedirs("/task/deep"); os.chdir("/task/deep")
for _ in range(10000): os.mkdir("d"); os.chdir("d")
open("end", "w").close()
os.makedirs("/task/wide"); os.chdir("/task/wide")
for j in range(4):
    open("f%d" % j, "w").close()
    for i in range(50000): os.link("f%d" % j, "%d-%d" % (j, i))
P
cat > /tmp/swap.py <<'P'
import os, ctypes
libc = ctypes.CDLL(None)
os.makedirs("/task/s/dir"); open("/task/s/dir/f", "w").write("inside"); os.symlink("` + l.Data + `", "/task/s/link")
os.symlink("` + secret + `", "/task/s/key"); open("/task/s/f", "w").write("inside")
while True:
    libc.syscall(316, -100, b"/task/s/dir", -100, b"/task/s/link", 2)
    libc.syscall(316, -100, b"/task/s/f", -100, b"/task/s/key", 2)
P
(setsid python3 /tmp/swap.py > /dev/null 2>&1 &)`)
	if r.ExitCode != 0 {
		t.Fatalf("%+v", r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	all, cursor := map[string]enplace.WorkFile{}, ""
	for page := 0; ; page++ {
		list, err := l.Client.ListTaskFiles(ctx, b.id, enplace.Page{Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list.Items {
			all[f.Path] = f
		}
		if cursor = list.Next; cursor == "" {
			break
		}
		if page > 20 {
			t.Fatal("the pages do not end")
		}
	}
	if len(all) < 200_000 || all["pipe"].Type != "other" || all["key"].Type != "link" || all["real/f"].Type != "file" {
		t.Errorf("%d entries; %+v %+v", len(all), all["pipe"], all["key"])
	}
	key, err := os.ReadFile(secret)
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		for _, p := range []string{"key", "data/operator.key", "root/etc/shadow", "slash/etc/shadow", "up/etc/shadow", "pipe", "sock", "out", "s/dir/operator.key", "s/f", "s/dir/f", "s/link/operator.key"} {
			f, err := l.Client.OpenTaskFile(ctx, b.id, p)
			if err != nil {
				if kind := enplace.KindOf(err); kind != enplace.KindNotFound && kind != enplace.KindInvalid && kind != enplace.KindBusy {
					t.Fatalf("%s: %v", p, err)
				}
				continue
			}
			if text := readAll(t, f); text != "inside" {
				t.Fatalf("%s: %.100q", p, text)
			}
		}
	}
	archiveInto(t, l, b, string(key))
}

// archiveInto reads the archive up to the sparse file, and looks for what must not be in it.
func archiveInto(t *testing.T, l *lab, b *box, key string) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	a, err := l.Client.TaskArchive(ctx, b.id)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	part, err := io.ReadAll(io.LimitReader(a, 64<<20))
	if err != nil && ctx.Err() == nil {
		t.Error(err)
	}
	if strings.Contains(string(part), strings.TrimSpace(key)) {
		t.Error("the server's key is in the archive")
	}
	if n := memory(t, l); n > 1<<30 {
		t.Errorf("the server holds %d MiB", n>>20)
	}
}

// An environment that gets the path of a deleted one gets nothing that the other's builds left.
func deletedLayers(t *testing.T, l *lab) {
	packages := enplace.UpdateEnvironment{Packages: &enplace.PackageLists{Pip: &[]string{"iniconfig==2.0.0"}, NPM: &[]string{"ms@2.1.3"}}}
	e, first, log := l.build(t, l.person("before"), "Same Name", nil, packages)
	if first.Status != enplace.BuildSucceeded {
		if os.Getenv("CI") != "" {
			t.Fatalf("the registries cannot be reached:\n%s", log)
		}
		t.Skipf("the registries cannot be reached:\n%s", log)
	}
	if err := l.Client.DeleteEnvironment(t.Context(), e.ID); err != nil {
		t.Fatal(err)
	}
	_, second, log := l.build(t, l.person("after"), "Same Name", nil, packages)
	if strings.Contains(log, "taken from") {
		t.Errorf("it took packages that another's environment left:\n%s", log)
	}
	for _, s := range second.Steps {
		if s.Cached && (s.Name == enplace.StepPython || s.Name == enplace.StepNPM || s.Name == enplace.StepCheck) {
			t.Errorf("the step %s was not run: it took what another's environment left", s.Name)
		}
	}
	if b, err := json.Marshal(second); second.Status != enplace.BuildSucceeded || err != nil {
		t.Errorf("%s %v", b, err)
	}
}
