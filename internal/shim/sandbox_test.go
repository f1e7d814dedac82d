package shim_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"enplace"
	"enplace/internal/guest"
	"enplace/internal/image"
	"enplace/internal/sandbox"
	"enplace/internal/shim"
)

// printer prints its arguments, NUL after each, and what it is called.
const printer = "#!/bin/sh\nprintf '%s\\0' \"$@\"\n"

// TestSandbox goes through what shims do, in one real sandbox; each part has sets and names of its own.
func TestSandbox(t *testing.T) {
	b := newBox(t)
	for _, part := range []struct {
		name string
		run  func(*testing.T, *box)
	}{
		{"Selected", testSelected},
		{"Untouched", testUntouched},
		{"NotSelected", testNotSelected},
		{"Failed", testFailed},
		{"WhichSet", testWhichSet},
		{"EmptyEnvironment", testEmptyEnvironment},
		{"OtherUsers", testOtherUsers},
		{"ReadOnly", testReadOnly},
		{"Signals", testSignals},
		{"Loops", testLoops},
		{"RemovedInstall", testRemovedInstall},
		{"Damaged", testDamaged},
		{"Refused", testRefused},
		{"FolderIsMadeRight", testFolderIsMadeRight},
		{"Dropped", testDropped},
		{"WrittenWhileCalled", testWrittenWhileCalled},
		{"KilledWhileWriting", testKilledWhileWriting},
		{"PythonFindsItsFiles", testPythonFindsItsFiles},
		{"Mise", testMise},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, b) })
	}
}

// What package shim says again, so as not to link it, is said alike.
func TestSameAsTheDomain(t *testing.T) {
	t.Parallel()
	if string(shim.Default) != enplace.ToolsDir || shim.Default.Shims() != enplace.ShimsDir || shim.DefaultPath != sandbox.DefaultPath {
		t.Error("places differ")
	}
}

func testSelected(t *testing.T, b *box) {
	one := b.program(t, "/opt/mise/installs/tool/1/bin/selected", "#!/bin/sh\necho one; exit 3\n")
	two := b.program(t, "/opt/mise/installs/tool/2/bin/selected", "#!/bin/sh\necho two\n")
	b.write(t, guest.ShimIndex{Set: hash("1"), Commands: []guest.Shim{tool("selected", one)}})
	b.write(t, guest.ShimIndex{Set: hash("2"), Commands: []guest.Shim{tool("selected", two), tool("another", two)}})
	if r := b.sh(t, hash("1"), "selected"); r.Code != 3 || r.out != "one\n" || r.err != "" {
		t.Errorf("exit %d, %q, %q", r.Code, r.out, r.err)
	}
	b.want(t, hash("2"), "selected; another", "two\ntwo")
	b.want(t, hash("2"), "command -v selected", "/opt/mise/shims/selected")
	b.want(t, hash("2"), "readlink /opt/mise/shims/selected", sandbox.ShimPath)
}

// Nothing of a call is changed: arguments of any bytes, input, folder, variables, limits, umask, and other descriptors.
func testUntouched(t *testing.T, b *box) {
	p := b.program(t, "/opt/mise/installs/tool/1/bin/print-arguments", printer)
	env1 := b.program(t, "/opt/mise/installs/tool/1/bin/show-state", "#!/bin/bash\nenv -u _ -u SHLVL -u ENPLACE_SHIM | LC_ALL=C sort; pwd; umask; ulimit -a; ls /proc/self/fd; cat <&7; cat\n")
	b.write(t, guest.ShimIndex{Set: hash("3"), Commands: []guest.Shim{tool("print-arguments", p), tool("show-state", env1)}})
	args := []string{"two words", "", "new\nline", "\xff\xfe", "$(touch /tmp/x)", "-n", "--", "*"}
	r := b.exec(t, env(hash("3")), "", append([]string{shim.Default.Shims() + "/print-arguments"}, args...)...)
	if want := strings.Join(args, "\x00") + "\x00"; r.out != want {
		t.Errorf("arguments %q; want %q", r.out, want)
	}
	const call = "cd /usr; umask 027; ulimit -S -n 123; echo input | ODD=$'a\\nb' %s 7<<<seven"
	direct, through := b.must(t, hash("3"), strings.ReplaceAll(call, "%s", env1)), b.must(t, hash("3"), strings.ReplaceAll(call, "%s", "show-state"))
	if direct != through || !strings.HasSuffix(through, "seven\ninput") {
		t.Errorf("directly:\n%s\nthrough the shim:\n%s", direct, through)
	}
}

