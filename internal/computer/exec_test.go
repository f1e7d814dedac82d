package computer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/internal/toolchain/toolchaintest"
)

const runs = "echo run >>/root/runs\n"

func TestCommands(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for name, test := range map[string]func(*house){
		"FirstInstallsAndLaterOnesAreWarm": testFirst, "FailedItems": testFailed, "Triggers": testTriggers, "HangingScript": testHanging,
		"SetWithoutItems": testEmptied, "LoginShell": testLoginShell, "RefusedHosts": testRefusedHosts, "InstalledInside": testInstalledInside, "LongOutput": testLongOutput,
		"MissingProgram": testMissingProgram,
	} {
		t.Run(name, func(t *testing.T) { h.part(t, test) })
	}
}

func testFirst(h *house) {
	with := h.Direct("ann")
	_, err := h.Toolchain.PutSecret(h.Context(), operator, "person:ann", "TOKEN", enplace.PutSecret{Value: "s3cret-value"})
	check(h.T, err)
	h.Attach("person:ann", "own", toolchaintest.Item("greet", runs+"echo \"${TOKEN-none} $ENPLACE_ENVIRONMENT\" >/etc/greeting\n", ""))
	first := h.exec(with, "cat /etc/greeting; echo $TOKEN; pwd; echo $ENPLACE_SET").notices()
	set, err := h.computers.Set(h.Context(), operator, with)
	check(h.T, err)
	first.want("none greet\ns3cret-value\n/root\n" + set.Hash)
	if got := strings.Join(first.progress, "; "); !strings.Contains(got, "greet of person:ann: installing") {
		h.Errorf("progress %q", got)
	}
	if second := h.exec(with, "cat /root/runs; touch /root/mine").want("run"); len(second.progress) > 0 {
		h.Errorf("a warm command waited: %v", second.progress)
	}
	c, err := h.computers.Get(h.Context(), toolchaintest.Person("ann"), "person:ann")
	check(h.T, err)
	if c.State != enplace.ComputerRunning || len(c.Commands) != 2 || c.Commands[0].Program != "/bin/bash" || c.DiskBytes == 0 {
		h.Errorf("%+v", c)
	}
	if set.Items[0].Status != enplace.ItemInstalled || set.Bundle.Status == enplace.BundleNotPrepared {
		h.Errorf("%+v", set)
	}
	for _, who := range []enplace.Caller{toolchaintest.Person("eve"), {Kind: enplace.KeyAgent, Subject: "conversation:other"}, {Kind: enplace.KeyHarness, Subject: "har_x"}} {
		if _, err := h.computers.Exec(h.Context(), who, with, enplace.ConversationExec{ExecRequest: shell("true", 0)}, nil); enplace.KindOf(err) != enplace.KindNotFound {
			h.Errorf("%v ran a command: %v", who, err)
		}
		if _, err := h.computers.Get(h.Context(), who, "person:ann"); enplace.KindOf(err) != enplace.KindNotFound {
			h.Errorf("%v saw the computer: %v", who, err)
		}
		if err := h.computers.Reset(h.Context(), who, "person:ann"); enplace.KindOf(err) != enplace.KindNotFound {
			h.Errorf("%v reset the computer: %v", who, err)
		}
	}
	log, err := h.computers.Log(h.Context(), operator, "person:ann", set.Hash)
	check(h.T, err)
	check(h.T, log.Close())
}

