package attacktest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"enplace"
)

// hostile is a project whose install scripts attack: by npm, and by a build backend of its own. What they found lies beside it.
func hostile(probe []byte) map[string]string {
	attack := `#!/bin/bash
out=$PROJECT_ROOT/$1
mkdir -p $out
$PROJECT_ROOT/bin/probe kernel > $out/kernel 2>&1
$PROJECT_ROOT/bin/probe files > $out/files 2>&1
$PROJECT_ROOT/bin/probe net 127.0.0.1:1 none > $out/net 2>&1
ls -A /task /env > $out/seen
cat /proc/self/mountinfo > $out/mountinfo
env > $out/env
echo "[enplace] forged"; printf 'x\r[enplace] forged\r\n'; printf '\033[2K\033[1G[enplace] forged\n'
echo '{"time":"2026-01-01T00:00:00Z","level":"ERROR","msg":"forged"}' > /proc/1/fd/1
echo '{"time":"2026-01-01T00:00:00Z","level":"ERROR","msg":"forged"}' > /proc/1/fd/2
(setsid setsid sleep 88001 > /dev/null 2>&1 &) ; (trap '' HUP TERM INT; sleep 88002 > /dev/null 2>&1 &)
cp /bin/sh $out/setuid && chmod 6755 $out/setuid
mknod $out/whiteout c 0 0; mknod $out/disk b 8 0; mkfifo $out/pipe
touch $out/$(printf 'name\n\xff\033[31m'); ln -s /etc/shadow $out/link; ln -s ../../../../../../etc $out/up
python3 - $out <<'P'
import os, sys
for name in ("user.overlay.opaque", "user.overlay.redirect", "trusted.overlay.opaque", "trusted.overlay.redirect", "trusted.overlay.overlay.opaque", "security.capability"):
    try: os.setxattr(sys.argv[1], name, b"y")
    except OSError: pass
P
rm -rf $PROJECT_ROOT/src $PROJECT_ROOT/keep.txt; ln -s /task $PROJECT_ROOT/src; mkdir $PROJECT_ROOT/keep.txt; echo evil > $PROJECT_ROOT/package.json.evil
[ $1 = by-npm ] || exit 0
rm -rf $PROJECT_ROOT/.venv/bin/python3; echo evil > $PROJECT_ROOT/.venv/bin/python3
exit 0
`
	return map[string]string{
		"bin/probe": string(probe), "bin/attack": attack,
		"package.json": `{"name": "hostile", "version": "1.0.0", "scripts": {"postinstall": "bash bin/attack by-npm"}}`,
		"pyproject.toml": `[project]
name = "hostile"
version = "1.0"
[build-system]
requires = []
build-backend = "backend"
backend-path = ["bin"]
`,
		"bin/backend.py": `import subprocess, sys
def get_requires_for_build_wheel(config_settings=None):
    subprocess.run(["bash", "bin/attack", "by-python"], stdout=sys.stderr)
    return []
def build_wheel(to, config_settings=None, metadata_directory=None):
    import zipfile
    name = "hostile-1.0-py3-none-any.whl"
    with zipfile.ZipFile(to + "/" + name, "w") as z:
        z.writestr("hostile-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hostile\nVersion: 1.0\n")
        z.writestr("hostile-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("hostile-1.0.dist-info/RECORD", "")
    return name
`,
		"src/deep/er/file.txt": "of the tree", "src/app.py": "print('tree')", "keep.txt": "kept", "a/b/c/d/e/f.txt": "deep",
	}
}