// Field case 10: a tool brings a command that the system has.
func testNotSelected(t *testing.T, b *box) {
	p := b.program(t, "/opt/mise/installs/tool/1/bin/perl", "#!/bin/sh\necho ours\n")
	b.write(t, guest.ShimIndex{Set: hash("4"), Commands: []guest.Shim{tool("perl", p), tool("only-here", p)}})
	b.write(t, guest.ShimIndex{Set: hash("5")})
	b.want(t, hash("4"), "perl -e 'print 1'", "ours")
	b.want(t, hash("5"), "perl -e 'print 1'", "1")
	if r := b.sh(t, hash("5"), "echo 'exit 7' | perl -"); r.Code != 7 {
		t.Errorf("exit %d", r.Code)
	}
	b.refused(t, hash("5"), "only-here", "only-here: there is no such command")
	// By whatever name PATH has the folder, and wherever another shim lies.
	b.want(t, hash("5"), `ln -s /opt/mise/shims /tmp/alias; ln -sf /run/enplace/shim /usr/local/sbin/perl
		PATH=/tmp/alias:/opt/mise/../mise/shims:/tmp/alias/:$PATH perl -e 'print 1'`, "1")
	// mise's own shims read what the folder says that they are called in.
	b.want(t, hash("5"), `rm /usr/local/sbin/perl; ln -s /usr/local/bin/mise /usr/local/sbin/perl; perl -e 'print 1'; rm /usr/local/sbin/perl`, "1")
	// What the current folder holds is not run.
	b.want(t, hash("5"), `mkdir -p /tmp/hostile && cd /tmp/hostile && printf '#!/bin/sh\necho hostile' >perl && chmod +x perl
		PATH=:.:/opt/mise/shims:/usr/bin:/bin /opt/mise/shims/perl -e 'print 1'`, "1")
	// An empty PATH is the usual one; a script without a first line is the shell's.
	b.want(t, hash("5"), `PATH= /opt/mise/shims/perl -e 'print 1'`, "1")
	b.want(t, hash("5"), `printf 'echo plain $1' >/usr/local/sbin/only-here; chmod +x /usr/local/sbin/only-here; only-here x; rm /usr/local/sbin/only-here`, "plain x")
	if r := b.sh(t, hash("5"), `echo x >/usr/local/sbin/only-here; chmod 644 /usr/local/sbin/only-here; only-here; e=$?; rm /usr/local/sbin/only-here; exit $e`); r.Code != 126 {
		t.Errorf("a file that is no program: exit %d: %s", r.Code, r.err)
	}
}

func testFailed(t *testing.T, b *box) {
	b.write(t, guest.ShimIndex{Set: hash("6"), Commands: []guest.Shim{
		{Name: "broken", Item: "frontend", Scope: "team:web", Failed: "npm: 404\n  no such \x1b[31mversion."},
		{Name: "python3", Item: "frontend", Scope: "team:web", Failed: "the deadline passed"}}})
	b.refused(t, hash("6"), "broken --version", "broken is a tool of the item frontend of team:web", "npm: 404 no such \ufffd[31mversion. ", "retry")
	b.refused(t, hash("6"), "python3 -c 'print(1)'", "the deadline passed") // although the base has one
	b.refused(t, hash("7"), "broken", "not in place")                       // a set without an index: nobody knows what it selects
}

// The nearest one that says so decides: the caller, an ancestor, the computer's own.
func testWhichSet(t *testing.T, b *box) {
	p := b.program(t, "/opt/mise/installs/tool/1/bin/whose", "#!/bin/sh\necho selected\n")
	own := b.program(t, "/opt/mise/installs/tool/2/bin/whose", "#!/bin/sh\necho own\n")
	b.write(t, guest.ShimIndex{Set: hash("8"), Commands: []guest.Shim{tool("whose", p)}})
	b.write(t, guest.ShimIndex{Set: hash("9"), Default: true, Commands: []guest.Shim{tool("whose", own)}})
	b.want(t, hash("8"), "whose", "selected")
	b.want(t, "", "whose", "own")
	b.want(t, hash("8"), "env -i /opt/mise/shims/whose; true", "selected")
	b.want(t, hash("8"), "env -i /bin/sh -c 'env -i /bin/sh -c \"/opt/mise/shims/whose; true\"; true'; true", "selected")
	b.want(t, "", "ENPLACE_SET=../../../etc/passwd whose", "own") // what is no hash is nothing
	b.want(t, hash("8"), "ENPLACE_SET=nonsense whose; true", "selected")
	// What has outlived its ancestors is nobody's but the computer's.
	b.want(t, hash("8"), "(setsid env -i /bin/sh -c 'while [ -d /proc/'$$' ]; do :; done; /opt/mise/shims/whose >/tmp/orphan.new; mv /tmp/orphan.new /tmp/orphan' &) ; true", "")
	b.want(t, "", "while ! [ -e /tmp/orphan ]; do sleep 0.01; done; cat /tmp/orphan", "own")
	b.shims(t, guest.DropShims(hash("9")))
	b.refused(t, "", "whose", "there is no such command") // no default: nothing is selected
}