// Seven items fail and the eighth, which comes after them, works.
func testFailed(h *house) {
	with := h.Direct("bob")
	_, err := h.Toolchain.PutSecret(h.Context(), operator, "organisation", "DEPLOY", enplace.PutSecret{Value: "hunter2-hunter2"})
	check(h.T, err)
	broken, mended := toolchaintest.Files{}, toolchaintest.Files{}
	for n := range 7 {
		key := fmt.Sprintf("bad-%d", n)
		broken = broken.With(toolchaintest.Item(key, "echo 'login with hunter2-hunter2'; exit 3\n", ""))
		mended = mended.With(toolchaintest.Item(key, "true\n", ""))
	}
	good := toolchaintest.Item("good", runs, "")
	p := h.Attach("person:bob", "own", broken.With(good))
	first := h.exec(with, "cat /root/runs").want("run").notices(enplace.NoticeFailed)
	n := first.Notices[0]
	if len(n.Items) != enplace.MaxReportedItems || n.More != 2 || n.Items[0].Key != "bad-0" || !strings.Contains(n.Message, "bad-0 (person:bob)") {
		h.Errorf("%+v", n)
	}
	for _, i := range n.Items {
		if strings.Contains(i.ErrorTail, "hunter2") || !strings.Contains(i.ErrorTail, "login with [redacted]") {
			h.Errorf("the end of %s is %q", i.Key, i.ErrorTail)
		}
	}
	h.exec(with, "true").want("").notices()
	log, err := h.computers.Errors(h.Context(), operator, "person:bob", enplace.Page{})
	check(h.T, err)
	if len(log.Items) != 7 || !strings.Contains(log.Items[0].Error, "status 3") || strings.Contains(fmt.Sprint(log), "hunter2") {
		h.Errorf("%+v", log.Items)
	}

	attempts := h.state(with).Attempts
	h.Clock.Advance(enplace.FailedRetry)
	h.until("a retry by itself", func() bool { return h.state(with).Attempts > attempts })
	h.exec(with, "cat /root/runs").want("run").notices()
	log, err = h.computers.Errors(h.Context(), operator, "person:bob", enplace.Page{})
	check(h.T, err)
	if len(log.Items) != 7 || log.Items[0].Count != 2 || log.Items[0].LastAt.Sub(log.Items[0].At) != enplace.FailedRetry {
		h.Errorf("the same errors again: %d entries, %+v", len(log.Items), log.Items[0])
	}

	h.Sync(p, mended.With(good))
	h.exec(with, "cat /root/runs").want("run").notices() // the good one is not run again for the new set
	if set := h.state(with); set.AppliedAt == nil {
		h.Errorf("%+v", set)
	}
}

func testTriggers(h *house) {
	script := "exit 1\n"
	with, inside, outside := h.Direct("cid"), h.Room("inside", "", true), h.Room("outside", "", false)
	h.Attach("person:cid", "own", toolchaintest.Item("bad", script, ""))
	org := h.Attach("organisation", "org", toolchaintest.Item("bad-org", script, ""))
	defer func() { check(h.T, h.Toolchain.DeletePlugin(h.Context(), operator, org.ID)) }()
	for _, c := range []string{with, inside, outside} {
		h.exec(c, "true").notices(enplace.NoticeFailed)
	}
	agent := enplace.Caller{Kind: enplace.KeyAgent, Subject: "conversation:" + with}
	for _, x := range []struct {
		name         string
		who          enplace.Caller
		conversation string
		trigger      enplace.Trigger
		tries        int
	}{
		{"an agent", operator, with, enplace.TriggerAgent, 0},
		{"a schedule", operator, with, enplace.TriggerSchedule, 0},
		{"nobody", operator, with, "", 0},
		{"an agent that says it is a person", agent, with, enplace.TriggerPerson, 0},
		{"a person in a direct conversation", operator, with, enplace.TriggerPerson, 1},
		{"the person's own key", toolchaintest.Person("cid"), with, enplace.TriggerPerson, 1},
		{"a person in an internal room", operator, inside, enplace.TriggerPerson, 1},
		{"a person in a room with others", operator, outside, enplace.TriggerPerson, 0},
	} {
		before := h.state(x.conversation).Attempts
		h.Clock.Advance(enplace.AwaitedRetry)
		h.execAs(x.who, x.conversation, enplace.ConversationExec{ExecRequest: shell("true", 0), Trigger: x.trigger}).notices()
		if got := h.state(x.conversation).Attempts - before; got != x.tries {
			h.Errorf("%s: %d tries, want %d", x.name, got, x.tries)
		}
	}
	_, err := h.computers.Exec(h.Context(), operator, with, enplace.ConversationExec{ExecRequest: shell("true", 0), Trigger: "ghost"}, nil)
	if enplace.KindOf(err) != enplace.KindInvalid {
		h.Errorf("an unknown trigger: %v", err)
	}
	n, err := h.computers.Retry(h.Context(), toolchaintest.Person("cid"), h.state(with).Hash)
	check(h.T, err)
	if n != 1 {
		h.Errorf("tried again on %d computers", n)
	}
	h.until("the retry that was asked for", func() bool { return h.state(with).Attempts == 4 })
}