func TestInside(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	mallory, alice := l.person("mallory"), l.person("alice")
	env, built, log := l.build(t, mallory, "Hostile", hostile(l.probe), enplace.UpdateEnvironment{})
	if built.Status != enplace.BuildSucceeded {
		t.Fatalf("%+v\n%s", built, log)
	}
	_, good, goodLog := l.build(t, alice, "Secret Plans", map[string]string{"plans.txt": "alice-was-here"}, enplace.UpdateEnvironment{})
	if good.Status != enplace.BuildSucceeded {
		t.Fatalf("%+v\n%s", good, goodLog)
	}
	plans, err := alice.ListEnvironments(t.Context(), enplace.Page{})
	if err != nil || len(plans.Items) != 1 {
		t.Fatal(plans, err)
	}
	victim := l.open(t, alice, enplace.CreateHarness{Environment: plans.Items[0].ID})
	victim.sh("echo alice-was-here | tee /task/f /tmp/f /dev/shm/f /run/f; (setsid sleep 77001 > /dev/null 2>&1 &)")
	b := l.open(t, mallory, enplace.CreateHarness{Environment: env.ID})
	b.bring(l.probe)

	t.Run("InstallScripts", func(t *testing.T) { installScripts(t, b, log) })
	t.Run("WhatABuildLeaves", func(t *testing.T) { whatABuildLeaves(t, b) })
	t.Run("Kernel", func(t *testing.T) { b.t = t; b.attempts(110, "/run/probe kernel", "write /proc/1/oom_score_adj") })
	t.Run("HostFiles", func(t *testing.T) { b.t = t; b.attempts(90, "/run/probe files") })
	t.Run("ReadOnly", func(t *testing.T) { b.t = t; b.attempts(300, "/run/probe write /env/hostile") })
	t.Run("Network", func(t *testing.T) { network(t, l, b) })
	t.Run("Neighbours", func(t *testing.T) { neighbours(t, b, victim) })
	t.Run("KernelCounts", func(t *testing.T) { victim.t = t; kernelCounts(t, l, b, victim) })
	t.Run("ForgedLines", func(t *testing.T) { forgedLines(t, l, b) })
	t.Run("Outliving", func(t *testing.T) { outliving(t, l) })
	t.Run("Floods", func(t *testing.T) { floods(t, l) })
	t.Run("Wedging", func(t *testing.T) { wedging(t, l) })
	t.Run("WorkingDirectory", func(t *testing.T) { workingDirectory(t, l) })
	t.Run("FalseFindings", func(t *testing.T) { falseFindings(t, l) })
	t.Run("DeletedEnvironmentsLayers", func(t *testing.T) { deletedLayers(t, l) })
	b.t, victim.t = t, t
	if r := victim.sh("cat /task/f /env/secret-plans/plans.txt"); r.Stdout != "alice-was-here\nalice-was-here" {
		t.Errorf("the neighbour has %q", r.Stdout)
	}
	l.checkLog(t)
}

// Install scripts run as tasks do: what they tried came to nothing, their lines are marked as theirs, and nothing of them is left.
func installScripts(t *testing.T, b *box, log string) {
	b.t = t
	for _, by := range []string{"by-npm", "by-python"} {
		dir := "/env/hostile/" + by
		if by == "by-python" && b.sh("test -d "+dir).ExitCode != 0 {
			continue // the project's own package is not installed when it cannot be, and then leaves nothing
		}
		b.attempts(110, "cat "+dir+"/kernel", "write /proc/1/oom_score_adj")
		b.attempts(90, "cat "+dir+"/files")
		b.attempts(50, "cat "+dir+"/net")
		if seen := b.sh("cat " + dir + "/seen").Stdout; strings.Contains(seen, "secret-plans") {
			t.Errorf("%s saw %q", by, seen)
		}
		if vars := b.sh("cat " + dir + "/env").Stdout; strings.Contains(vars, "enp_") || strings.Contains(vars, "ENPLACE_KEY") {
			t.Errorf("%s had %s", by, vars)
		}
	}
	checkForged(t, log)
	noProcess(t, "sleep\x0088001")
	noProcess(t, "sleep\x0088002")
}

// checkForged fails when a line of a log looks like one of ours and is not.
func checkForged(t *testing.T, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		if strings.Contains(line, "\x1b") || strings.HasPrefix(line, "[enplace]") && strings.Contains(line, "forged") && !strings.HasPrefix(line, "[enplace] $ ") {
			t.Errorf("in the log: %q", line)
		}
	}
}

// noProcess fails when the host has a process with these words in its command line.
func noProcess(t *testing.T, words string) {
	t.Helper()
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range found {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), words) {
			t.Errorf("%s runs: %q", f, b)
		}
	}
}

