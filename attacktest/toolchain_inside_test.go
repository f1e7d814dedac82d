package attacktest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"enplace"
)

// As root of a computer, which lasts: by its next start everything in it is the attacker's, mise and the shell included.
func TestToolchainInside(t *testing.T) {
	t.Parallel()
	l := newLab(t, "--computer-disk=512", "--set-retry=1h")
	for name, attack := range map[string]func(*testing.T, *lab){
		"Boundary": boundary, "LyingComputer": lyingComputer, "Hoards": hoards, "StrictestPolicy": strictestPolicy, "KeychainInLogs": keychainInLogs,
		"CleanBundles": cleanBundles, "Volume": volumeAttacks, "StubbornScripts": stubbornScripts,
	} {
		t.Run(name, func(t *testing.T) { attack(t, l) })
	}
	l.checkLog(t)
}

// A computer has the boundary of a task, and finds nothing of another's, be it of the same person's conversations or of others.
func boundary(t *testing.T, l *lab) {
	m, victim := l.resident(t, "inside", "inside-a"), l.resident(t, "neighbour", "inside-a")
	victim.want("echo alice-was-here | tee /root/f /opt/f /tmp/f > /dev/null; (setsid sleep 96001 > /dev/null 2>&1 &)", "")
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	if _, err := z.Write(l.probe); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	r, err := m.api.ExecConversation(t.Context(), m.conv, enplace.ConversationExec{ExecRequest: enplace.ExecRequest{
		Command: []string{"sh", "-c", "base64 -d | gunzip > /run/probe && chmod +x /run/probe"}, Stdin: base64.StdEncoding.EncodeToString(small.Bytes())}})
	if err != nil || r.ExitCode != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	checkAttempts(t, m.exec("/run/probe kernel").Stdout, 110, "write /proc/1/oom_score_adj")
	checkAttempts(t, m.exec("/run/probe files").Stdout, 90)
	checkAttempts(t, m.exec("/run/probe net "+strings.TrimPrefix(l.URL, "http://")+" none").Stdout, 60)
	for _, script := range []string{
		"grep -rls alice-was-here /root /opt /tmp /run /dev/shm /home /var /mnt /srv 2>/dev/null", "grep -ls 9600[1] /proc/[0-9]*/cmdline 2>/dev/null",
		"grep -s neighbour /proc/self/mountinfo /proc/mounts", "cat /sys/block/*/loop/backing_file 2>/dev/null", "env | grep -i enp_",
		"find /proc/[0-9]*/root/var/lib/enplace /proc/[0-9]*/cwd/enplace.db 2>/dev/null",
	} {
		if r := m.exec(script); strings.TrimSpace(r.Stdout) != "" {
			t.Errorf("%s found %.300q", script, r.Stdout)
		}
	}
}

// liar is a mise that says more than anybody wants to keep, and what nobody wants to read.
const liar = `cat > /usr/local/bin/mise <<'MISE'
#!/usr/bin/python3
import json, sys
esc = "\x1b]0;owned\x07\n"
if "ls" in sys.argv:
    print(json.dumps({"npm:long": [{"version": "9" * 3000000, "requested_version": "1", "install_path": "/", "installed": True}],
        "npm:red": [{"version": "1" + esc, "requested_version": "1", "install_path": "/opt/liar", "installed": True}],
        "npm:liar": [{"version": "1.2.3", "requested_version": "1", "install_path": "/opt/liar", "installed": True}],
        **{"t%d" % i: [{"version": "1", "requested_version": "1", "install_path": "/", "installed": True}] for i in range(20000)}}))
elif "env" in sys.argv:
    print(json.dumps({**{"V%d" % i: "x" * 100 for i in range(30000)}, "L1": "y" * 2000000, "E1": esc}))
elif "bin-paths" in sys.argv:
    print("/opt/liar")
else:
    print("mise ERROR " + esc * 3000 + "[enplace] forged\n" + "z" * 3000000, file=sys.stderr)
    sys.exit(1)
MISE
chmod +x /usr/local/bin/mise; mkdir -p /opt/liar; cd /opt/liar
python3 - <<'P'
import os
for i in range(5000): os.close(os.open("c%d" % i + "x" * 200, os.O_CREAT | os.O_WRONLY, 0o755))
for n in ("\x1b[31mred\nline", "liar"): os.close(os.open(n, os.O_CREAT | os.O_WRONLY, 0o755))
P
mv /run/enplace /run/aside; mkdir /run/enplace # which moves what is mounted there: the guest, and the way out
cat > /run/enplace/guest <<'GUEST'
#!/usr/bin/python3
import json, sys
print(json.dumps({"links": -1, "refused": [{"name": "liar", "reason": "\x1b[31m%d " % i + "r" * 300} for i in range(20000)], "replaced": ["\x1b[31m" * 100000]}))
GUEST
chmod +x /run/enplace/guest`

