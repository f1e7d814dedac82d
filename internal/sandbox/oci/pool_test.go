package oci

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"enplace"
	"enplace/internal/sandbox"
)

// shelfOf gives the names of the sandboxes that are ready for the harness's base.
func (h *house) shelfOf(disk int) []string {
	p := h.oci.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	if s := p.shelves[newKey(h.Base, disk)]; s != nil {
		for _, c := range s.ready {
			names = append(names, c.name)
		}
	}
	return names
}

func (h *house) waitForShelf(t *testing.T, disk, n int) []string {
	t.Helper()
	var names []string
	err := poll(t.Context(), func() (bool, error) {
		names = h.shelfOf(disk)
		return len(names) == n, nil
	})
	if err != nil {
		t.Fatalf("%d sandboxes are ready, want %d", len(names), n)
	}
	return names
}

// The pool holds what was asked for, then what demand says, and gives it up when demand has ended.
func TestPoolFollowsDemand(t *testing.T) {
	var skip atomic.Int64 // added to the clock
	h := newHouse(t, runtimeRunc, func(c *Config) {
		c.PoolMax = 2
		c.Now = func() time.Time { return time.Now().Add(time.Duration(skip.Load())) }
	})
	disk := enplace.DefaultTaskLimits.DiskMiB
	h.Runtime.Warm(h.Base, 1)
	ready := h.waitForShelf(t, disk, 1)
	first := h.Start(t, h.Spec("first"))
	if name := first.(*container).name; name != ready[0] {
		t.Errorf("%s was taken, and %s was ready", name, ready[0])
	}
	h.waitForShelf(t, disk, 1)
	for _, id := range []string{"second", "third", "fourth"} {
		h.Start(t, h.Spec(id))
	}
	h.waitForShelf(t, disk, 2)

	skip.Store(int64(2 * idleTime))
	h.Runtime.Warm(h.Base, 0)
	h.waitForShelf(t, disk, 0)
	err := poll(t.Context(), func() (bool, error) {
		h.oci.mu.Lock()
		defer h.oci.mu.Unlock()
		return len(h.oci.all) == 4, nil // those with an owner
	})
	if err != nil {
		t.Error("sandboxes that nobody wants are still there")
	}
}

// A warm sandbox that dies is not given to anybody.
func TestPoolDropsTheDead(t *testing.T) {
	h := newHouse(t, runtimeRunc, nil)
	k := newKey(h.Base, enplace.DefaultTaskLimits.DiskMiB)
	c, err := h.oci.create(t.Context(), k, enplace.DefaultTaskLimits, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.oci.pool.put(c)
	if err := c.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := h.oci.pool.take(k, nil); got != nil {
		t.Errorf("got %s, which is dead", got.name)
	}
}

// A sandbox that is made ahead has the images at hand that its predecessor was claimed with. Whoever mounts others sees
// nothing of them.
func TestPoolStacksAhead(t *testing.T) {
	h := newHouse(t, runtimeRunc, func(c *Config) { c.PoolMax = 2 })
	disk := enplace.DefaultTaskLimits.DiskMiB
	one := []enplace.Digest{h.Pack(t, map[string]string{"one": "1"}), h.Pack(t, map[string]string{"more": "1"})}
	two := []enplace.Digest{h.Pack(t, map[string]string{"two": "2"})}
	look := func(id string, images []enplace.Digest) (stacked bool, saw string) {
		s := h.Spec(id)
		s.Mounts = []sandbox.Mount{{Path: "/env/demo", Images: images}}
		p := h.oci.pool
		p.mu.Lock()
		if shelf := p.shelves[newKey(h.Base, disk)]; shelf != nil && len(shelf.ready) > 0 {
			stacked = shelf.ready[0].has(images)
		}
		p.mu.Unlock()
		box := h.Start(t, s)
		var out strings.Builder
		if _, err := box.Exec(t.Context(), sandbox.Command{Argv: []string{"/bin/ls", "/env/demo"}, Dir: "/", Stdout: &out}); err != nil {
			t.Fatal(err)
		}
		return stacked, out.String()
	}
	look("first", one)
	h.waitForShelf(t, disk, 1)
	if stacked, saw := look("second", one); !stacked || !strings.Contains(saw, "one") || !strings.Contains(saw, "more") {
		t.Errorf("stacked ahead: %v; it saw %q", stacked, saw)
	}
	h.waitForShelf(t, disk, 2)
	if stacked, saw := look("third", two); stacked || strings.Contains(saw, "one") || !strings.Contains(saw, "two") {
		t.Errorf("others stacked ahead: %v; it saw %q", stacked, saw)
	}
}

// Sandboxes that are allowed more disk than there is must not find out by filling it.
func TestNothingStartsOnAFullDisk(t *testing.T) {
	h := newHouse(t, runtimeRunc, func(c *Config) { c.Spare = 1 << 60 })
	_, err := h.Runtime.Start(t.Context(), h.Spec("full"))
	if enplace.KindOf(err) != enplace.KindUnavailable || !strings.Contains(err.Error(), "MiB left") {
		t.Errorf("%v; want it refused as unavailable, with what is left", err)
	}
	if names := h.Runtime.List(); len(names) != 0 {
		t.Errorf("%v is in the books", names)
	}
}