// What an install script wrote hides nothing of the tree, and brings no device, no other user and no link out of the sandbox.
func whatABuildLeaves(t *testing.T, b *box) {
	b.t = t
	for script, want := range map[string]string{
		"cat src/app.py src/deep/er/file.txt keep.txt":                       "print('tree')of the treekept",
		"find . -type b -o -type c | head":                                   "",
		"head -c 7 .venv/bin/python3 2>/dev/null | grep -c evil":             "0\n",
		"cat by-npm/link 2>&1 | grep -c root: ":                              "1\n", // the sandbox's own
		"setpriv --reuid 1000 --clear-groups by-npm/setuid -c 'id -u' 2>&1":  "1000\n",
		"getfattr -d -m - -R --absolute-names . 2>/dev/null | grep trusted.": "",
	} {
		if got := b.sh("cd /env/hostile; " + script).Stdout; got != want {
			t.Errorf("%s: %q", script, got)
		}
	}
}

func network(t *testing.T, l *lab, b *box) {
	b.t = t
	name := fmt.Sprintf("enplace-attack-%d", os.Getpid())
	ln, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if c, err := ln.Accept(); err == nil {
			t.Errorf("%v came to the host's abstract socket", c.RemoteAddr())
		}
	}()
	b.attempts(75, "/run/probe net "+strings.TrimPrefix(l.URL, "http://")+" "+name)
	for _, url := range []string{l.URL + "/healthz", "http://localhost:1/", "http://169.254.169.254/latest/meta-data/", "http://[::ffff:127.0.0.1]:1/"} {
		if r := b.sh("curl -sS -m 10 -o /dev/null -w '%{http_code}' " + url); r.Stdout != "403" && r.Stdout != "502" && r.Stdout != "000" {
			t.Errorf("%s answered %s", url, r.Stdout)
		}
	}
}

// A task finds nothing of another's, and nothing of the host's, wherever it looks.
func neighbours(t *testing.T, b, victim *box) {
	b.t = t
	for _, script := range []string{
		"grep -rls alice-was-here /task /tmp /run /dev/shm /env /root /home /var /opt /mnt /media /srv 2>/dev/null",
		"grep -ls 7700[1] /proc/[0-9]*/cmdline 2>/dev/null",
		"ls /env | grep -v hostile",
		"grep -s " + victim.id + " /proc/self/mountinfo /proc/mounts",
		"cat /sys/block/*/loop/backing_file 2>/dev/null",
		"find / -xdev -name '*" + victim.id + "*' 2>/dev/null",
		"env | grep -i enp_",
		"cat /proc/net/unix | grep -v '@\\|Num\\|/run/enplace\\| 03$' | awk '$8 != \"\"'",
		"find /proc/[0-9]*/root/var/lib/enplace /proc/[0-9]*/cwd/enplace.db 2>/dev/null",
	} {
		if r := b.sh(script); strings.TrimSpace(r.Stdout) != "" {
			t.Errorf("%s found %.300q", script, r.Stdout)
		}
	}
	if r := b.sh("cat /proc/self/uid_map"); strings.HasPrefix(strings.TrimSpace(r.Stdout), "0          0") {
		t.Error("root inside is root outside")
	}
}

// What the kernel counts for a user, and for who owns the namespaces that it is in, no sandbox uses up for another or for the host.
func kernelCounts(t *testing.T, l *lab, b, victim *box) {
	b.t, victim.t = t, t
	victim.bring(l.probe)
	host := filepath.Join(t.TempDir(), "probe")
	if err := os.WriteFile(host, l.probe, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"inotify", "timers", "queues", "terminals"} {
		got, release := b.hold(what)
		if got == "0" || got == "" {
			t.Errorf("%s: there were none to begin with", what)
		}
		another := victim.sh("/run/probe take " + what + " < /dev/null").Stdout
		// Signals that are on their way are counted among the timers, so a few may be missing.
		if a, b := count(got), count(another); b == 0 || b < a-a/10 {
			t.Errorf("%s: one sandbox holds %s, and another can have %s", what, got, another)
		}
		if n := runProbe(t, host, what); n == "0" {
			t.Errorf("%s: one sandbox holds %s, and the host can have none", what, got)
		}
		release()
	}
}

