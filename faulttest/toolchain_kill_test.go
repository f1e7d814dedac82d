package faulttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"enplace"
	"enplace/enplacetest"
)

// village is a server with one item of the organisation, which everybody's computer has.
type village struct {
	sweep
	shop *shop
	all  *plugin
	half *folder // the item, had the sync under way been done
}

const common = "common" // the item

func newVillage(t *testing.T) *village {
	t.Helper()
	v := &village{shop: newShop(t)}
	v.sweep = sweep{t: t, srv: enplacetest.Start(t, append(ofShop, "--set-retry", "1s", "--collect-every", "1s")...)}
	v.all = &plugin{scope: enplace.Organisation, items: map[string]folder{common: {writes: true, script: v.shop.hold()}}}
	if err := v.all.attach(t.Context(), v.srv.Client); err != nil {
		t.Fatal(err)
	}
	return v
}

// held is the name under which scripts ask the shop, which lets them wait for as long as it is slow.
const held = "held"

// hold is the part of a script that asks the shop.
func (s *shop) hold() string {
	return fmt.Sprintf("python3 -c 'import urllib.request as u; u.urlopen(\"%s/%s-1.tgz\").read()'", s.url, held)
}

// await returns once the shop was asked for all of these.
func (s *shop) await(t *testing.T, names ...string) {
	t.Helper()
	late := time.After(2 * time.Minute)
	for len(names) > 0 {
		select {
		case name := <-s.asked:
			if i := slices.Index(names, name); i >= 0 {
				names = slices.Delete(names, i, i+1)
			}
		case <-late:
			t.Fatalf("nobody asked for %v", names)
		}
	}
}

// home checks a conversation's computer: the set is installed and the item's program is of the item as it is.
func (v *village) home(ctx context.Context, conv string) enplace.ConversationSet {
	v.t.Helper()
	want := hashOf(v.all.items[common].setup(v.all.scope, common))
	res, err := v.srv.Client.ExecConversation(ctx, conv, script(program(v.all.scope, common)))
	if err != nil || strings.TrimSpace(res.Stdout) != want {
		v.t.Errorf("%s: %+v, %v; the program is to say %s", conv, res, err, want)
	}
	set, err := v.srv.Client.Set(ctx, conv)
	if err != nil {
		v.t.Error(err)
	}
	for _, i := range set.Items {
		if i.Status != enplace.ItemInstalled {
			v.t.Errorf("%s: %+v", conv, i)
		}
	}
	return set
}

// volumes proves that no volume is left without its computer. One that was never started has none yet.
func (v *village) volumes(ctx context.Context) {
	v.t.Helper()
	l, err := v.srv.Client.ListComputers(ctx, enplace.Page{})
	if err != nil {
		v.t.Error(err)
	}
	known := map[string]bool{}
	for _, c := range l.Items {
		known["computer_"+strings.Replace(c.ID, ":", "_", 1)] = true
	}
	entries, err := os.ReadDir(filepath.Join(v.srv.Data, "sandboxes", "durables"))
	if err != nil {
		v.t.Error(err)
	}
	for _, e := range entries {
		if !known[e.Name()] {
			v.t.Errorf("the volume %s is nobody's", e.Name())
		}
	}
}

// bundle proves that a set's bundle is built, and there.
func (v *village) bundle(ctx context.Context, hash string) enplace.Bundle {
	v.t.Helper()
	b, err := v.srv.Client.WaitBundle(ctx, hash)
	if err != nil || b.Status != enplace.BundleReady {
		v.t.Errorf("bundle %+v, %v", b, err)
		return b
	}
	if _, err := os.Stat(filepath.Join(v.srv.Data, "images", "sha256", b.Image.Hex())); err != nil {
		v.t.Errorf("a bundle that is ready: %v", err)
	}
	return b
}

