package enplace

import "time"

// Limits of a project environment (design: measured on what is really written, never cut silently).
const (
	MaxPackagesPerManager = 200
	MaxBuildDuration      = 30 * time.Minute
	MaxListedEntries      = 20_000    // entries that one tree listing returns
	MaxFileBytes          = 64 << 20  // one file of a tree
	MaxArchiveBytes       = 512 << 20 // the archive as sent, and the sum of what it unpacks to times four
	MaxTreeBytes          = MaxVersionBytes
	MaxTreeEntries        = 200_000
	MaxVersionBytes       = 1536 << 20 // all images of a version but the base
)

// Limits of requests.
const (
	MaxNameLength        = 200     // characters of a name
	MaxInputBytes        = 8 << 20 // a task's input
	MaxInstructionsBytes = 64 << 10
	MaxJSONBytes         = 1 << 20  // a JSON body, but for a task with its input
	MaxLogBytes          = 16 << 20 // a build's or task's log as kept: half from the start, half from the end
	MaxExecOutputBytes   = 4 << 20  // stdout and stderr each, of an exec that is not streamed: half from the start, half from the end
	MaxPageSize          = 500
	MaxEgressHosts       = 500 // of an allowlist
	DefaultPageSize      = 50
	MaxWait              = 5 * time.Minute // of ?wait=
	IdempotencyRetention = 24 * time.Hour
	DefaultTaskTimeout   = 30 * time.Minute
	MaxTaskTimeout       = 24 * time.Hour
	DefaultExecTimeout   = 10 * time.Minute
	DefaultTaskRetention = 7 * 24 * time.Hour
)

// Limits bound what a sandbox may use. A zero field means the default.
type Limits struct {
	MemoryMiB      int     `json:"memory_mib,omitempty" doc:"Memory in MiB" minimum:"64"`
	CPUs           float64 `json:"cpus,omitempty" doc:"Processors, in shares of one" minimum:"0.05"`
	Processes      int     `json:"processes,omitempty" doc:"Processes and threads" minimum:"16"`
	DiskMiB        int     `json:"disk_mib,omitempty" doc:"What it may write, in MiB" minimum:"64"`
	TimeoutSeconds int     `json:"timeout_seconds,omitempty" doc:"Wall clock; everything started is killed at its end" minimum:"1"`
}

// DefaultTaskLimits are those of a task whose harness names none.
var DefaultTaskLimits = Limits{MemoryMiB: 2048, CPUs: 2, Processes: 1024, DiskMiB: 4096, TimeoutSeconds: int(DefaultTaskTimeout / time.Second)}

// DefaultBuildLimits are those of every build. The disk holds caches and scratch as well as the result, whose own limit
// is MaxVersionBytes.
var DefaultBuildLimits = Limits{MemoryMiB: 4096, CPUs: 4, Processes: 4096, DiskMiB: 10240, TimeoutSeconds: int(MaxBuildDuration / time.Second)}

// MaxTaskLimits bound what a harness or a task may ask for.
var MaxTaskLimits = Limits{MemoryMiB: 65536, CPUs: 64, Processes: 32768, DiskMiB: 65536, TimeoutSeconds: int(MaxTaskTimeout / time.Second)}

// Or gives l with each zero field taken from d.
func (l Limits) Or(d Limits) Limits {
	if l.MemoryMiB == 0 {
		l.MemoryMiB = d.MemoryMiB
	}
	if l.CPUs == 0 {
		l.CPUs = d.CPUs
	}
	if l.Processes == 0 {
		l.Processes = d.Processes
	}
	if l.DiskMiB == 0 {
		l.DiskMiB = d.DiskMiB
	}
	if l.TimeoutSeconds == 0 {
		l.TimeoutSeconds = d.TimeoutSeconds
	}
	return l
}

// Timeout is TimeoutSeconds as a duration.
func (l Limits) Timeout() time.Duration { return time.Duration(l.TimeoutSeconds) * time.Second }

// Check refuses a field below its minimum or over its maximum, naming it.
func (l Limits) Check() error {
	for _, f := range []struct {
		name          string
		got, low, max float64
	}{
		{"limits.memory_mib", float64(l.MemoryMiB), 64, float64(MaxTaskLimits.MemoryMiB)},
		{"limits.cpus", l.CPUs, 0.05, MaxTaskLimits.CPUs},
		{"limits.processes", float64(l.Processes), 16, float64(MaxTaskLimits.Processes)},
		{"limits.disk_mib", float64(l.DiskMiB), 64, float64(MaxTaskLimits.DiskMiB)},
		{"limits.timeout_seconds", float64(l.TimeoutSeconds), 1, float64(MaxTaskLimits.TimeoutSeconds)},
	} {
		if f.got != 0 && (f.got < f.low || f.got > f.max) {
			return Invalidf("must lie between %g and %g, and is %g; leave it out for the default", f.low, f.max, f.got).WithField(f.name)
		}
	}
	return nil
}
