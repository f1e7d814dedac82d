package faulttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"enplace/enplacetest"
)

// killsVar asks for a long run: ENPLACE_KILLS=500 go test ./faulttest -run Kill -timeout 2h.
const killsVar = "ENPLACE_KILLS"

// TestKill kills the server at random moments while four workers import, build, activate, delete and run tasks.
func TestKill(t *testing.T) {
	kills := 5
	if s := os.Getenv(killsVar); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatalf("%s: %v", killsVar, err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // random moments, not secrets
	srv := enplacetest.Start(t)
	ledgers := make([]*ledger, 4)
	for i := range ledgers {
		ledgers[i] = &ledger{t: t, name: fmt.Sprintf("Worker %d", i), rnd: rand.New(rand.NewPCG(seed, uint64(i)+2))} //nolint:gosec // likewise
	}
	for n := range kills {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		var wg sync.WaitGroup
		for _, l := range ledgers {
			wg.Go(func() { l.work(ctx, srv) })
		}
		// Moments, not a wait for anything: the server is to be killed wherever it happens to be.
		time.Sleep(time.Duration(rnd.IntN(2500)) * time.Millisecond)
		sandboxes := processes(t, srv.Data)
		srv.Kill()
		wg.Wait()
		srv.Restart()
		gone(t, sandboxes)
		for _, l := range ledgers {
			wg.Go(func() { l.check(ctx, srv) })
		}
		wg.Wait()
		cancel()
		if t.Failed() {
			t.Fatalf("after %d kills", n+1)
		}
	}
	made := 0
	for _, l := range ledgers {
		made += l.made
	}
	t.Logf("%d kills, %d acknowledged operations", kills, made)
	last := processes(t, srv.Data)
	srv.Stop()
	gone(t, last)
	nothingLeft(t, srv.Data)
}

// process is a process, told from a later one with its number by when it started.
type process struct{ pid, started string }

// processes gives the processes of the server's sandboxes: those whose cgroup is of one of them.
func processes(t *testing.T, data string) []process {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(data, "sandboxes", "sandboxes", "*"))
	if err != nil {
		t.Fatal(err)
	}
	cgroups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var out []process
	for _, file := range cgroups {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		for _, n := range names {
			if strings.Contains(string(b), "/"+filepath.Base(n)) {
				pid := strings.Split(file, "/")[2]
				out = append(out, process{pid, startOf(pid)})
				break
			}
		}
	}
	return out
}

// startOf gives the time a process started, in clock ticks, or "" for one that has ended, also where nobody has asked for its
// status yet.
func startOf(pid string) string {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	if f := strings.Fields(rest); len(f) > 19 && f[0] != "Z" && f[0] != "X" {
		return f[19]
	}
	return ""
}

// gone proves that processes have ended.
func gone(t *testing.T, list []process) {
	t.Helper()
	for _, p := range list {
		if p.started != "" && startOf(p.pid) == p.started {
			line, _ := os.ReadFile("/proc/" + p.pid + "/cmdline")
			t.Errorf("process %s outlived the server that started it: %q", p.pid, line)
		}
	}
}

// nothingLeft proves that a server that has stopped left no mount, loop device, cgroup or folder of a sandbox.
func nothingLeft(t *testing.T, data string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(data, "sandboxes", "sandboxes", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("folders of sandboxes are left: %v %v", left, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, data) {
			t.Errorf("a mount is left: %s", line)
		}
	}
	for _, file := range loops(t) {
		if strings.HasPrefix(file, data) {
			t.Errorf("a loop device is left: %s", file)
		}
	}
}

// loops gives the files behind loop devices.
func loops(t *testing.T) (files []string) {
	t.Helper()
	backing, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range backing {
		if b, err := os.ReadFile(path); err == nil { // it may be freed just now
			files = append(files, strings.TrimSpace(string(b)))
		}
	}
	return files
}
