package faulttest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"enplace"
)

// mend makes everything right that chance made wrong, and leaves as it is what is only a choice.
func (s *soak) mend() {
	ctx := s.t.Context()
	s.shop.set(func() { s.shop.shut = false })
	for _, p := range s.plugins {
		for key, f := range p.items {
			f.script, f.broken = "", false
			f.tool = strings.Replace(f.tool, "9.9.9", "2.2.3", 1)
			p.items[key] = f
		}
		s.must(p.sync(ctx, s.c))
		if err := s.c.DeleteEgress(ctx, p.scope); err != nil && enplace.KindOf(err) != enplace.KindNotFound {
			s.t.Fatal(err)
		}
	}
}

// settle has every conversation use its computer until its set is installed. Nobody asks for a retry: what failed is tried again
// by itself.
func (s *soak) settle() {
	ctx, cancel := context.WithTimeout(s.t.Context(), 4*time.Minute)
	defer cancel()
	began := time.Now()
	var group sync.WaitGroup
	for _, c := range residents {
		group.Go(func() {
			for {
				if _, err := s.c.ExecConversation(ctx, c.id, script("true")); err != nil && enplace.KindOf(err) != enplace.KindConflict {
					s.t.Errorf("%s: %v", c.id, err)
					return
				}
				set, err := s.c.Set(ctx, c.id)
				if err != nil {
					s.t.Errorf("%s: %v", c.id, err)
					return
				}
				if !slices.ContainsFunc(set.Items, func(i enplace.InstalledItem) bool { return i.Status != enplace.ItemInstalled }) {
					return
				}
				pause(ctx, 300*time.Millisecond)
			}
		})
	}
	group.Wait()
	s.t.Logf("settled in %s", time.Since(began).Round(time.Second))
}

// check compares a computer with the set of a conversation, tool by tool.
func (s *soak) check(conv string) {
	ctx := s.t.Context()
	set, err := s.c.Set(ctx, conv)
	s.must(err)
	known, err := s.c.Conversation(ctx, conv)
	s.must(err)
	s.checkRecords(known, set)
	if known.Person == "cy" { // who is in no team, so that the page of the scope shows the set
		s.checkListed(conv, set)
	}
	explained, err := s.c.ExplainSet(ctx, conv)
	s.must(err)
	selected := map[string]string{} // the version of each command; where several items have it, of the one that none overrides
	for _, t := range explained.Tools {
		for _, c := range t.Commands {
			if !slices.ContainsFunc(t.Overridden, func(by enplace.Override) bool { return slices.Contains(by.Commands, c) }) {
				selected[c] = t.Resolved
			}
		}
	}
	for _, i := range set.Items {
		if i.Status != enplace.ItemInstalled {
			s.t.Errorf("%s: %s of %s is %s: %s\n%s", conv, i.Key, i.Scope, i.Status, i.Error, i.ErrorTail)
			continue
		}
		s.checkItem(conv, i)
	}
	for _, c := range []string{"paint", "brush", "json5"} {
		got := s.ask(conv, c+" --version 2>&1")
		version, ok := selected[c]
		if ok && got != version {
			s.t.Errorf("%s: %s is %s, and says %q", conv, c, version, got)
		}
		if !ok && !strings.Contains(got, "no such command") && !strings.Contains(got, "not found") {
			s.t.Errorf("%s: %s is in no item of the set, and says %q", conv, c, got)
		}
		if known.Person != "ada" { // whose computer has the sets of two conversations
			if bare := s.ask(conv, "env -i /opt/mise/shims/"+c+" --version 2>&1"); ok && bare != version || !ok && !strings.Contains(bare, c) {
				s.t.Errorf("%s: without an environment %s says %q, with one %q", conv, c, bare, got)
			}
		}
	}
}

// checkItem compares what an item's definition says with what is there.
func (s *soak) checkItem(conv string, i enplace.InstalledItem) {
	n := slices.IndexFunc(s.plugins, func(p *plugin) bool { return p.scope == i.Scope })
	f, ok := s.plugins[n].items[i.Key]
	if !ok {
		s.t.Errorf("%s: %s of %s is declared no more", conv, i.Key, i.Scope)
		return
	}
	if f.writes {
		if got, want := s.ask(conv, program(i.Scope, i.Key)), hashOf(f.setup(i.Scope, i.Key)); got != want {
			s.t.Errorf("%s: the program of %s of %s was written by %q, and version %d of its script is %s", conv, i.Key, i.Scope, got, f.nonce, want)
		}
	}
	_, version, _ := strings.Cut(f.tool, "@")
	if f.tool != "" && (len(i.Tools) != 1 || i.Tools[0].Resolved != version || len(i.Tools[0].Commands) == 0) {
		s.t.Errorf("%s: %s of %s asks for %s and has %+v", conv, i.Key, i.Scope, f.tool, i.Tools)
	}
}