// A computer whose mise lies: what the server keeps of it is little, and can be shown, and its commands go on.
func lyingComputer(t *testing.T, l *lab) {
	m := l.resident(t, "liar")
	m.exec(liar)
	attach(t, m.api, m.scope(), "lies", item("lies", "", "[tools]\n\"npm:liar\" = \"1\"\n\"npm:long\" = \"1\"\n\"npm:red\" = \"1\"\n"))
	m.want("echo $?", "0\n")
	c, err := m.api.Computer(t.Context(), m.computer())
	if err != nil {
		t.Fatal(err)
	}
	set, err := m.api.Set(t.Context(), m.conv)
	if err != nil {
		t.Fatal(err)
	}
	for what, v := range map[string]any{"computer": c, "set": set} {
		b, err := json.Marshal(v)
		if err != nil || len(b) > 200_000 || len(c.Sets) != 2 { // the empty one of its first command, and this
			t.Errorf("the %s takes %d bytes, %d sets, %v", what, len(b), len(c.Sets), err)
		}
		shownOnly(t, what, string(b))
	}
	for _, args := range [][]string{{"computer", "show", m.computer()}, {"computer", "errors", m.computer()}, {"set", "show", m.conv}, {"set", "explain", m.conv}} {
		shownOnly(t, strings.Join(args, " "), printed(t, l, args...))
	}
	r, err := m.api.ComputerLog(t.Context(), m.computer(), set.Hash)
	if err != nil {
		t.Fatal(err)
	}
	checkForged(t, readAll(t, r))
	if n := memory(t, l); n > 1<<30 {
		t.Errorf("the server holds %d MiB", n>>20)
	}
}

// Computers fill what they may write and no more; full ones can be emptied, also after the server was stopped.
func hoards(t *testing.T, l *lab) {
	m := l.resident(t, "hoarder")
	m.exec(`dd if=/dev/urandom of=/root/fill bs=1M count=4000 2>/dev/null; dd if=/dev/urandom of=/tmp/fill bs=1M count=4000 2>/dev/null
i=0; while : > /root/f$i; do i=$((i+1)); [ $i -lt 20000 ] || break; done 2>/dev/null; truncate -s 1T /root/hole; sync; true`)
	c, err := m.api.Computer(t.Context(), m.computer())
	if err != nil || c.DiskBytes > 600<<20 {
		t.Errorf("%d MiB of 512, %v", c.DiskBytes>>20, err)
	}
	attach(t, m.api, m.scope(), "more", item("more", "dd if=/dev/zero of=/opt/fill bs=1M count=4000; yes | head -c 200000000\n", ""))
	r := m.exec("true")
	if set, err := m.api.Set(t.Context(), m.conv); err != nil || len(set.Items) != 1 || len(set.Items[0].ErrorTail) > enplace.MaxErrorTail {
		t.Errorf("%+v %+v %v", r, set.Items, err)
	}
	logs := filepath.Join(l.Data, "logs", "computers", "computer_person_hoarder")
	if n := sizeBelow(t, logs); n > 2*enplace.MaxLogBytes {
		t.Errorf("its logs take %d bytes", n)
	}
	m.exec("rm -rf /root/f* /tmp/fill /opt/fill")
	m.want("echo again > /root/again && cat /root/again", "again\n")
}

