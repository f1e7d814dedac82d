package oci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"enplace"
)

// The files of version 2 cannot be had on a host with version 1, and the other way round: here they are plain files.
func TestCgroupFiles(t *testing.T) {
	limits := enplace.Limits{MemoryMiB: 256, CPUs: 0.5, Processes: 100}
	for _, c := range []struct {
		name   string
		groups cgroups
		before map[string]string
		after  map[string]string
		peak   int64
		kills  int
	}{
		{
			name:   "version 2",
			groups: cgroups{v2: true, limits: true},
			before: map[string]string{"enplace/x/memory.max": "", "enplace/x/memory.swap.max": "", "enplace/x/cpu.max": "", "enplace/x/pids.max": "",
				"enplace/x/memory.peak": "4096\n", "enplace/x/memory.events": "low 0\noom 3\noom_kill 2\noom_group_kill 1\n"},
			after: map[string]string{"enplace/x/memory.max": "268435456", "enplace/x/memory.swap.max": "0", "enplace/x/cpu.max": "50000 100000",
				"enplace/x/pids.max": "132"},
			peak: 4096, kills: 2,
		},
		{
			name:   "version 2 without swap",
			groups: cgroups{v2: true, limits: true},
			before: map[string]string{"enplace/x/memory.max": "", "enplace/x/cpu.max": "", "enplace/x/pids.max": ""},
			after:  map[string]string{"enplace/x/memory.max": "268435456"},
		},
		{
			name:   "version 1",
			groups: cgroups{limits: true},
			before: map[string]string{"memory/enplace/x/memory.limit_in_bytes": "", "memory/enplace/x/memory.memsw.limit_in_bytes": "",
				"cpu/enplace/x/cpu.cfs_quota_us": "", "pids/enplace/x/pids.max": "", "memory/enplace/x/memory.max_usage_in_bytes": "8192\n",
				"memory/enplace/x/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"},
			after: map[string]string{"memory/enplace/x/memory.limit_in_bytes": "268435456", "memory/enplace/x/memory.memsw.limit_in_bytes": "268435456",
				"cpu/enplace/x/cpu.cfs_quota_us": "50000", "pids/enplace/x/pids.max": "132"},
			peak: 8192, kills: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.groups.root = t.TempDir()
			for file, content := range c.before {
				path := filepath.Join(c.groups.root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.groups.set("x", limits); err != nil {
				t.Fatal(err)
			}
			for file, want := range c.after {
				if b, err := os.ReadFile(filepath.Join(c.groups.root, file)); err != nil || strings.TrimSpace(string(b)) != want {
					t.Errorf("%s: %q, %v; want %q", file, b, err, want)
				}
			}
			if peak, kills := c.groups.used("x"); peak != c.peak || kills != c.kills {
				t.Errorf("used: %d, %d; want %d, %d", peak, kills, c.peak, c.kills)
			}
		})
	}
}