// Field case 41.
func testEmptyEnvironment(t *testing.T, b *box) {
	p := b.program(t, "/opt/mise/installs/tool/1/bin/bare", "#!/bin/sh\necho \"$# $(/usr/bin/env | /bin/grep -c MISE)\"\n")
	b.write(t, guest.ShimIndex{Set: hash("a"), Default: true, Commands: []guest.Shim{tool("bare", p)}})
	for _, e := range [][]string{nil, {"PATH="}, {"HOME=/nowhere", "CI=true"}} {
		if r := b.exec(t, e, "", "/opt/mise/shims/bare", "x"); r.out != "1 0\n" || r.Code != 0 {
			t.Errorf("with %q: exit %d, %q, %q", e, r.Code, r.out, r.err)
		}
	}
	b.shims(t, guest.DropShims(hash("a")))
}

// As sudo does it, and su: another user, with next to no variables. That user cannot read what root's processes were started with.
func testOtherUsers(t *testing.T, b *box) {
	p := b.program(t, "/opt/mise/installs/tool/1/bin/user", "#!/bin/sh\nid -u; cat\n")
	b.write(t, guest.ShimIndex{Set: hash("b"), Default: true, Commands: []guest.Shim{tool("user", p)}})
	b.want(t, hash("b"), "echo in | setpriv --reuid=65534 --regid=65534 --clear-groups env -i PATH=/usr/bin:/bin /opt/mise/shims/user", "65534\nin")
	b.want(t, hash("b"), "cd /root; chmod 700 /root; umask 777; setpriv --reuid=1000 --regid=1000 --clear-groups /opt/mise/shims/user </dev/null", "1000")
	// The writer's umask is not that of the files.
	b.want(t, "", `find /opt/mise/enplace -maxdepth 2 -type f -not -name lock -not -perm 644; find /opt/mise/enplace /opt/mise/shims -maxdepth 1 -type d -not -perm 755`, "")
	b.shims(t, guest.DropShims(hash("b")))
}