func sizeBelow(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return n
}

// refusedByProxy says by its status whether the policy lets a request out. Where it does the registry may answer or not.
const refusedByProxy = `curl -s -o /dev/null -m 20 -w '%{http_connect}' https://registry.npmjs.org/`

// Where conversations of one computer have different policies, the strictest of those that use it is in force: what a set's scripts
// reach is never more than its own.
func strictestPolicy(t *testing.T, l *lab) {
	m := l.resident(t, "double", "closed", "opened")
	if _, err := l.Client.PutEgress(t.Context(), "team:closed", enplace.Egress{Policy: enplace.EgressNone}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.api.PutConversation(t.Context(), "double-open", enplace.PutConversation{Kind: enplace.ConversationDirect, Person: m.login, Team: "opened"}); err != nil {
		t.Fatal(err)
	}
	m.want(refusedByProxy+"; true", "403")
	if r := m.in("double-open", refusedByProxy+"; true", 60); r.Stdout == "403" || r.Stdout == "000" {
		t.Errorf("a policy that is open: %q", r.Stdout)
	}
	// While a command of the open one runs, the closed one's set is installed.
	began, over := make(chan struct{}), make(chan string, 1)
	go func() {
		var out strings.Builder
		_, err := m.api.ExecConversationStream(context.Background(), "double-open", enplace.ConversationExec{ExecRequest: enplace.ExecRequest{
			Command: []string{"bash", "-c", "echo began; while [ ! -e /root/done ]; do sleep 0.1; done; " + refusedByProxy}, Timeout: 90}},
			func(e enplace.ConversationEvent) error {
				if out.Len() == 0 && e.Data != "" {
					close(began)
				}
				out.WriteString(e.Data)
				return nil
			})
		if err != nil {
			out.WriteString(err.Error())
		}
		over <- out.String()
	}()
	<-began
	attach(t, l.Client, "team:closed", "reach", item("reach", refusedByProxy+" > /root/reached; curl -s -m 5 http://1.1.1.1/ --noproxy '*' && echo straight >> /root/reached\ntrue\n", ""))
	m.want("cat /root/reached; touch /root/done", "403")
	if got := <-over; !strings.HasPrefix(got, "began") || strings.HasSuffix(got, "403") {
		t.Logf("the open command, beside or behind the closed one: %q", got) // either is right: it depends on which ended first
	}
	set, err := m.api.Set(t.Context(), m.conv)
	if err != nil || set.Bundle.Status != enplace.BundleNotPrepared || set.Egress.Policy != enplace.EgressNone {
		t.Errorf("a set without network has a bundle: %+v %v", set.Bundle, err)
	}
}

// Values of the keychain are in no log, no error's end, no record, no argument and no file of the server's, in the usual encodings
// as well; scripts do not get them; and what is one person's secret is hidden in nobody else's logs, where it would show what it is.
func keychainInLogs(t *testing.T, l *lab) {
	const value = "s3cr3t/of+alice=&\"q\" 4711"
	alice, bob := l.resident(t, "k-alice"), l.resident(t, "k-bob")
	if _, err := alice.api.PutSecret(t.Context(), alice.scope(), "TOKEN", enplace.PutSecret{Value: value}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"PATH", "LD_PRELOAD", "ld_audit", "BASH_ENV", "ENV", "IFS", "HTTPS_PROXY", "no_proxy", "ENPLACE_SET", "MISE_DATA_DIR", "HOME", "A=B", "A\nB", "", "1A"} {
		if _, err := alice.api.PutSecret(t.Context(), alice.scope(), name, enplace.PutSecret{Value: value}); err == nil {
			t.Errorf("the keychain sets %q", name)
		}
	}
	spelled := []string{value, base64.StdEncoding.EncodeToString([]byte(value)), url.QueryEscape(value), url.PathEscape(value), `s3cr3t/of+alice=&\"q\" 4711`}
	guess := "cat <<'E'\nguess: " + strings.Join(spelled, "\nguess: ") + "\nE\n"
	alice.exec(`(setsid sleep 97001 > /dev/null 2>&1 &); printf %s "$TOKEN" > /root/left; python3 -c 'import os,sys; print(len(os.environ["TOKEN"]))'`)
	leak := "env | grep -c TOKEN; cat /root/left; echo; base64 -w0 /root/left; echo; python3 -c 'import urllib.parse,json;v=open(\"/root/left\").read();print(urllib.parse.quote_plus(v));print(urllib.parse.quote(v,safe=\"\"));print(json.dumps(v))'\n" + guess + "exit 1\n"
	attach(t, alice.api, alice.scope(), "leak", item("leak", leak, ""))
	attach(t, bob.api, bob.scope(), "guess", item("guess", guess+"exit 1\n", ""))
	// Files of an item are no secrets, so the database has these spellings from the start; the record of what failed must not.
	r := alice.exec("true")
	gotten := map[string]string{"notices": noticesOf(r.Notices)}
	for name, path := range map[string]string{"computer": "/v1/computers/person:k-alice", "errors": "/v1/computers/person:k-alice/errors", "set": "/v1/conversations/" + alice.conv + "/set", "keychain": "/v1/scopes/person:k-alice/keychain"} {
		gotten[name] = l.ask(t, alice.secret, "GET", path, "").body
	}
	gotten["audit"] = l.ask(t, l.Key, "GET", "/v1/audit?limit=500", "").body
	gotten["server's log"] = l.Log()
	set, err := alice.api.Set(t.Context(), alice.conv)
	if err != nil {
		t.Fatal(err)
	}
	log, err := alice.api.ComputerLog(t.Context(), alice.computer(), set.Hash)
	if err != nil {
		t.Fatal(err)
	}
	gotten["log"] = readAll(t, log)
	if !strings.Contains(gotten["log"], "[redacted]") || !strings.HasPrefix(afterLine(gotten["log"], "setup.sh"), "0\n") {
		t.Errorf("the log: %.2000s", gotten["log"])
	}
	for where, text := range gotten {
		for _, s := range spelled {
			inJSON, _ := json.Marshal(s) // a string always can be
			if strings.Contains(text, s) || strings.Contains(text, strings.Trim(string(inJSON), `"`)) {
				t.Errorf("the %s has %q", where, s)
			}
		}
	}
	noProcess(t, value)
	bob.exec("true")
	set, err = bob.api.Set(t.Context(), bob.conv)
	if err != nil {
		t.Fatal(err)
	}
	if log, err = bob.api.ComputerLog(t.Context(), bob.computer(), set.Hash); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, log); !strings.Contains(got, "guess: "+value) {
		t.Errorf("bob sees of a guess that it is somebody's secret:\n%s", got)
	}
}