// TestToolchainKilled kills the server in the middle of a script and of mise on computers and of a bundle's build, then while
// computers are made from the bundle; and a computer in the middle of a script.
func TestToolchainKilled(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c := v.srv.Client
	for _, login := range []string{"ada", "bob"} {
		direct(ctx, t, c, login)
	}
	painter := &plugin{scope: "person:bob", items: map[string]folder{"paint": v.shop.from("paint", "1.5")}}
	if err := painter.attach(ctx, c); err != nil {
		t.Fatal(err)
	}
	v.shop.set(func() { v.shop.slow[held] = true })
	var group sync.WaitGroup
	begin := func(conv string) {
		group.Go(func() {
			if _, err := c.ExecConversation(ctx, conv, script("true")); err == nil {
				t.Errorf("%s: a command ended well beside an installation that hangs", conv)
			}
		})
	}
	begin("ada")
	v.shop.await(t, held, held) // her computer, and the bundle
	begin("bob")                // whose second item waits for the first, which another script keeps waiting
	v.shop.await(t, held)
	v.installing(ctx, "bob", common) // it may have been his bundle that asked
	v.srv.Kill()
	v.note()
	group.Wait()
	v.shop.set(func() { v.shop.slow[held] = false })
	v.srv.Restart()
	v.settled(ctx)
	for _, conv := range []string{"ada", "bob"} {
		v.interrupted(ctx, conv, common)
	}
	ready := v.bundle(ctx, v.home(ctx, "ada").Hash)

	v.shop.set(func() { v.shop.slow["paint"] = true })
	begin("bob")
	v.installing(ctx, "bob", "paint")
	v.srv.Kill()
	v.note()
	group.Wait()
	v.shop.set(func() { v.shop.slow["paint"] = false })
	v.srv.Restart()
	v.settled(ctx)
	v.interrupted(ctx, "bob", "paint")
	v.bundle(ctx, v.home(ctx, "bob").Hash)
	if res, err := c.ExecConversation(ctx, "bob", script("paint && env -i /opt/mise/shims/paint")); err != nil || res.Stdout != "1.5\n1.5\n" {
		t.Errorf("%+v, %v", res, err)
	}

	v.restore(ctx, ready)
	v.boxKilled(ctx)
	v.volumes(ctx)
	last := processes(t, v.srv.Data)
	v.srv.Stop()
	gone(t, last)
	nothingLeft(t, v.srv.Data)
}

func (v *village) status(ctx context.Context, conv, key string) enplace.ItemStatus {
	v.t.Helper()
	set, err := v.srv.Client.Set(ctx, conv)
	if err != nil {
		v.t.Fatal(err)
	}
	i := slices.IndexFunc(set.Items, func(i enplace.InstalledItem) bool { return i.Key == key })
	if i < 0 {
		v.t.Fatalf("%s has no %s", conv, key)
	}
	return set.Items[i].Status
}