// As a bundle is restored: the folder of all tools is an image.
func testReadOnly(t *testing.T, b *box) {
	dir := t.TempDir()
	for _, d := range []string{"shims", "enplace/sets", "bin"} {
		check(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	check(t, os.Symlink(sandbox.ShimPath, filepath.Join(dir, "shims/fixed")))
	check(t, os.Symlink(sandbox.GuestPath, filepath.Join(dir, "shims/mise")))
	check(t, os.WriteFile(filepath.Join(dir, "bin/fixed"), []byte("#!/bin/sh\necho fixed\n"), 0o755))
	index := shim.Encode([]shim.Command{{Name: "fixed", Target: "/opt/mise/bin/fixed", Item: "tools", Scope: "organisation"}})
	check(t, os.WriteFile(filepath.Join(dir, "enplace/sets", hash("c")), index, 0o644))
	image, err := b.images.PackDir(t.Context(), dir, image.DirOptions{})
	check(t, err)
	s := b.spec
	s.ID, s.Durable, s.Mounts = "fixed", "", []sandbox.Mount{{Path: "/opt/mise", Images: []enplace.Digest{image.Digest}}}
	fixed := &box{rt: b.rt, spec: s}
	fixed.start(t)
	defer fixed.Stop(t.Context())
	fixed.want(t, hash("c"), "fixed", "fixed")
	fixed.want(t, hash("c"), "setpriv --reuid=1000 --regid=1000 --clear-groups fixed", "fixed")
	fixed.want(t, hash("c"), "mise --version 2>/dev/null | cut -d' ' -f1", "2026.9.15")
	if r := fixed.sh(t, hash("c"), "mise reshim"); r.Code == 0 || strings.Contains(r.err, "enplace:") {
		t.Errorf("mise reshim: exit %d: %s", r.Code, r.err)
	}
}

// The process is the same one, so every signal is the tool's.
func testSignals(t *testing.T, b *box) {
	p := b.program(t, "/opt/mise/installs/tool/1/bin/waits", "#!/bin/bash\necho $$ >\"$1\"\ntrap 'exit 42' TERM\nwhile :; do read -t 0.05 <> <(:); done\n")
	b.write(t, guest.ShimIndex{Set: hash("d"), Commands: []guest.Shim{tool("waits", p)}})
	r := b.sh(t, hash("d"), `rm -f /tmp/pid; waits /tmp/pid & shim=$!
		until [ -s /tmp/pid ]; do sleep 0.01; done; [ "$(cat /tmp/pid)" = $shim ] || echo "another process"
		kill -TERM $shim; wait $shim`)
	if r.Code != 42 || r.out != "" {
		t.Errorf("exit %d, %q, %q", r.Code, r.out, r.err)
	}
	if r := b.sh(t, hash("d"), `rm -f /tmp/pid; waits /tmp/pid & shim=$!; until [ -s /tmp/pid ]; do sleep 0.01; done; kill -KILL $shim; wait $shim`); r.Code != 137 {
		t.Errorf("killed: exit %d", r.Code)
	}
	// What nohup and a shell's background commands ignore stays ignored.
	b.write(t, guest.ShimIndex{Set: hash("d"), Commands: []guest.Shim{tool("shows", "/usr/bin/grep")}})
	b.want(t, hash("d"), `trap '' HUP INT; [ "$(shows SigIgn /proc/self/status)" = "$(grep SigIgn /proc/self/status)" ]`, "")
}

// Field case 9.
func testLoops(t *testing.T, b *box) {
	wrapper := b.program(t, "/opt/mise/installs/tool/1/bin/loops", "#!/bin/sh\nexec loops \"$@\"\n")
	forks := b.program(t, "/opt/mise/installs/tool/1/bin/forks", "#!/bin/sh\nforks \"$@\"\nexit $?\n")
	b.write(t, guest.ShimIndex{Set: hash("e"), Commands: []guest.Shim{tool("loops", wrapper), tool("forks", forks), tool("itself", "/tmp/itself"), tool("wrapped", wrapper)}})
	b.write(t, guest.ShimIndex{Set: hash("5")})
	b.refused(t, hash("e"), "loops", "loops leads back to its own shim")
	b.refused(t, hash("e"), "forks", "forks leads back to its own shim")
	b.refused(t, hash("e"), "ln -sf /opt/mise/shims/itself /tmp/itself; itself", "itself leads back to its own shim")
	// The host's program calls the shim again.
	b.program(t, "/usr/local/bin/wrapped", "#!/bin/sh\nexec /opt/mise/shims/wrapped \"$@\"\n")
	b.refused(t, hash("5"), "wrapped", "wrapped leads back to its own shim")
	// A stub that was saved from command -v is a shim: the writer does not take it.
	w := b.write(t, guest.ShimIndex{Set: hash("e"), Commands: []guest.Shim{tool("loops", "/opt/mise/shims/loops"), tool("itself", "/tmp/itself"), tool("mine", "/usr/local/bin/mise")}})
	if len(w.Refused) != 3 {
		t.Errorf("refused: %+v", w.Refused)
	}
	// Tools that call tools are no loop.
	step := b.program(t, "/opt/mise/installs/tool/1/bin/step", "#!/bin/sh\n[ $1 = 0 ] && echo bottom && exit; step $(($1-1)); exit $?\n")
	b.write(t, guest.ShimIndex{Set: hash("e"), Commands: []guest.Shim{tool("step", step)}})
	b.want(t, hash("e"), "step 40", "bottom")
}

func testRemovedInstall(t *testing.T, b *box) {
	p := b.program(t, "/opt/mise/installs/removed/1/bin/python3", "#!/bin/sh\necho ours\n")
	bad := b.program(t, "/opt/mise/installs/removed/1/bin/no-interpreter", "#!/nowhere/sh\n")
	b.write(t, guest.ShimIndex{Set: hash("f"), Commands: []guest.Shim{tool("python3", p), tool("no-interpreter", bad)}})
	if r := b.sh(t, hash("f"), "no-interpreter"); r.Code != 126 || !strings.Contains(r.err, "interpreter") {
		t.Errorf("exit %d: %s", r.Code, r.err)
	}
	b.must(t, "", "rm -r /opt/mise/installs/removed")
	b.refused(t, hash("f"), "python3 --version", "the item tools of organisation", p+" is gone", "retry")
}

func testDamaged(t *testing.T, b *box) {
	p := b.program(t, "/opt/mise/installs/tool/1/bin/python3", printer)
	set := hash("0")
	index := guest.ShimIndex{Set: set, Commands: []guest.Shim{tool("python3", p)}}
	for _, damage := range []string{"truncate -s -1 %", "echo x >%", ": >%", "echo >>%", "rm %; mkdir %", "rm %; mkfifo %", "rm %; ln -s % %", "truncate -s 2M %", "rm %; ln -s /dev/zero %"} {
		b.write(t, index)
		b.must(t, "", strings.ReplaceAll(damage, "%", "/opt/mise/enplace/sets/"+set))
		b.refused(t, set, "python3 -V", "cannot be read", "retry")
		b.write(t, index) // makes it right
		b.want(t, set, "python3 a | wc -c", "2")
	}
}

func testRefused(t *testing.T, b *box) {
	p := b.program(t, "/opt/mise/installs/tool/1/bin/fine", "#!/bin/sh\necho fine\n")
	commands := []guest.Shim{tool("fine", p)}
	names := []string{"", ".", "..", "a/b", "../evil", "a\x00b", "-rf", ".hidden", "new\nline", "esc\x1b[2J", "\ufffd", strings.Repeat("x", 256), "sh", "ls", "which",
		"env", "sudo", "apt-get", "mise", "fine"}
	for _, n := range names {
		commands = append(commands, tool(n, p))
	}
	commands = append(commands, tool("relative", "bin/x"), tool("nul", "/bin/x\x00y"))
	w := b.write(t, guest.ShimIndex{Set: hash("1"), Commands: commands})
	if len(w.Refused) != len(names)+2 {
		t.Errorf("%d refused: %+v", len(w.Refused), w.Refused)
	}
	b.want(t, hash("1"), "fine; ls -d / | cat", "fine\n/")
	b.want(t, hash("1"), "ls -A /opt/mise/shims | grep -c -x -e ls -e env -e sh -e .hidden || true", "0")
}

// Field case 8's relative: a setup.sh, or mise reshim, has written where the shims are.
func testFolderIsMadeRight(t *testing.T, b *box) {
	p := b.program(t, "/opt/mise/installs/tool/1/bin/righted", "#!/bin/sh\necho right\n")
	index := guest.ShimIndex{Set: hash("2"), Commands: []guest.Shim{tool("righted", p), tool("folder", p)}}
	b.write(t, index)
	for _, damage := range []string{
		"rm righted", "rm righted; echo x >righted", "ln -sf /usr/local/bin/mise righted", "rm righted; mkdir righted", "ln -sf /run/enplace/guest righted", "rm -r ../shims; ln -s /tmp ../shims",
		"rm -r ../shims; echo x >../shims", "chmod 700 . ../enplace ../enplace/sets", "rm -r ../shims ../enplace",
	} {
		b.must(t, "", "cd /opt/mise/shims && "+damage)
		b.write(t, index)
		b.want(t, hash("2"), "setpriv --reuid=1000 --regid=1000 --clear-groups righted; readlink /opt/mise/shims/righted", "right\n"+sandbox.ShimPath)
	}
	b.must(t, "", `cd /opt/mise/shims && ln -s /usr/local/bin/mise stale && ln -s /run/enplace/shim old && ln -s /run/enplace/guest older && echo 'echo mine' >mine && chmod +x mine && cp mine ls
		rm folder && mkdir folder && echo kept >folder/file`)
	w := b.write(t, index)
	if len(w.Refused) != 1 || w.Refused[0].Name != "folder" {
		t.Errorf("refused %+v", w.Refused)
	}
	if !slices.Equal(w.Replaced, []string{"ls"}) {
		t.Errorf("replaced %q", w.Replaced)
	}
	b.want(t, hash("2"), "cd /opt/mise/shims; ls -d mine stale old older 2>/dev/null; mine; cat folder/file; rm -r folder mine", "mine\nmine\nkept")
}

func testDropped(t *testing.T, b *box) {
	p := b.program(t, "/opt/mise/installs/tool/1/bin/dropped", "#!/bin/sh\necho here\n")
	b.write(t, guest.ShimIndex{Set: hash("3"), Commands: []guest.Shim{tool("dropped", p), tool("shared", p)}})
	b.write(t, guest.ShimIndex{Set: hash("4"), Commands: []guest.Shim{tool("shared", p)}})
	b.shims(t, guest.DropShims(hash("3")))
	b.shims(t, guest.DropShims(hash("3")))
	b.want(t, hash("4"), "shared; ls /opt/mise/shims/dropped 2>&1 | wc -l; ls -d /opt/mise/shims/dropped 2>/dev/null | wc -l", "here\n1\n0")
}

// A shim has the old index or the new, and no name that both have is ever missing.
func testWrittenWhileCalled(t *testing.T, b *box) {
	one := b.program(t, "/opt/mise/installs/tool/1/bin/busy", "#!/bin/sh\necho one\n")
	two := b.program(t, "/opt/mise/installs/tool/2/bin/busy", "#!/bin/sh\necho two\n")
	index := func(p string, more ...guest.Shim) guest.ShimIndex {
		return guest.ShimIndex{Set: hash("5"), Commands: append(more, tool("busy", p))}
	}
	b.write(t, index(one))
	var wg sync.WaitGroup
	var r result
	wg.Go(func() {
		r = b.sh(t, hash("5"), `for i in $(seq 200); do busy || echo failed; done | sort -u`)
	})
	for range 10 {
		wg.Go(func() { b.write(t, index(one, tool("extra", one))) })
		b.write(t, index(two))
	}
	wg.Wait()
	if got := strings.TrimSpace(strings.Trim(strings.ReplaceAll(strings.ReplaceAll(r.out, "one\n", ""), "two\n", ""), "\n")); got != "" || r.err != "" {
		t.Errorf("%q, %q", r.out, r.err)
	}
}

// Whatever moment a writer is killed at, what was there is there, and the next one leaves nothing of it.
func testKilledWhileWriting(t *testing.T, b *box) {
	p := b.program(t, "/opt/mise/installs/tool/1/bin/kept", "#!/bin/sh\necho kept\n")
	var many []guest.Shim
	for _, n := range strings.Fields(b.must(t, "", "seq -f tool%g 200")) {
		many = append(many, tool(n, p))
	}
	b.write(t, guest.ShimIndex{Set: hash("6"), Commands: []guest.Shim{tool("kept", p)}})
	for i := range 20 {
		commands := []guest.Shim{tool("kept", p)}
		if i%2 == 0 {
			commands = append(commands, many...)
		}
		ctx, cancel := context.WithCancel(t.Context())
		c := guest.WriteShims(guest.ShimIndex{Set: hash("6"), Commands: commands})
		c.Stderr = &bytes.Buffer{}
		c.Started = func() {
			for range i * 20000 { // a moment that is another one each time
				if ctx.Err() != nil {
					return
				}
			}
			cancel()
		}
		_, _ = b.Exec(ctx, c)
		cancel()
		b.want(t, hash("6"), "kept", "kept")
	}
	w := b.write(t, guest.ShimIndex{Set: hash("6"), Commands: []guest.Shim{tool("kept", p)}})
	b.want(t, hash("6"), "kept; ls -A /opt/mise/shims /opt/mise/enplace/sets | grep -c -e '^tool' -e '^[.]' || true", "kept\n0")
	if len(w.Refused)+len(w.Replaced) > 0 {
		t.Errorf("%+v", w)
	}
}

// Python finds its files from its own name, and an environment made by it must not lead back to a shim.
func testPythonFindsItsFiles(t *testing.T, b *box) {
	b.write(t, guest.ShimIndex{Set: hash("7"), Commands: []guest.Shim{tool("python3", "/usr/bin/python3")}})
	b.want(t, hash("7"), "python3 -c 'import sys; print(sys.executable)'", "/usr/bin/python3")
	b.want(t, hash("7"), "rm -rf /tmp/v && python3 -m venv --without-pip /tmp/v && /tmp/v/bin/python3 -c 'import sys; print(sys.prefix)'", "/tmp/v")
	b.write(t, guest.ShimIndex{Set: hash("8")})
	b.want(t, hash("8"), "python3 -c 'import sys; print(sys.executable)'", "/usr/bin/python3") // the base's, through the shim
}