func noticesOf(all []enplace.Notice) string {
	b, _ := json.Marshal(all) // strings and numbers
	return string(b)
}

// afterLine gives what comes behind the first line that ends with that.
func afterLine(text, end string) string {
	_, rest, _ := strings.Cut(text, end+"\n")
	return rest
}

// What was done to a computer is in no bundle: bundles come from clean sandboxes, have no secret, and see nobody's files.
func cleanBundles(t *testing.T, l *lab) {
	m := l.resident(t, "poisoner", "bundled")
	if _, err := l.Client.PutSecret(t.Context(), "team:bundled", "SECRET_OF_TEAM", enplace.PutSecret{Value: "value-of-the-team"}); err != nil {
		t.Fatal(err)
	}
	slow := l.resident(t, "hanging")
	attach(t, slow.api, slow.scope(), "hangs", item("hangs", "sleep 99002\n", ""))
	slow.in(slow.conv, "true", 2) // its own bundle hangs from here on, and holds up no team's
	m.exec(`mkdir -p /opt/mise/enplace/items /opt/mise/shims; echo poison | tee /root/poison /opt/poison /opt/mise/poison /opt/mise/shims/poison /usr/local/bin/poison > /dev/null
chmod +x /usr/local/bin/poison; printf '#!/bin/sh\necho poisoned > /opt/poisoned\nexec /bin/bash "$@"\n' > /usr/local/sbin/bash; chmod +x /usr/local/sbin/bash`)
	attach(t, l.Client, "team:bundled", "clean", item("clean", "(env; find / -xdev -name '*poison*' 2>/dev/null; mount) > /opt/seen; (setsid sleep 99001 &); echo made > /opt/made\n", ""))
	m.want("cat /opt/made", "made\n")
	set, err := m.api.Set(t.Context(), m.conv)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := l.Client.WaitBundle(t.Context(), set.Hash); err != nil || b.Status != enplace.BundleReady {
		t.Fatalf("%+v %v", b, err)
	}
	victim := l.resident(t, "bundle-user", "bundled")
	victim.want("cat /opt/made; grep -c -e poison -e SECRET_OF_TEAM -e value-of /opt/seen; ls /root /opt | grep poison; find / -xdev -name '*poison*' 2>/dev/null; true", "made\n0\n")
	if c, err := victim.api.Computer(t.Context(), victim.computer()); err != nil || c.Bundle == "" {
		t.Errorf("it did not start from the bundle: %+v %v", c, err)
	}
	noProcess(t, "sleep\x0099001")
}