// checkRecords compares what the server says of a set in several places.
func (s *soak) checkRecords(conv enplace.Conversation, set enplace.ConversationSet) {
	ctx := s.t.Context()
	computer, err := s.c.Computer(ctx, conv.Computer)
	s.must(err)
	explained, err := s.c.ExplainSet(ctx, conv.ID)
	s.must(err)
	if len(set.Items) == 0 {
		return
	}
	n := slices.IndexFunc(computer.Sets, func(c enplace.ComputerSet) bool { return c.Hash == set.Hash })
	if n < 0 {
		s.t.Errorf("%s: the computer does not know its set", conv.ID)
		return
	}
	if c := computer.Sets[n]; c.AppliedAt == nil || c.RetryAt != nil || len(c.Items) != len(set.Items) {
		s.t.Errorf("%s: the computer has %+v for %+v", conv.ID, c, set.Items)
	}
	if explained.Hash != set.Hash {
		s.t.Errorf("%s: the set is %s, and explained as %s", conv.ID, set.Hash, explained.Hash)
	}
	for _, t := range explained.Tools {
		if t.Status != enplace.ItemInstalled || t.ItemStatus != enplace.ItemInstalled || t.Resolved == "" {
			s.t.Errorf("%s: explained as %+v", conv.ID, t)
		}
	}
}

// checkListed compares a person's set with what the items of the person's scope say of it.
func (s *soak) checkListed(conv string, set enplace.ConversationSet) {
	listed, err := s.c.ListItems(s.t.Context(), enplace.PersonScope(conv), enplace.Page{Limit: enplace.MaxPageSize})
	s.must(err)
	for _, l := range listed.Items {
		has := slices.ContainsFunc(set.Items, func(i enplace.InstalledItem) bool { return i.Key == l.Key && i.Scope == l.Scope })
		if has != l.InSet {
			s.t.Errorf("%s: %s of %s is listed as %q, and the set has it: %t", conv, l.Key, l.Scope, l.Reason, has)
		}
	}
}

// ask gives what a command prints on a conversation's computer. An item that is not told must not be told of either.
func (s *soak) ask(conv, command string) string {
	res, err := s.c.ExecConversation(s.t.Context(), conv, script(command))
	if err != nil {
		s.t.Errorf("%s: %s: %v", conv, command, err)
	}
	if len(res.Notices) > 0 {
		s.t.Errorf("%s: %s: %+v", conv, command, res.Notices)
	}
	return strings.TrimSpace(res.Stdout)
}

// rest waits until the idle computers are stopped, and looks whether the server went back to what it was.
func (s *soak) rest(goroutines int) {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for {
		l, err := s.c.ListComputers(ctx, enplace.Page{})
		s.must(err)
		if !slices.ContainsFunc(l.Items, func(c enplace.Computer) bool { return c.State == enplace.ComputerRunning }) {
			break
		}
		pause(ctx, 200*time.Millisecond)
	}
	s.look()
	now, half, last := s.metric("go_goroutines"), s.memory[len(s.memory)/2], s.memory[len(s.memory)-1]
	s.t.Logf("goroutines: %d at the start, %d at the end; the server's memory in MiB, without a kill: %d, half way %d, at the end %d",
		goroutines, now, s.memory[0]>>20, half>>20, last>>20)
	if now > goroutines+150 { // sandboxes that wait and connections that are kept have some
		s.t.Errorf("the server had %d goroutines, and has %d", goroutines, now)
	}
	if last > half+half/2+64<<20 {
		s.t.Errorf("the server's memory grew from %d to %d MiB", half>>20, last>>20)
	}
	for line := range s.logged {
		s.t.Errorf("logged: %s", line)
	}
}

// noGroups proves that no control group of a sandbox that was seen is left.
func (s *soak) noGroups() {
	for name := range s.boxes {
		for _, pattern := range []string{"/sys/fs/cgroup/enplace/%s", "/sys/fs/cgroup/*/enplace/%s"} {
			if left, err := filepath.Glob(fmt.Sprintf(pattern, name)); err != nil || len(left) > 0 {
				s.t.Errorf("%v is left, %v", left, err)
			}
		}
	}
}
