package enplace

import "time"

// BuildStatus is the state of a build.
type BuildStatus string

// The states. The last four are final.
const (
	BuildQueued      BuildStatus = "queued"
	BuildRunning     BuildStatus = "running"
	BuildSucceeded   BuildStatus = "succeeded"
	BuildFailed      BuildStatus = "failed"
	BuildCancelled   BuildStatus = "cancelled"
	BuildInterrupted BuildStatus = "interrupted"
)

// Ended reports whether the state is final.
func (s BuildStatus) Ended() bool { return s != BuildQueued && s != BuildRunning }

// The steps of a build, in order.
const (
	StepSnapshot = "snapshot"
	StepApt      = "apt"
	StepPython   = "python"
	StepNPM      = "npm"
	StepFiles    = "files"
	StepCheck    = "check"
	StepSeal     = "seal"
)

// Steps lists them in order.
var Steps = []string{StepSnapshot, StepApt, StepPython, StepNPM, StepFiles, StepCheck, StepSeal}

// Reason is why a build or a task did not succeed.
type Reason string

// The reasons.
const (
	ReasonExit        Reason = "exit"
	ReasonTimeout     Reason = "timeout"
	ReasonMemory      Reason = "memory"
	ReasonDisk        Reason = "disk"
	ReasonLimit       Reason = "limit"
	ReasonCancelled   Reason = "cancelled"
	ReasonInterrupted Reason = "interrupted"
	ReasonEgress      Reason = "egress"
	ReasonSource      Reason = "source" // a plugin's source could not be read
)

// Failure is a reason with what it means for the person who reads it.
type Failure struct {
	Reason  Reason   `json:"reason" enum:"exit,timeout,memory,disk,limit,cancelled,interrupted,egress,source"`
	Message string   `json:"message"`
	Step    string   `json:"step,omitempty"`
	Fixes   []string `json:"fixes,omitempty"`
}

// Error gives the message.
func (f *Failure) Error() string { return f.Message }

// Build is a numbered run that makes a version of an environment.
type Build struct {
	Environment string      `json:"environment"`
	N           int         `json:"n"`
	Status      BuildStatus `json:"status" enum:"queued,running,succeeded,failed,cancelled,interrupted"`
	Step        string      `json:"step" doc:"The step that runs, or the last that did"`
	Steps       []BuildStep `json:"steps"`
	ElapsedMS   int64       `json:"elapsed_ms"`
	Error       *Failure    `json:"error,omitempty"`
	Version     *int        `json:"version,omitempty" doc:"The version it became"`
	Warnings    []string    `json:"warnings,omitempty"`
	CreatedBy   string      `json:"created_by"`
	CreatedAt   time.Time   `json:"created_at"`
	StartedAt   *time.Time  `json:"started_at,omitempty"`
	EndedAt     *time.Time  `json:"ended_at,omitempty"`
}

// BuildStep is one step of a build.
type BuildStep struct {
	Name      string     `json:"name"`
	Status    StepStatus `json:"status" enum:"pending,running,succeeded,failed,skipped"`
	ElapsedMS int64      `json:"elapsed_ms"`
	Cached    bool       `json:"cached" doc:"Its result was there already, so it was not run"`
}

// StepStatus is the state of one step.
type StepStatus string

// The states of a step. A skipped step had nothing to do.
const (
	StepPending   StepStatus = "pending"
	StepRunning   StepStatus = "running"
	StepSucceeded StepStatus = "succeeded"
	StepFailed    StepStatus = "failed"
	StepSkipped   StepStatus = "skipped"
)

// VersionSummary is one version in a list.
type VersionSummary struct {
	N         int       `json:"n"`
	Build     int       `json:"build"`
	Digest    string    `json:"digest" doc:"SHA-256 over the digests of its images"`
	Bytes     int64     `json:"bytes" doc:"Bytes of all its images but the base"`
	Active    bool      `json:"active"`
	CreatedAt time.Time `json:"created_at"`
}

// Version is the immutable result of a build that succeeded.
type Version struct {
	VersionSummary
	Environment string   `json:"environment"`
	Manifest    Manifest `json:"manifest"`
}