// A script that never ends holds up no command for longer than its own deadline, and neither the set that mends it.
func testHanging(h *house) {
	with := h.Direct("dan")
	p := h.Attach("person:dan", "own", toolchaintest.Item("hang", "sleep infinity\n", "").With(toolchaintest.Item("later", runs, "")))
	began := time.Now()
	o := h.execAs(operator, with, enplace.ConversationExec{ExecRequest: shell("echo here", 4)}).want("here").notices(enplace.NoticeInstalling)
	if len(o.Notices[0].Items) != 2 || o.Notices[0].Items[0].Key != "hang" {
		h.Errorf("%+v", o.Notices)
	}
	if took := time.Since(began); took > patience/2 {
		h.Errorf("the command took %s", took)
	}
	h.Sync(p, toolchaintest.Item("hang", "echo fine >/root/fine\n", "").With(toolchaintest.Item("later", runs, "")))
	h.exec(with, "cat /root/fine /root/runs").want("fine\nrun").notices()
}

// A tool whose item is switched off is selected no more: its name leads to the host's program again.
func testEmptied(h *house) {
	with := h.Direct("eli")
	p := h.Attach("person:eli", "own", toolchaintest.Item("tool", "", "[tools]\n\"npm:semver\" = \"7.7.2\"\n"))
	h.exec(with, "semver 1.2.3").want("1.2.3").notices()
	if o := h.exec(with, "env -i /opt/mise/shims/semver 1.2.4"); strings.TrimSpace(o.Stdout) != "1.2.4" {
		h.Errorf("without any variable: %+v", o)
	}
	off := false
	_, err := h.Toolchain.UpdateItem(h.Context(), toolchaintest.Person("eli"), "person:eli", "tool", enplace.UpdateItem{Enabled: &off})
	check(h.T, err)
	h.exec(with, "printf '#!/bin/sh\\necho host\\n' >/usr/local/bin/semver; chmod 755 /usr/local/bin/semver; semver; env -i /opt/mise/shims/semver").want("host\nhost").notices()
	check(h.T, h.Toolchain.DeletePlugin(h.Context(), operator, p.ID))
}

// Debian's /etc/profile replaces PATH, and agents like login shells.
func testLoginShell(h *house) {
	with := h.Direct("lea")
	h.exec(with, `bash -lc 'echo ${PATH%%:*}'; sh -lc 'echo ${PATH%%:*}'`).want("/opt/mise/shims\n/opt/mise/shims")
}

// A program that is not there was a wrong request: harnesses could not tell it from their own mistakes, and the failed item that would
// have brought it was not told.
func testMissingProgram(h *house) {
	with := h.Direct("mia")
	h.Attach("person:mia", "own", toolchaintest.Item("nodee", "exit 1\n", ""))
	missing := h.execAs(operator, with, enplace.ConversationExec{ExecRequest: enplace.ExecRequest{Command: []string{"nodee"}}}).notices(enplace.NoticeFailed)
	if missing.ExitCode != 127 || missing.Stdout != "" || !strings.HasPrefix(missing.Stderr, "enplace: there is no program nodee on the PATH ") || strings.Count(missing.Stderr, "\n") != 1 {
		h.Errorf("a program that is not there: %+v", missing)
	}
	for program, says := range map[string]string{"/etc/passwd": "permission denied", "/root": "is a directory", "./broken": "neither a program of this machine"} {
		h.exec(with, "echo x >/root/broken; chmod +x /root/broken").want("")
		if r := h.execAs(operator, with, enplace.ConversationExec{ExecRequest: enplace.ExecRequest{Command: []string{program}}}); r.ExitCode != 126 || !strings.Contains(r.Stderr, says) {
			h.Errorf("%s: %+v", program, r)
		}
	}
	_, err := h.computers.Exec(h.Context(), operator, with, enplace.ConversationExec{ExecRequest: enplace.ExecRequest{Command: []string{"true"}, Cwd: "/nothing"}}, nil)
	if enplace.KindOf(err) != enplace.KindInvalid {
		h.Errorf("a folder that is not there: %v", err)
	}
	c, err := h.computers.Get(h.Context(), operator, "person:mia")
	check(h.T, err)
	if first := c.Commands[len(c.Commands)-1]; first.Program != "nodee" || first.ExitCode != 127 {
		h.Errorf("the first command: %+v", first)
	}
}