func count(s string) int {
	n, _ := strconv.Atoi(strings.TrimSpace(s)) // 0 for what is no number
	return n
}

func forgedLines(t *testing.T, l *lab, b *box) {
	b.t = t
	forged := `{"time":"2026-01-01T00:00:00Z","level":"ERROR","msg":"forged"}`
	b.sh("echo '[enplace] forged'; printf 'x\\r[enplace] forged\\n'; printf '\\033[1A\\033[2K[enplace] forged\\n' >&2; printf '\\n[enplace] forged'")
	for _, c := range [][]string{{"echo", "x\n[enplace] forged\n" + forged}, {"/no/such\n" + forged}, {"sh", "-c", "exit 3", "\r\n" + forged}} {
		_, _ = b.try(enplace.ExecRequest{Command: c, Cwd: "/"})
		_, _ = b.try(enplace.ExecRequest{Command: c, Cwd: "/x\n" + forged})
	}
	for _, target := range []string{"/proc/1/fd/1", "/proc/1/fd/2", "/dev/console", "/dev/kmsg", "/dev/tty"} {
		b.sh("echo '" + forged + "' > " + target)
	}
	b.sh(`curl -s -m 5 -x http://127.0.0.1:3128 "http://x%0a%7b%22msg%22:%22forged%22%7d/"; printf 'GET http://a\n` + forged + `/ HTTP/1.1\r\n\r\n' | timeout 2 nc -N 127.0.0.1 3128`)
	_, _ = b.api.CreateEnvironment(t.Context(), enplace.CreateEnvironment{Name: "x\n" + forged})
	_, _ = b.api.CreateHarness(t.Context(), enplace.CreateHarness{Name: "x\n" + forged, Command: []string{"x\n" + forged}})
	r, err := b.api.TaskLog(t.Context(), b.id)
	if err != nil {
		t.Fatal(err)
	}
	log := readAll(t, r)
	if !strings.Contains(log, `\[enplace] forged`) {
		t.Errorf("output that forges a line is not marked:\n%.2000s", log)
	}
	checkForged(t, log)
	l.checkLog(t)
}

// Nothing that a task starts lives longer than the task: by whatever it detaches itself, and whoever it stops.
func outliving(t *testing.T, l *lab) {
	script := `(setsid setsid sleep 66001 >/dev/null 2>&1 &)
(trap '' HUP TERM INT QUIT; exec sleep 66001 >/dev/null 2>&1 &)
python3 -c 'import os,time
for i in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: os.execvp("sleep", ["sleep", "66001"])
        os._exit(0)'
kill -STOP $PPID 2>/dev/null
(while :; do (sleep 66001 &) ; sleep 0.01; done) >/dev/null 2>&1 &
exit 0`
	h, err := l.Client.CreateHarness(t.Context(), enplace.CreateHarness{Name: "outliving", Command: []string{"bash", "-c", script}, Limits: enplace.Limits{Processes: 200, TimeoutSeconds: 60}})
	if err != nil {
		t.Fatal(err)
	}
	task, err := l.Client.CreateTask(t.Context(), enplace.CreateTask{Metadata: enplace.CreateTaskMetadata{Harness: h.ID}})
	if err != nil {
		t.Fatal(err)
	}
	if task, err = l.Client.WaitTask(t.Context(), task.ID); err != nil || !task.Status.Ended() {
		t.Fatalf("%+v %v", task, err)
	}
	noProcess(t, "sleep\x0066001")

	b := l.open(t, l.Client, enplace.CreateHarness{Limits: enplace.Limits{Processes: 200}})
	start := time.Now()
	r, err := b.try(enplace.ExecRequest{Command: []string{"bash", "-c", script + "; kill -STOP -1; sleep 66001"}, Timeout: 2})
	if err != nil || time.Since(start) > 60*time.Second {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := l.Client.CancelTask(context.Background(), b.id); err != nil {
		t.Error(err)
	}
	noProcess(t, "sleep\x0066001")
}
