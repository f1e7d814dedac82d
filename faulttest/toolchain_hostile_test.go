package faulttest

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"enplace"
	"enplace/client"
	"enplace/enplacetest"
)

// The secret of the keychain, in two parts, so that a script that looks for it does not have it itself.
const secretA, secretB = "correct-horse-", "battery-staple"

// hostile are scripts, by item, with what their computer says of each. They run in this order, behind an item with a tool, and
// what they do is in the way of the next.
var hostile = []struct{ key, script, says string }{
	{"a-prints-secrets", "a=" + secretA + "; b=" + secretB + "\nenv; cat /proc/[0-9]*/environ 2>/dev/null || :\n" +
		"{ env; cat /proc/[0-9]*/environ; grep -rash \"$a$b\" /root /etc /run /tmp /var /opt/mise; } 2>/dev/null | grep -qa -e \"$a$b\" -e GREETING && touch /root/leaked || :\necho SCRIPT HAS SEEN IT ALL; exit 3", "status 3"},
	{"b-leaves-daemons", "setsid sleep 98765 & (nohup sleep 98766 >/dev/null 2>&1 &)", ""},
	{"c-rewrites-shims", "cd /opt/mise/shims && for f in *; do rm -f $f; printf '#!/bin/sh\\necho stolen\\n' >$f; chmod +x $f; done", ""},
	{"d-removes-tools", "rm -rf /opt/mise; exit 5", "status 5"},
	{"e-comes-after", "echo it ran", ""},
}

// TestToolchainHostileScripts has scripts do on a real computer what they must not. Each is contained and told, items behind it
// are installed all the same, and once they are mended the computer is as its set says.
func TestToolchainHostileScripts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	goods := newShop(t)
	srv := enplacetest.Start(t, append(ofShop, "--set-retry", "1h", "--computer-disk", "512")...)
	for name, test := range map[string]func(context.Context, *testing.T, *client.Client, *shop){
		"Vandals": vandals, "HangsForEver": hangs, "FillsTheDisk": fills,
	} {
		t.Run(name, func(t *testing.T) { test(ctx, t, srv.Client, goods) })
	}
	last := processes(t, srv.Data)
	srv.Stop()
	gone(t, last)
	nothingLeft(t, srv.Data)
}

func vandals(ctx context.Context, t *testing.T, c *client.Client, shop *shop) {
	direct(ctx, t, c, "mal")
	value := secretA + secretB
	if _, err := c.PutSecret(ctx, "person:mal", "GREETING", enplace.PutSecret{Value: value}); err != nil {
		t.Fatal(err)
	}
	p := &plugin{scope: "person:mal", items: map[string]folder{"0-paint": shop.from("paint", "1.0")}}
	for _, h := range hostile {
		p.items[h.key] = folder{writes: true, script: h.script}
	}
	if err := p.attach(ctx, c); err != nil {
		t.Fatal(err)
	}
	res, err := c.ExecConversation(ctx, "mal", script(`echo "$GREETING"; ls /root/leaked; pgrep -f 'sleep [9]876'`))
	if err != nil || strings.TrimSpace(res.Stdout) != value {
		t.Errorf("%+v, %v: a command has the secret; no script had, and nothing of theirs runs", res, err)
	}
	if !slices.ContainsFunc(res.Notices, func(n enplace.Notice) bool { return n.Kind == enplace.NoticeFailed }) {
		t.Errorf("nobody was told: %+v", res.Notices)
	}
	set, err := c.Set(ctx, "mal")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]enplace.InstalledItem{}
	for _, i := range set.Items {
		told[i.Key] = i
	}
	for _, h := range hostile {
		i := told[h.key]
		if failed := i.Status == enplace.ItemFailed; failed != (h.says != "") || !strings.Contains(i.Error, h.says) {
			t.Errorf("%s is %s: %s", h.key, i.Status, i.Error)
		}
	}
	if notes := strings.Join(told["b-leaves-daemons"].Notes, "; "); !strings.Contains(notes, "background processes") {
		t.Errorf("daemons are told as %q", notes)
	}
	if i := told["0-paint"]; i.Status != enplace.ItemFailed || !strings.Contains(i.Error, "gone since setup.sh") {
		t.Errorf("a tool that a script removed is %s: %s", i.Status, i.Error)
	}
	unsaid(ctx, t, c, set, value)

	for key, f := range p.items {
		f.script = ""
		p.items[key] = f
	}
	if err := p.sync(ctx, c); err != nil {
		t.Fatal(err)
	}
	clean(ctx, t, c, p, "mal")
	res, err = c.ExecConversation(ctx, "mal", script("paint; env -i /opt/mise/shims/paint"))
	if err != nil || res.Stdout != "1.0\n1.0\n" {
		t.Errorf("%+v, %v", res, err)
	}
}

