package sandboxtest

import (
	"context"
	"strings"
	"testing"

	"enplace/internal/sandbox"
)

func testMemory(t *testing.T, h Harness) {
	if !h.Runtime.Abilities().Memory {
		h.unable(t, "this adapter cannot limit memory on this host")
	}
	s := h.Spec("memory")
	s.Limits.MemoryMiB = 64
	b := h.Start(t, s)
	if h.Runtime.Abilities().OwnKernel {
		ends(t, b, "exec probe memory 512")
	} else {
		outOfMemory(t, b)
	}
	s.ID, s.Limits.MemoryMiB = "memory-more", 1024
	want(t, h.Start(t, s), "probe memory 512", "touched 536870912\nok")
}

// outOfMemory expects the process that uses up the memory to be killed, and no other.
func outOfMemory(t *testing.T, b sandbox.Sandbox) {
	t.Helper()
	if r := sh(t, b, "exec probe memory 512"); r.Signal != "KILL" {
		t.Errorf("using eight times the memory gave %+v", r)
	}
	want(t, b, "echo alive", "alive")
	stats, err := b.Stats(t.Context())
	check(t, err)
	if stats.OOMKills < 1 || stats.MemoryPeakBytes < 32<<20 || stats.MemoryPeakBytes > 66<<20 {
		t.Errorf("stats: %+v", stats)
	}
}

// ends runs a script that is the end of the sandbox.
func ends(t *testing.T, b sandbox.Sandbox, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := b.Exec(ctx, sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Env: sandbox.BaseEnv(), Dir: sandbox.TaskDir})
	wantIs(t, err, sandbox.ErrStopped)
	select {
	case <-b.Done():
	case <-ctx.Done():
		t.Error("Done is open")
	}
}

func testProcesses(t *testing.T, h Harness) {
	if !h.Runtime.Abilities().Memory {
		h.unable(t, "this adapter cannot limit processes on this host")
	}
	s := h.Spec("processes")
	s.Limits.Processes = 16
	b := h.Start(t, s)
	refused(t, b, "for i in $(seq 500); do sleep 8321 & done", "can't fork", "resource temporarily unavailable")
	stop(t, b)
}

// The limit on disk holds wherever it is written, and is the sandbox's own.
func testDisk(t *testing.T, h Harness) {
	if !h.Runtime.Abilities().Disk {
		h.unable(t, "this adapter cannot limit disk on this host")
	}
	s := h.Spec("disk")
	s.Limits.DiskMiB = 64
	b := h.Start(t, s)
	want(t, b, "dd if=/dev/zero of=/task/fits bs=1M count=56 2>/dev/null && echo fits", "fits")
	for _, path := range []string{"/task/big", "/big", "/tmp/big"} {
		refused(t, b, "dd if=/dev/zero of="+path+" bs=1M count=64", "no space left")
	}
	stats, err := b.Stats(t.Context())
	check(t, err)
	if limit := int64(s.Limits.DiskMiB) << 20; stats.DiskUsedBytes < 56<<20 || stats.DiskUsedBytes > stats.DiskLimitBytes ||
		stats.DiskLimitBytes < limit || stats.DiskLimitBytes > limit*5/4 {
		t.Errorf("stats: %+v", stats)
	}
	want(t, b, "rm /task/* /big /tmp/big; echo small > /task/small && cat /task/small", "small")
	if r := sh(t, h.Start(t, h.Spec("disk-other")), "dd if=/dev/zero of=/task/big bs=1M count=100"); r.Code != 0 {
		t.Errorf("a neighbour cannot write: %s", strings.TrimSpace(r.err))
	}
}