// What a program says of a refused host is rarely that it was refused: the notice of a command that failed is.
// It says whose policy that was, where several scopes have one.
func testRefusedHosts(h *house) {
	_, err := h.Toolchain.PutTeam(h.Context(), operator, "rays", enplace.PutTeam{People: []string{"ray"}})
	check(h.T, err)
	with := h.Direct("ray")
	check(h.T, h.Toolchain.PutEgress(h.Context(), operator, "person:ray", &enplace.Egress{Policy: enplace.EgressNone}))
	if o := h.exec(with, "curl -fsS http://refused.example/").notices(enplace.NoticeCommand); len(o.Notices) != 1 || !strings.Contains(o.Notices[0].Message, "the egress policy of person:ray refused: refused.example") {
		h.Errorf("%+v", o.Notices)
	}
	for scope, host := range map[enplace.Scope]string{"team:rays": "one.example", "person:ray": "two.example"} {
		check(h.T, h.Toolchain.PutEgress(h.Context(), operator, scope, &enplace.Egress{Policy: enplace.EgressAllowlist, Hosts: []string{host}}))
	}
	o := h.exec(with, "curl -fsS http://one.example/; curl -fsS http://two.example/; curl -fsS http://three.example").notices(enplace.NoticeCommand)
	for _, says := range []string{"of person:ray refused: one.example;", "of team:rays refused: two.example;", "of team:rays and of person:ray refused: three.example;"} {
		if !strings.Contains(o.Notices[0].Message, says) {
			h.Errorf("%s, and not %q", o.Notices[0].Message, says)
		}
	}
	for _, scope := range []enplace.Scope{"team:rays", "person:ray"} {
		check(h.T, h.Toolchain.PutEgress(h.Context(), operator, scope, nil))
	}
	if o := h.exec(with, "curl -fsS http://10.255.255.1/").notices(enplace.NoticeCommand); !strings.Contains(o.Notices[0].Message, "no policy of this conversation's scopes does so: 10.255.255.1;") {
		h.Errorf("%+v", o.Notices)
	}
	h.exec(with, "exit 3").notices()
}

// An answer has the start and the end of long output, and says how much is left out; a stream has all of it.
func testLongOutput(h *house) {
	with := h.Direct("lia")
	in := enplace.ConversationExec{ExecRequest: shell("seq 1000000 1799999; echo short >&2; exit 3", 0)}
	const all, kept = 800_000 * 8, enplace.MaxExecOutputBytes
	res, err := h.computers.Exec(h.Context(), operator, with, in, nil)
	check(h.T, err)
	line := fmt.Sprintf("\n[enplace] … %d bytes left out …\n", all-kept)
	if !res.Truncated || res.StdoutBytes != all || res.StderrBytes != 0 || res.Stderr != "short\n" || len(res.Stdout) != kept+len(line)-1 ||
		!strings.HasPrefix(res.Stdout, "1000000\n1000001\n") || !strings.HasSuffix(res.Stdout, "\n1799999\n") || !strings.Contains(res.Stdout, line) ||
		len(res.Notices) != 1 || !strings.Contains(res.Notices[0].Message, "over 4 MiB lost its middle") {
		h.Errorf("%d bytes, told as %d of %d, %q, %+v", len(res.Stdout), kept+len(line), res.StdoutBytes, res.Stderr, res.Notices)
	}
	if whole := h.execAs(operator, with, in); len(whole.Stdout) != all || whole.Truncated {
		h.Errorf("a stream of %d bytes", len(whole.Stdout))
	}
}

func testInstalledInside(h *house) {
	with := h.Direct("ida")
	h.exec(with, "mise use npm:semver@7.7.2 >&2 && semver 1.2.3").want("1.2.3")
	for _, state := range []enplace.ComputerState{enplace.ComputerRunning, enplace.ComputerStopped} {
		c, err := h.computers.Get(h.Context(), toolchaintest.Person("ida"), "person:ida")
		check(h.T, err)
		if c.State != state || len(c.Local) != 1 || c.Local[0].Name != "npm:semver" || c.Local[0].Resolved != "7.7.2" {
			h.Errorf("%s: %+v", state, c.Local)
		}
		if state == enplace.ComputerRunning {
			check(h.T, h.Box("computer_person_ida").Stop(h.Context()))
		}
	}
}
