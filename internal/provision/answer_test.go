package provision

import (
	"strings"
	"testing"
	"time"

	"enplace"
)

// Commands that do not end take of a pass what all its commands may take to start, and no more; what was not started counts as
// installed, and says so. What was seen not to start stays failed.
func TestCommandsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b, s := h.start(t, "endless", enplace.EgressOpen, 512), newShop(t)
	slow := ""
	s.set(func() {
		for _, name := range []string{"slow1", "slow2", "slow3", "slow4", "slow5"} {
			s.programs[name] = "#!/bin/sh\necho started >>/root/" + name + "\nexec sleep 1000\n"
			slow += s.tool(name, "1.0")
		}
		s.programs["mute"] = "#!/nowhere\n"
	})
	early := newItem(org, "a-early", tools+s.tool("mute", "1.0")+s.tool("good", "1.0"), "")
	endless := newItem(org, "b-endless", tools+slow, "")
	late := newItem(team, "late", tools+s.tool("late", "1.0"), "")
	j := b.job(early, endless, late)
	j.Timeout = 20 * time.Second
	r := b.apply(j)
	r.stands(t, failed, installed, installed)
	has(t, r.Items[0].Error, "mute of http:mute was installed and cannot be started")
	const not = " was not started to see whether it works"
	has(t, strings.Join(r.Items[1].Notes, ";"), "http:slow5"+not)
	if notes := strings.Join(r.Items[1].Notes, ";"); strings.Contains(notes, "slow1"+not) {
		t.Errorf("the first has no time: %s", notes)
	}
	has(t, strings.Join(r.Items[2].Notes, ";"), "http:late"+not)
	b.says("cat /root/slow1; ls /root/slow5 2>/dev/null || echo none; late", "started\nnone\nlate 1.0")
}