// installing waits until an item is being installed.
func (v *village) installing(ctx context.Context, conv, key string) {
	v.t.Helper()
	for v.status(ctx, conv, key) != enplace.ItemInstalling {
		if ctx.Err() != nil {
			v.t.Fatalf("%s: %s is not being installed", conv, key)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (v *village) interrupted(ctx context.Context, conv, key string) {
	v.t.Helper()
	if got := v.status(ctx, conv, key); got != enplace.ItemInterrupted {
		v.t.Errorf("%s: %s was being installed, and is %s after the kill", conv, key, got)
	}
}

// restore kills the server while computers are made from a bundle.
func (v *village) restore(ctx context.Context, bundle enplace.Bundle) {
	for n := range 3 {
		conv := fmt.Sprintf("new-%d", n)
		direct(ctx, v.t, v.srv.Client, conv)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = v.srv.Client.ExecConversation(ctx, conv, script("true")) // it is killed
		}()
		time.Sleep(time.Duration(rand.IntN(700)) * time.Millisecond) //nolint:gosec // moments, not a wait for anything
		v.srv.Kill()
		v.note()
		<-done
		v.srv.Restart()
		v.settled(ctx)
		v.home(ctx, conv)
		computer, err := v.srv.Client.Computer(ctx, string(enplace.PersonScope(conv)))
		if err != nil || computer.Bundle != bundle.Image {
			v.t.Errorf("%s: %v, bundle %q, not %q", conv, err, computer.Bundle, bundle.Image)
		}
	}
}

// boxKilled kills process 1 of a computer in the middle of a script.
func (v *village) boxKilled(ctx context.Context) {
	direct(ctx, v.t, v.srv.Client, "eve")
	own := &plugin{scope: "person:eve", items: map[string]folder{"own": {writes: true, script: v.shop.hold()}}}
	if err := own.attach(ctx, v.srv.Client); err != nil {
		v.t.Fatal(err)
	}
	v.shop.set(func() { v.shop.slow[held] = true })
	defer v.shop.set(func() { v.shop.slow[held] = false })
	ended := make(chan error, 1)
	go func() {
		_, err := v.srv.Client.ExecConversation(ctx, "eve", script("true"))
		ended <- err
	}()
	for v.status(ctx, "eve", "own") != enplace.ItemInstalling && v.status(ctx, "eve", common) != enplace.ItemInstalling {
		time.Sleep(10 * time.Millisecond)
	}
	if err := syscall.Kill(firstOf(v.t, v.srv.Data, "computer_person_eve"), syscall.SIGKILL); err != nil {
		v.t.Fatal(err)
	}
	if err := <-ended; enplace.KindOf(err) != enplace.KindConflict {
		v.t.Errorf("a command whose computer died while its set was installed: %v", err)
	}
	v.shop.set(func() { v.shop.slow[held] = false })
	v.home(ctx, "eve")
	res, err := v.srv.Client.ExecConversation(ctx, "eve", script(program(own.scope, "own")))
	if want := hashOf(own.items["own"].setup(own.scope, "own")); err != nil || strings.TrimSpace(res.Stdout) != want {
		v.t.Errorf("%+v, %v", res, err)
	}
}

// firstOf gives process 1 of the sandbox with an id.
func firstOf(t *testing.T, data, id string) int {
	t.Helper()
	owners, err := filepath.Glob(filepath.Join(data, "sandboxes", "sandboxes", "*", "owner.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owners {
		if text, err := os.ReadFile(o); err != nil || !strings.Contains(string(text), `"`+id+`"`) {
			continue
		}
		name := filepath.Base(filepath.Dir(o))
		for _, p := range processes(t, data) {
			group, _ := os.ReadFile("/proc/" + p.pid + "/cgroup") // it may have ended
			status, _ := os.ReadFile("/proc/" + p.pid + "/status")
			if strings.Contains(string(group), name) && strings.Contains(string(status), "\t1\nNSpgid:") {
				pid, _ := strconv.Atoi(p.pid) // a folder of /proc
				return pid
			}
		}
	}
	t.Fatalf("no sandbox %s runs", id)
	return 0
}

// TestToolchainKillPoints kills the server at system calls of one sequence: a computer that is made from a bundle, a sync, what
// that changes on the computer, the new bundle, a reset, and the computer after it.
func TestToolchainKillPoints(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	points := chosen(t, v.killed(point{}).Kinds)
	if os.Getenv(pointsVar) == "" {
		points = points[:2]
	}
	hits := 0
	for _, at := range points {
		seen := v.killed(at)
		if seen.Killed != "" {
			hits++
		}
		if t.Failed() {
			t.Fatalf("killed on entry to %s", seen.Killed)
		}
		t.Logf("killed on entry to %s", seen.Killed)
	}
	t.Logf("%d of %d points were reached", hits, len(points))
	v.srv.Stop()
	nothingLeft(t, v.srv.Data)
}

// killed kills at a point of the sequence, and checks what is there afterwards.
func (v *village) killed(at point) traced {
	ctx, cancel := context.WithTimeout(v.t.Context(), 2*time.Minute)
	defer cancel()
	v.runs++
	conv := fmt.Sprintf("p%d", v.runs)
	direct(ctx, v.t, v.srv.Client, "before")
	direct(ctx, v.t, v.srv.Client, conv)
	v.bundle(ctx, v.home(ctx, "before").Hash)
	tr := startTracer(v.t, serverPID(v.t, v.srv.Data), at)
	err := v.sequence(ctx, conv)
	seen := v.kill(tr)
	if err != nil && (seen.Killed == "" || !unanswered(err)) {
		v.t.Errorf("before %s: %v (%s)", at, err, enplace.KindOf(err))
	}
	v.srv.Restart()
	v.settled(ctx)
	v.volumes(ctx)
	v.declared(ctx)
	for _, c := range []string{conv, "before"} {
		v.bundle(ctx, v.home(ctx, c).Hash)
		if err := v.srv.Client.ResetComputer(ctx, string(enplace.PersonScope(c))); err != nil {
			v.t.Error(err)
		}
	}
	v.volumes(ctx)
	return seen
}

func (v *village) sequence(ctx context.Context, conv string) error {
	c := v.srv.Client
	if _, err := c.ExecConversation(ctx, conv, script("true")); err != nil {
		return err
	}
	next := v.all.items[common]
	next.nonce++
	v.half = &next
	with := &plugin{scope: v.all.scope, id: v.all.id, items: map[string]folder{common: next}}
	if err := with.sync(ctx, c); err != nil {
		return err
	}
	v.all.items[common], v.half = next, nil
	if _, err := c.ExecConversation(ctx, conv, script("true")); err != nil {
		return err
	}
	set, err := c.Set(ctx, conv)
	if err != nil {
		return err
	}
	if _, err := c.WaitBundle(ctx, set.Hash); err != nil {
		return err
	}
	if err := c.ResetComputer(ctx, string(enplace.PersonScope(conv))); err != nil {
		return err
	}
	_, err = c.ExecConversation(ctx, conv, script("true"))
	return err
}

// declared holds the server to the item that was acknowledged, or was under way.
func (v *village) declared(ctx context.Context) {
	item, err := v.srv.Client.Item(ctx, v.all.scope, common)
	if err != nil {
		v.t.Fatal(err)
	}
	text, _ := item.File(enplace.ItemScriptName)
	switch {
	case text == v.all.items[common].setup(v.all.scope, common):
	case v.half != nil && text == v.half.setup(v.all.scope, common):
		v.all.items[common] = *v.half
	default:
		v.t.Errorf("an item that nobody declared:\n%s", text)
	}
	v.half = nil
}