// unsaid proves that nothing that is kept of an installation holds a value, in any of these encodings.
func unsaid(ctx context.Context, t *testing.T, c *client.Client, set enplace.ConversationSet, value string) {
	t.Helper()
	log, err := readAll(c.ComputerLog(ctx, "person:mal", set.Hash))
	if err != nil || !strings.Contains(log, "SCRIPT HAS SEEN IT ALL") {
		t.Errorf("the log of the installation: %v\n%s", err, log)
	}
	errors, err := c.ListComputerErrors(ctx, "person:mal", enplace.Page{})
	if err != nil || len(errors.Items) == 0 {
		t.Errorf("the computer's errors: %+v, %v", errors, err)
	}
	for _, text := range []string{log, fmt.Sprintf("%+v", errors), fmt.Sprintf("%+v", set)} {
		for _, said := range []string{value, base64.StdEncoding.EncodeToString([]byte(value)), "GREETING="} {
			if strings.Contains(text, said) {
				t.Errorf("%q is in\n%s", said, text)
			}
		}
	}
}

// clean proves that a conversation's computer is as its set says.
func clean(ctx context.Context, t *testing.T, c *client.Client, p *plugin, conv string) {
	t.Helper()
	for key, f := range p.items {
		if !f.writes {
			continue
		}
		res, err := c.ExecConversation(ctx, conv, script(program(p.scope, key)))
		if want := hashOf(f.setup(p.scope, key)); err != nil || strings.TrimSpace(res.Stdout) != want || len(res.Notices) > 0 {
			t.Errorf("%s: %+v, %v; want %s", key, res, err, want)
		}
	}
	set, err := c.Set(ctx, conv)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range set.Items {
		if i.Status != enplace.ItemInstalled {
			t.Errorf("%s is %s: %s", i.Key, i.Status, i.Error)
		}
	}
}

// hangs: the command that waits runs when half of its time is over, with a notice; what is declared instead is installed at once.
func hangs(ctx context.Context, t *testing.T, c *client.Client, _ *shop) {
	direct(ctx, t, c, "slow")
	p := &plugin{scope: "person:slow", items: map[string]folder{"hangs": {writes: true, script: "trap '' TERM INT HUP; while :; do sleep 97531; done"}}}
	if err := p.attach(ctx, c); err != nil {
		t.Fatal(err)
	}
	in := script("echo ran")
	in.Timeout = 4
	res, err := c.ExecConversation(ctx, "slow", in)
	if err != nil || res.Stdout != "ran\n" || len(res.Notices) != 1 || res.Notices[0].Kind != enplace.NoticeInstalling {
		t.Errorf("%+v, %v", res, err)
	}
	p.items["hangs"] = folder{writes: true}
	if err := p.sync(ctx, c); err != nil {
		t.Fatal(err)
	}
	clean(ctx, t, c, p, "slow")
	if res, err := c.ExecConversation(ctx, "slow", script("pgrep -f 'sleep [9]7531'; true")); err != nil || res.Stdout != "" {
		t.Errorf("what hung runs still: %+v, %v", res, err)
	}
}

// fills: the disk that is full is the computer's own, and the one who filled it can empty it.
func fills(ctx context.Context, t *testing.T, c *client.Client, _ *shop) {
	direct(ctx, t, c, "full")
	p := &plugin{scope: "person:full", items: map[string]folder{"fills": {writes: true, script: "cat /dev/zero >/root/full"}, "later": {writes: true}}}
	if err := p.attach(ctx, c); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ExecConversation(ctx, "full", script("true")); err != nil {
		t.Fatal(err)
	}
	set, err := c.Set(ctx, "full")
	if err != nil || set.Items[0].Status != enplace.ItemFailed || !strings.Contains(set.Items[0].Error, "disk of the computer is full") {
		t.Errorf("%+v, %v", set.Items, err)
	}
	if res, err := c.ExecConversation(ctx, "full", script("rm /root/full")); err != nil || res.ExitCode != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	p.items["fills"] = folder{writes: true}
	if err := p.sync(ctx, c); err != nil {
		t.Fatal(err)
	}
	clean(ctx, t, c, p, "full")
}