// Manifest says what a version is made of.
type Manifest struct {
	Base         string            `json:"base" doc:"Digest of the base image"`
	Images       []ManifestImage   `json:"images" doc:"From the lowest to the highest"`
	Snapshot     string            `json:"snapshot" doc:"Digest of the tree that it was built from"`
	Interpreters map[string]string `json:"interpreters" doc:"Such as python and node, with their versions"`
	Packages     []ResolvedPackage `json:"packages"`
	Scripts      []string          `json:"scripts,omitempty" doc:"npm packages that ran an install script"`
	Env          map[string]string `json:"env,omitempty" doc:"Variables that tasks get beside the usual ones"`
	Warnings     []string          `json:"warnings"`
	Bytes        int64             `json:"bytes"`
	Files        int               `json:"files"`
	Durations    map[string]int64  `json:"durations_ms" doc:"By step"`
	Commit       string            `json:"commit,omitempty" doc:"The git commit that the tree was imported from"`
}

// ManifestImage is one image of a version.
type ManifestImage struct {
	Step   string `json:"step"`
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"`
	Mount  string `json:"mount" doc:"/ for layers over the base, the environment's path for the others"`
	Whole  Digest `json:"whole,omitempty" doc:"The snapshot that this image holds in full; other images of a tree hold differences"`
}

// ResolvedPackage is a package as it was installed.
type ResolvedPackage struct {
	Manager Manager `json:"manager"`
	Name    string  `json:"name"`
	Version string  `json:"version"`
	Hash    string  `json:"hash,omitempty" doc:"sha256:… or npm's integrity"`
	Source  string  `json:"source,omitempty" doc:"The index or repository it came from"`
	Direct  bool    `json:"direct,omitempty" doc:"Declared, and not brought by another"`
}

// VersionDiff is the difference between two versions of an environment.
type VersionDiff struct {
	From     int             `json:"from"`
	To       int             `json:"to"`
	Files    []FileChange    `json:"files"`
	Packages []PackageChange `json:"packages"`
}

// FileChange is a file that was added, removed or changed.
type FileChange struct {
	Path   string `json:"path"`
	Change string `json:"change" enum:"added,removed,changed"`
}

// PackageChange is a package whose version changed; From or To is empty when it was added or removed.
type PackageChange struct {
	Manager Manager `json:"manager"`
	Name    string  `json:"name"`
	From    string  `json:"from,omitempty"`
	To      string  `json:"to,omitempty"`
}

// Bin gives the folders that come first on the PATH of who uses the version at root.
func (m Manifest) Bin(root string) []string {
	var bin []string
	if m.has(StepPython) {
		bin = append(bin, root+"/.venv/bin")
	}
	if m.has(StepNPM) {
		bin = append(bin, root+"/node_modules/.bin")
	}
	return bin
}

// Vars gives the variables of who uses the version at root: where the project is, how its packages are found, and tools kept
// from writing beside the code, which is read only.
func (m Manifest) Vars(root string) map[string]string {
	v := map[string]string{
		"PROJECT_ROOT":            root,
		"PYTHONDONTWRITEBYTECODE": "1",
		"PYTEST_ADDOPTS":          "-o cache_dir=/tmp/pytest_cache",
		"RUFF_CACHE_DIR":          "/tmp/ruff_cache", "MYPY_CACHE_DIR": "/tmp/mypy_cache",
		"HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/hypothesis", "COVERAGE_FILE": "/tmp/coverage", "XDG_CACHE_HOME": "/root/.cache",
		"npm_config_cache": "/root/.npm",
	}
	if m.has(StepPython) {
		v["VIRTUAL_ENV"] = root + "/.venv"
	}
	if m.has(StepNPM) {
		v["NODE_PATH"] = root + "/node_modules"
	}
	for name, value := range m.Env {
		v[name] = value
	}
	return v
}

// HasModules reports whether the version has a node_modules folder.
func (m Manifest) HasModules() bool { return m.has(StepNPM) }

func (m Manifest) has(step string) bool {
	for _, image := range m.Images {
		if image.Step == step {
			return true
		}
	}
	return false
}