// volumeAttack does to a volume what root inside can.
const volumeAttack = `
cp /bin/bash /opt/setuid; chmod 6755 /opt/setuid; cp /bin/bash /opt/able; setcap cap_sys_admin+ep /opt/able 2>/dev/null
for d in /opt /tmp /root; do mknod $d/disk b 7 0; mknod $d/mem c 1 1; mknod $d/white c 0 0; done 2>/dev/null
python3 - <<'P'
import fcntl, os, struct, ctypes
# shut down, resize, move extents, swap the boot inode, checkpoint, discard, freeze, labels, flags of the file system itself
for where in ("/tmp", "/", "/opt", "/tmp/x", "/opt/x"):
    if where.endswith("x"): open(where, "w").close()
    fd = os.open(where, os.O_RDONLY)
    for name, number in {"shutdown": 0x8004587d, "resize": 0x40086610, "extend": 0x40086607, "add": 0x40286608, "swap boot": 0x6611, "checkpoint": 0x4004662b,
            "trim": 0xc0185879, "freeze": 0xc0045877, "thaw": 0xc0045878, "label": 0x41009432, "uuid": 0x4008662c, "superblock": 0x40806645, "verity": 0x40806685}.items():
        try: fcntl.ioctl(fd, number, bytearray(256))
        except OSError: continue
        print("did", name, where)
    for flag in (0x10, 0x20, 0x4000):
        try:
            fcntl.ioctl(fd, 0x40086602, struct.pack("l", flag)); print("set flag", hex(flag), where)
        except OSError: pass
libc = ctypes.CDLL(None, use_errno=True)
for name in (b"trusted.overlay.opaque", b"trusted.overlay.redirect", b"security.capability"):
    for where in (b"/opt/x", b"/tmp/x"):
        if libc.setxattr(where, name, b"y", 1, 0) == 0: print("attribute", name, where)
for major, minor in ((7, m) for m in range(64)):
    try: os.mknod("/dev/loop", 0o60666, os.makedev(major, minor)); print("made a device")
    except OSError: pass
p = "/tmp"
for i in range(3000):
    os.chdir(p); os.mkdir("d"); p = "d"
P
echo tried
# what the next start, the next installation and the server's questions come by
mv /opt/mise /opt/mise.old 2>/dev/null; mkfifo /opt/mise
rm -rf /usr/local/bin/mise; ln -s /proc/1/root /usr/local/bin/mise
rm -rf /etc/resolv.conf /etc/hosts 2>/dev/null; mv /etc /etc.old 2>/dev/null && ln -s /proc/1 /etc
rm -rf /root 2>/dev/null; mkdir -p /root; ln -sf /proc/kmsg /root/.bashrc
umount /run/enplace/guest 2>/dev/null && echo unmounted; mv /run/enplace/guest /run/moved 2>/dev/null && echo moved; echo x > /run/enplace/guest 2>/dev/null && echo written
mount --bind /bin/sh /run/enplace/guest 2>/dev/null && echo mounted; rm -f /run/enplace/guest 2>/dev/null && echo removed
mv /run/enplace /run/aside; mkdir /run/enplace; printf '#!/bin/sh\nexec sleep 1000\n' > /run/enplace/guest; chmod +x /run/enplace/guest; echo end`

