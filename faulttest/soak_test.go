package faulttest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"enplace"
	"enplace/client"
	"enplace/enplacetest"
)

// Variables of the soak: ENPLACE_SOAK=30m go test ./faulttest -run Soak -timeout 2h -v, and the seed of a run to be had again as
// far as chance allows.
const (
	soakVar = "ENPLACE_SOAK"
	seedVar = "ENPLACE_SOAK_SEED"
)

// TestSoak changes what is declared at random while commands run, computers are reset and die, and the server is killed; then
// everything is mended, and every computer must be what its sets say.
func TestSoak(t *testing.T) {
	t.Parallel()
	length := 25 * time.Second
	if s := os.Getenv(soakVar); s != "" {
		var err error
		if length, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(number(t, seedVar, int(time.Now().UnixNano()))) //nolint:gosec // random moments, not secrets
	t.Logf("seed %d", seed)
	s := newSoak(t, seed)
	goroutines := s.metric("go_goroutines")
	s.run(length)
	s.mend()
	s.settle()
	for _, c := range residents {
		s.check(c.id)
	}
	s.rest(goroutines)
	s.srv.Stop()
	gone(t, s.processes)
	nothingLeft(t, s.srv.Data)
	s.noGroups()
	t.Logf("%d changes, %d commands, %d kills of the server, %d of computers", s.changes.Load(), s.commands.Load(), s.kills.Load()/2, s.deaths)
}

// residents are the conversations of a soak. Ada's two read different chains on one computer.
var residents = []struct {
	id string
	in enplace.PutConversation
}{
	{"ada-data", enplace.PutConversation{Kind: enplace.ConversationDirect, Person: "ada", Team: "data"}},
	{"ada-ops", enplace.PutConversation{Kind: enplace.ConversationDirect, Person: "ada", Team: "ops"}},
	{"bob", enplace.PutConversation{Kind: enplace.ConversationDirect, Person: "bob"}},
	{"cy", enplace.PutConversation{Kind: enplace.ConversationDirect, Person: "cy"}},
	{"hall", enplace.PutConversation{Kind: enplace.ConversationRoom, Room: "hall"}},
	{"lab", enplace.PutConversation{Kind: enplace.ConversationRoom, Room: "lab"}},
}

// soak is a server with what was declared on it.
type soak struct {
	t       *testing.T
	srv     *enplacetest.Server
	c       *client.Client // the server keeps its address from the second start on
	shop    *shop
	rnd     *rand.Rand // of whoever declares
	plugins []*plugin

	kills     atomic.Int64 // raised before a kill of the server, and when it is back: odd while it is away
	changes   atomic.Int64
	commands  atomic.Int64
	deaths    int
	processes []process // of sandboxes, seen at some time
	boxes     map[string]bool
	logged    map[string]bool // errors of our own in the server's log
	memory    []int64         // of the server that ran last, as time goes by
}

func newSoak(t *testing.T, seed uint64) *soak {
	t.Helper()
	ctx := t.Context()
	s := &soak{t: t, shop: newShop(t), boxes: map[string]bool{}, logged: map[string]bool{}, rnd: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // likewise
	s.srv = enplacetest.Start(t, append(ofShop, "--set-retry", "2s", "--computer-idle", "4s", "--open-metrics", "--collect-every", "5s")...)
	s.c = s.srv.Client
	for _, login := range []string{"ada", "bob", "cy"} {
		_, err := s.c.PutPerson(ctx, login)
		s.must(err)
	}
	for team, people := range map[string][]string{"data": {"ada", "bob"}, "ops": {"ada"}} {
		_, err := s.c.PutTeam(ctx, team, enplace.PutTeam{People: people})
		s.must(err)
	}
	for room, in := range map[string]enplace.PutRoom{"hall": {Internal: true}, "lab": {Team: "data"}} {
		_, err := s.c.PutRoom(ctx, room, in)
		s.must(err)
	}
	for _, c := range residents {
		_, err := s.c.PutConversation(ctx, c.id, c.in)
		s.must(err)
	}
	writes := folder{writes: true}
	both := s.shop.from("brush", "1.0")
	both.writes = true
	s.plugins = []*plugin{
		{scope: enplace.Organisation, items: map[string]folder{"base": writes, "paint": s.shop.from("paint", "1.0"), "json": {tool: "npm:json5@2.2.3"}}},
		{scope: "team:data", items: map[string]folder{"etl": both, "shared": writes}},
		{scope: "team:ops", items: map[string]folder{"deploy": writes, "ops-paint": s.shop.from("paint", "2.0")}},
		{scope: "person:ada", items: map[string]folder{"own": writes}},
		{scope: "person:bob", items: map[string]folder{"own": writes}},
	}
	for _, p := range s.plugins {
		s.must(p.attach(ctx, s.c))
	}
	return s
}

func (s *soak) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// run does it all for so long. The server is not killed in the last third, so that what grows has time to.
func (s *soak) run(length time.Duration) {
	began := time.Now()
	ctx, cancel := context.WithDeadline(s.t.Context(), began.Add(length))
	defer cancel()
	rnd := rand.New(rand.NewPCG(s.rnd.Uint64(), 0)) //nolint:gosec // likewise
	var group sync.WaitGroup
	for n := range 3 {
		rnd := rand.New(rand.NewPCG(s.rnd.Uint64(), uint64(n))) //nolint:gosec // likewise
		group.Go(func() { s.use(ctx, rnd) })
	}
	group.Go(func() { s.declare(ctx) })
	for n := 0; ctx.Err() == nil; n++ {
		pause(ctx, time.Duration(1000+rnd.IntN(5000))*time.Millisecond)
		if s.look(); n%4 != 1 {
			s.killComputer(rnd)
		} else if time.Since(began) < length*2/3 {
			s.kills.Add(1)
			s.srv.Kill()
			s.srv.Restart()
			s.kills.Add(1)
			s.memory = nil
		}
	}
	group.Wait()
}

// pause lets time go by: moments, not a wait for anything.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// look notes what there is of sandboxes, to be missed at the end, and the server's memory.
func (s *soak) look() {
	for _, p := range processes(s.t, s.srv.Data) {
		if !slices.Contains(s.processes, p) {
			s.processes = append(s.processes, p)
		}
	}
	s.processes = slices.DeleteFunc(s.processes, func(p process) bool { return startOf(p.pid) != p.started })
	names, _ := filepath.Glob(filepath.Join(s.srv.Data, "sandboxes", "sandboxes", "*")) // a pattern of ours
	for _, n := range names {
		s.boxes[filepath.Base(n)] = true
	}
	for line := range strings.Lines(s.srv.Log()) {
		if strings.Contains(line, `"level":"ERROR"`) && !strings.Contains(line, killedWhenMade) {
			s.logged[strings.TrimSpace(line)] = true
		}
	}
	s.memory = append(s.memory, serverMemory(s.t, s.srv.Data))
}

// killComputer kills process 1 of a sandbox: mostly of a computer, now and then of a bundle's build or of one that waits.
func (s *soak) killComputer(rnd *rand.Rand) {
	var first []int
	for _, p := range s.processes {
		status, err := os.ReadFile("/proc/" + p.pid + "/status")
		pid, no := strconv.Atoi(p.pid)
		if err == nil && no == nil && startOf(p.pid) == p.started && strings.Contains(string(status), "\t1\nNSpgid:") {
			first = append(first, pid)
		}
	}
	if len(first) > 0 {
		_ = syscall.Kill(first[rnd.IntN(len(first))], syscall.SIGKILL) // it may have ended
		s.deaths++
	}
}

// try does something, and judges how it failed: a kill of the server excuses that nobody answered, and these kinds are answers to
// what chance asks for.
func (s *soak) try(what string, do func() error) {
	before := s.kills.Load()
	err := do()
	kind := enplace.KindOf(err)
	if err == nil || slices.Contains([]enplace.Kind{enplace.KindConflict, enplace.KindForbidden, enplace.KindNotFound, enplace.KindInvalid}, kind) {
		return
	}
	if s.kills.Load() != before || before%2 != 0 {
		return
	}
	said := s.logOf(err)
	if said == "" && s.kills.Load() != before || strings.Contains(said, killedWhenMade) {
		return
	}
	s.t.Errorf("%s: %s: %v\n%s", what, kind, err, said)
}

// killedWhenMade is in the server's log where a sandbox that was being made was killed: that is an error of the server's own.
const killedWhenMade = "making a sandbox"

// logOf gives what the server's log says of the request that failed so. It is written when the answer is on its way already, and
// never where the server was killed just then.
func (s *soak) logOf(err error) string {
	at := strings.LastIndex(err.Error(), "req_")
	for began := time.Now(); at >= 0 && time.Since(began) < 10*time.Second; {
		for line := range strings.Lines(s.srv.Log()) {
			if strings.Contains(line, err.Error()[at:]) {
				return line
			}
		}
		pause(s.t.Context(), 50*time.Millisecond)
	}
	return ""
}

// use runs commands of any conversation, on anyone's behalf.
func (s *soak) use(ctx context.Context, rnd *rand.Rand) {
	for ctx.Err() == nil {
		conv := residents[rnd.IntN(len(residents))].id
		in := script("for c in paint brush json5; do $c --version; done >/dev/null 2>&1; echo used")
		in.Timeout = 5 + rnd.IntN(30)
		in.Trigger = []enplace.Trigger{enplace.TriggerPerson, enplace.TriggerAgent, enplace.TriggerSchedule, ""}[rnd.IntN(4)]
		s.try("a command of "+conv, func() error {
			res, err := s.c.ExecConversation(s.t.Context(), conv, in)
			if err == nil && res.Stdout != "used\n" && !res.TimedOut && res.ExitCode < 128 {
				s.t.Errorf("%s: %+v", conv, res)
			}
			return err
		})
		s.commands.Add(1)
		pause(ctx, time.Duration(rnd.IntN(2000))*time.Millisecond)
	}
}

// declare changes what is declared, and asks for what can be asked for.
func (s *soak) declare(ctx context.Context) {
	for ctx.Err() == nil {
		if do := s.change(); do != nil {
			what := fmt.Sprintf("change %d", s.changes.Add(1))
			s.try(what, do)
		}
		pause(ctx, time.Duration(s.rnd.IntN(1500))*time.Millisecond)
	}
}

func (s *soak) change() func() error {
	ctx, rnd := s.t.Context(), s.rnd
	conv := residents[rnd.IntN(len(residents))]
	p := s.plugins[rnd.IntN(len(s.plugins))]
	key := keys(p)[rnd.IntN(len(p.items))]
	switch n := rnd.IntN(20); {
	case n < 8:
		s.rewrite(p, key)
		return func() error { return p.sync(ctx, s.c) }
	case n < 10:
		return func() error { return second(s.c.UpdateItem(ctx, p.scope, key, s.offer(p))) }
	case n < 12:
		nearer := []enplace.Scope{"team:data", "team:ops", "person:ada", "person:bob", "person:cy"}[rnd.IntN(5)]
		state := []enplace.ItemChoice{enplace.ChoiceAdded, enplace.ChoiceOff, enplace.ChoiceInherit}[rnd.IntN(3)]
		return func() error { return second(s.c.PutChoice(ctx, nearer, key, enplace.PutChoice{State: state})) }
	case n < 14:
		policies := []enplace.Egress{{Policy: enplace.EgressOpen}, {Policy: enplace.EgressOpen}, {Policy: enplace.EgressNone}, {Policy: enplace.EgressAllowlist, Hosts: []string{"registry.npmjs.org"}}}
		e := policies[rnd.IntN(len(policies))]
		return func() error { return second(s.c.PutEgress(ctx, p.scope, e)) }
	case n == 14:
		return func() error { return second(s.c.RefreshSet(ctx, conv.id)) }
	case n == 15:
		return func() error {
			set, err := s.c.Set(ctx, conv.id)
			if err != nil {
				return err
			}
			return second(s.c.RetrySet(ctx, set.Hash))
		}
	case n == 16:
		id := enplace.Conversation{Kind: conv.in.Kind, Person: conv.in.Person, Room: conv.in.Room}.ComputerID()
		return func() error { return s.c.ResetComputer(ctx, id) }
	case n == 17:
		people := [][]string{{"ada", "bob"}, {"ada"}}[rnd.IntN(2)]
		return func() error { return second(s.c.PutTeam(ctx, "data", enplace.PutTeam{People: people})) }
	case n == 18:
		in := enplace.PutRoom{Team: []string{"data", "ops", ""}[rnd.IntN(3)], Internal: rnd.IntN(2) == 0}
		return func() error { return second(s.c.PutRoom(ctx, "lab", in)) }
	}
	shut := rnd.IntN(3) == 0
	s.shop.set(func() { s.shop.shut = shut })
	return nil
}

func second[T any](_ T, err error) error { return err }

func keys(p *plugin) (all []string) {
	for key := range p.items {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// offer changes how an item is offered; it is locked by the organisation only, and seldom.
func (s *soak) offer(p *plugin) (in enplace.UpdateItem) {
	switch s.rnd.IntN(3) {
	case 0:
		in.Mode = new([]enplace.ItemMode{enplace.ItemAdded, enplace.ItemAdded, enplace.ItemAvailable}[s.rnd.IntN(3)])
	case 1:
		in.Enabled = new(s.rnd.IntN(3) > 0)
	default:
		if p.scope == enplace.Organisation {
			in.Locked = new(s.rnd.IntN(3) == 0)
		}
	}
	return in
}

// faults are what scripts do to their computers. One hangs for longer than commands wait.
var faults = []string{
	"", "", "", "sleep 1", "sleep 3", "echo no such mirror >&2; exit 3", "kill -9 $$", "sleep 40", "setsid sleep 1000 & sleep 2000 &",
	"rm -rf /opt/mise/installs/http-paint; exit 4", "rm -rf /opt/mise/shims",
}

// rewrite changes an item, adds one or takes one away. Versions come back: what was there before is there again.
func (s *soak) rewrite(p *plugin, key string) {
	f := p.items[key]
	switch n := s.rnd.IntN(10); {
	case n == 0 && len(p.items) > 1:
		delete(p.items, key)
		return
	case n == 1:
		key = []string{"shared", "extra"}[s.rnd.IntN(2)] // the first may be another scope's as well
		f = folder{writes: true}
	case n == 2:
		f.broken = !f.broken
	}
	if f.writes {
		f.nonce, f.script = s.rnd.IntN(3), faults[s.rnd.IntN(len(faults))]
	}
	name, _, _ := strings.Cut(f.tool, "@")
	switch name {
	case "http:paint", "http:brush":
		f.tool = name + "@" + []string{"1.0", "1.1", "2.0", "3.0"}[s.rnd.IntN(4)]
	case "npm:json5":
		f.tool = name + "@" + []string{"2.2.2", "2.2.3", "9.9.9"}[s.rnd.IntN(3)] // the last is not there
	}
	p.items[key] = f
}

// metric reads a number from /metrics.
func (s *soak) metric(name string) int {
	s.t.Helper()
	resp, err := http.Get(s.srv.URL + "/metrics")
	s.must(err)
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	s.must(err)
	for line := range strings.Lines(string(page)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			s.must(err)
			return int(n)
		}
	}
	s.t.Fatalf("/metrics has no %s", name)
	return 0
}