// The volume of a computer is one file system of the attacker's making: it breaks nothing of the kernel's, becomes no other user's,
// leads the server nowhere, and the computer starts again with whatever is left of it.
func volumeAttacks(t *testing.T, l *lab) {
	m := l.resident(t, "wrecker")
	m.want("true", "")
	r := m.exec(volumeAttack)
	if r.Stdout != "tried\nend\n" {
		t.Errorf("something worked: %q", r.Stdout)
	}
	m.want(`for u in 1000; do setpriv --reuid $u --clear-groups /opt/setuid -p -c 'id -u' 2>&1; setpriv --reuid $u --clear-groups --inh-caps=-all /opt/able -c 'grep CapEff /proc/self/status' 2>&1; done; find /opt /tmp -maxdepth 1 '(' -type b -o -type c ')' ! -name white`,
		"1000\nCapEff:\t0000000000000000\n")
	began := time.Now()
	attach(t, m.api, m.scope(), "on-ruins", item("on-ruins", "echo ran\n", "[tools]\n\"npm:prettier\" = \"3\"\n"))
	m.in(m.conv, "true", 8)
	l.Stop()
	for _, mount := range hostMounts(t) {
		if strings.Contains(mount, l.Data) {
			t.Errorf("left mounted: %s", mount)
		}
	}
	l.Restart()
	m.api = l.As(m.secret)
	m.want("cd /; echo back; cat /opt/x", "back\n")
	if c, err := m.api.Computer(t.Context(), m.computer()); err != nil || c.State != enplace.ComputerRunning {
		t.Errorf("%+v %v", c, err)
	}
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("it took %s", took)
	}
	if err := m.api.ResetComputer(t.Context(), m.computer()); err != nil {
		t.Error(err)
	}
	m.want("ls -d /opt/x 2>&1 | grep -c 'No such'", "1\n")
}

func hostMounts(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(b), "\n")
}

// Scripts that nothing ends by asking: an installation gives way to a reset, to a change of its definitions and to the server's end.
func stubbornScripts(t *testing.T, l *lab) {
	m := l.resident(t, "stubborn")
	// In the sandbox of its bundle, which has no such file, it runs longer.
	const script = `trap '' HUP INT QUIT TERM USR1 USR2; s=98002; [ ! -e /root/here ] || s=98001
for i in 1 2 3; do (trap '' TERM; s=$s setsid bash -c 'trap "" TERM; while :; do sleep $s; done' &) ; done
(while :; do (sleep $s &); sleep 0.05; done) &
kill -STOP -1; kill -STOP $$; while :; do sleep $s; done
`
	m.want("touch /root/here", "")
	p := attach(t, m.api, m.scope(), "stubborn", item("stubborn", script, ""))
	start := time.Now()
	if r := m.in(m.conv, "echo ran", 6); r.Stdout != "ran\n" || len(r.Notices) == 0 {
		t.Errorf("a command beside a script that hangs: %+v", r)
	}
	if _, err := m.api.SyncPluginArchive(t.Context(), p.ID, tree(item("stubborn", script+"# again\n", ""))); err != nil {
		t.Fatal(err)
	}
	if r := m.in(m.conv, "echo ran", 6); r.Stdout != "ran\n" {
		t.Errorf("%+v", r)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("two commands took %s", took)
	}
	start = time.Now()
	if err := m.api.ResetComputer(t.Context(), m.computer()); err != nil || time.Since(start) > time.Minute {
		t.Errorf("a reset took %s: %v", time.Since(start), err)
	}
	noProcess(t, "sleep\x0098001")
	m.in(m.conv, "touch /root/here", 4)
	l.Stop() // which fails the test when it takes long
	noProcess(t, "sleep\x0098001")
	noProcess(t, "sleep\x0098002")
	l.Restart()
}
