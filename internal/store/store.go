// Package store keeps the records of the service: environments and their trees, builds, versions, harnesses, tasks, people
// and what their scopes declare, sets, computers, the keychain, keys, the audit, and what makes requests idempotent. Rules live in the capabilities above; a store persists. The contract is
// here, split by aggregate, with no word of any dialect; adapters stand below it, and every adapter runs storetest.
//
// Every method is safe for concurrent use. What a method acknowledged survives a crash. A method either does all it says
// or nothing. A callback runs inside the transaction, may be called again when the database asks for a retry, and must not
// call the store. Times are passed in, so that one request has one time; they are kept to the microsecond and given in UTC.
//
// "Newest first" is by id, and ids are made so that later ones sort later (enplace.NewID); builds are run in the order in which they
// were queued. No order is by date: a clock may go back.
//
// ErrNotFound is the answer for a record that is not there, for anything of an environment that is not, and for what is put
// into the scope of a team or person that is not. A list is paged by a cursor of the adapter's; one that it did not make is an
// *enplace.Error of kind malformed.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"enplace"
)

// The errors that callers tell apart. Adapters translate their driver's errors to these, by code and never by message.
var (
	ErrNotFound = errors.New("no such record")
	ErrExists   = errors.New("a record with that name exists")
	ErrConflict = errors.New("the record changed meanwhile")
)

// Store is everything that an adapter provides.
type Store interface {
	Environments
	Builds
	Versions
	StepCache
	Harnesses
	Tasks
	People
	Plugins
	Sets
	Computers
	Secrets
	Keys
	Audit
	Idempotency
	Settings

	// Ping reports whether the database answers.
	Ping(ctx context.Context) error
	Close() error
}

// TreeInfo is where an environment's tree came from.
type TreeInfo struct {
	Commit   string `json:"commit,omitempty"`
	Describe string `json:"describe,omitempty"`
}

// Environments keeps environments and their trees. Environment.Versions is left empty by all methods; Files and Bytes are
// those of the tree.
type Environments interface {
	// CreateEnvironment adds one. ErrExists when its slug is taken.
	CreateEnvironment(ctx context.Context, e enplace.Environment) error
	Environment(ctx context.Context, id string) (enplace.Environment, error)
	// ListEnvironments gives those of one owner, or all for "", newest first.
	ListEnvironments(ctx context.Context, owner string, p enplace.Page) (enplace.List[enplace.Environment], error)
	// UpdateEnvironment reads, lets change edit, and writes back Name, Packages, PythonVersion, PipIndexURL, Check, Scripts,
	// Egress and UpdatedAt.
	UpdateEnvironment(ctx context.Context, id string, change func(*enplace.Environment) error) (enplace.Environment, error)
	// DeleteEnvironment removes the environment with its tree, builds and versions.
	DeleteEnvironment(ctx context.Context, id string) error

	// EditTree runs edit on the tree of an environment and sets the environment's UpdatedAt.
	EditTree(ctx context.Context, id string, now time.Time, edit func(Tree) error) error
	// ListTree gives the entries at or below a prefix ("" for all, otherwise a folder without its trailing slash or one
	// path), ordered by path in bytes. Page.Limit 0 gives all.
	ListTree(ctx context.Context, id, prefix string, p enplace.Page) (enplace.List[enplace.TreeEntry], error)
	TreeEntry(ctx context.Context, id, path string) (enplace.TreeEntry, error)
	TreeInfo(ctx context.Context, id string) (TreeInfo, error)
	// BlobDigests calls each with the digest of every blob that a tree names, and of every snapshot that a version, or a build
	// that has not ended, names, which itself lists further blobs. Both are from one state of the database. A digest may come more than once.
	BlobDigests(ctx context.Context, each func(d enplace.Digest, snapshot bool)) error
}

// Tree is a tree inside EditTree.
type Tree interface {
	// Get gives the entry at a path, or ErrNotFound.
	Get(path string) (enplace.TreeEntry, error)
	// HasBelow reports whether any entry lies below path, taken as a folder.
	HasBelow(path string) (bool, error)
	// Put adds or replaces the entry at its path.
	Put(enplace.TreeEntry) error
	// Delete removes the entry at path and all below it, and says how many. None is ErrNotFound.
	Delete(path string) (int, error)
	// Clear removes everything and says how many.
	Clear() (int, error)
	// Totals gives the number of entries and their bytes, edits included.
	Totals() (files int, bytes int64, err error)
	// SetInfo records where the tree came from.
	SetInfo(TreeInfo) error
}

// BuildSpec is what a build was asked to do, fixed when it was queued.
type BuildSpec struct {
	Snapshot      enplace.Digest   `json:"snapshot"` // of the blob that lists the tree
	Slug          string           `json:"slug"`
	Packages      enplace.Packages `json:"packages"`
	PythonVersion string           `json:"python_version,omitempty"`
	PipIndexURL   string           `json:"pip_index_url,omitempty"`
	Check         []string         `json:"check,omitempty"`
	Scripts       *bool            `json:"npm_scripts,omitempty"`
	Egress        *enplace.Egress  `json:"egress,omitempty"`
	Active        *int             `json:"active,omitempty"` // the active version when it was queued
	Tree          TreeInfo         `json:"tree,omitzero"`
}

// BuildRecord is a build with what only the service sees.
type BuildRecord struct {
	enplace.Build
	Spec            BuildSpec
	CancelRequested bool
}

// Builds keeps builds, and is their queue: a build is queued by the transaction that creates it, and claimed by lease.
type Builds interface {
	// QueueBuild numbers and queues a build. spec sees the environment and its whole tree inside the transaction. When a build
	// of the environment is queued or running, it gives that build and ErrConflict.
	QueueBuild(ctx context.Context, environment, by string, now time.Time, spec func(enplace.Environment, []enplace.TreeEntry, TreeInfo) (BuildSpec, error)) (enplace.Build, error)
	// ClaimBuild takes the oldest queued build for a worker until the lease ends, sets it running, and reports false when there
	// is none. A running build whose lease ended can be claimed again.
	ClaimBuild(ctx context.Context, worker string, now time.Time, lease time.Duration) (BuildRecord, bool, error)
	// RenewBuild extends a lease and reports whether a cancel was requested. ErrConflict when the worker no longer holds it,
	// also because the build ended or its environment was deleted.
	RenewBuild(ctx context.Context, environment string, n int, worker string, until time.Time) (cancel bool, err error)
	Build(ctx context.Context, environment string, n int) (BuildRecord, error)
	// ListBuilds gives the builds of an environment, newest first.
	ListBuilds(ctx context.Context, environment string, p enplace.Page) (enplace.List[enplace.Build], error)
	// UpdateBuild reads, lets change edit, and writes back Step, Steps, ElapsedMS, Error and Warnings of a build that has not
	// ended; ErrConflict when it has.
	UpdateBuild(ctx context.Context, environment string, n int, change func(*enplace.Build)) (enplace.Build, error)
	// RequestCancel marks a build. One that is queued is cancelled at once; ErrConflict when it has ended.
	RequestCancel(ctx context.Context, environment string, n int, now time.Time) (enplace.Build, error)
	// FinishBuild ends a build. With a version, it numbers it (the next of the environment), adds it, and makes it the active one
	// if the active version is still spec.Active (compare-and-swap); the answer's Version is its number. A number is never given
	// twice. end has a final state and EndedAt. ErrConflict when the build has ended before: of two workers one finishes it.
	FinishBuild(ctx context.Context, environment string, n int, end enplace.Build, version *enplace.Version) (b enplace.Build, activated bool, err error)
	// InterruptBuilds ends every running build as interrupted, and gives them. For the start of a server.
	InterruptBuilds(ctx context.Context, now time.Time) ([]enplace.Build, error)
}

// Versions keeps the results of builds. They never change; deleting an environment or a version removes them.
type Versions interface {
	Version(ctx context.Context, environment string, n int) (enplace.Version, error)
	// ListVersions gives them newest first, with Active set.
	ListVersions(ctx context.Context, environment string, p enplace.Page) (enplace.List[enplace.VersionSummary], error)
	// ActivateVersion makes a version the active one. With expect, only if that one is active now (0: none); else ErrConflict.
	ActivateVersion(ctx context.Context, environment string, n int, expect *int, now time.Time) error
	// DeleteVersion removes one that is not active; ErrConflict when it is.
	DeleteVersion(ctx context.Context, environment string, n int) error
	// ImageDigests calls each with the digest of every image that a version, a task that has not ended, the step cache, the
	// bundle of a set, or a computer's root still needs, bases of versions and tasks included. All are from one state of the
	// database. A digest may come more than once.
	ImageDigests(ctx context.Context, each func(enplace.Digest)) error
}

// StepResult is what a step gave, as the step cache keeps it.
type StepResult struct {
	Image enplace.Digest  `json:"image,omitempty"` // empty when the step gives no image
	Bytes int64           `json:"bytes,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"` // the step's own findings, such as resolved packages
}

// StepCache keeps the results of steps by the hash of what went into them.
type StepCache interface {
	// CachedStep gives the result and marks it as used now; ErrNotFound when there is none.
	CachedStep(ctx context.Context, key string, now time.Time) (StepResult, error)
	PutStep(ctx context.Context, key string, r StepResult, now time.Time) error
	// PruneSteps forgets the results not used since the time given, and says how many.
	PruneSteps(ctx context.Context, before time.Time) (int, error)
}

// Harnesses keeps harnesses. They do not change.
type Harnesses interface {
	CreateHarness(ctx context.Context, h enplace.Harness) error
	Harness(ctx context.Context, id string) (enplace.Harness, error)
	ListHarnesses(ctx context.Context, owner string, p enplace.Page) (enplace.List[enplace.Harness], error)
	// DeleteHarness removes one. Its tasks stay.
	DeleteHarness(ctx context.Context, id string) error
}

// TaskRecord is a task with what only the service sees.
type TaskRecord struct {
	enplace.Task
	Command      []string          `json:"command,omitempty"`
	Instructions string            `json:"instructions,omitempty"`
	Egress       enplace.Egress    `json:"egress"`
	Input        string            `json:"-"` // kept apart: lists do not load it, Task does
	Slug         string            `json:"slug,omitempty"`
	Manifest     *enplace.Manifest `json:"manifest,omitempty"` // of the version it reads, pinned
	Purged       bool              `json:"purged,omitempty"`   // its files and log were collected
}

// TaskFilter narrows a list of tasks; empty fields do not.
type TaskFilter struct {
	Owner       string
	Harness     string
	Environment string
	Status      enplace.TaskStatus
	EndedBefore time.Time
	NotPurged   bool
}

// Tasks keeps tasks.
type Tasks interface {
	// CreateTask adds the record that pin returns. pin, which is required, gets the active version of the environment (or
	// ErrNotFound with a zero one) inside the transaction. ErrNotFound when the version that the record names is gone: a pinned
	// version is one whose images are kept.
	CreateTask(ctx context.Context, environment string, pin func(enplace.Version, error) (TaskRecord, error)) (TaskRecord, error)
	Task(ctx context.Context, id string) (TaskRecord, error)
	// ListTasks gives them newest first, or oldest first with Status queued.
	ListTasks(ctx context.Context, f TaskFilter, p enplace.Page) (enplace.List[TaskRecord], error)
	// UpdateTask reads, lets change edit, and writes back all but ID, CreatedAt and Input, which it does not load. An error
	// from change is returned and nothing is written.
	UpdateTask(ctx context.Context, id string, change func(*TaskRecord) error) (TaskRecord, error)
}

// Keys keeps API keys by the SHA-256 of their secret.
type Keys interface {
	CreateKey(ctx context.Context, k enplace.Key, hash string) error
	// KeyByHash gives the key, revoked or not.
	KeyByHash(ctx context.Context, hash string) (enplace.Key, error)
	ListKeys(ctx context.Context, p enplace.Page) (enplace.List[enplace.Key], error)
	// RevokeKey gives the key as it is then; the time of a first revocation stays.
	RevokeKey(ctx context.Context, id string, now time.Time) (enplace.Key, error)
	TouchKey(ctx context.Context, id string, now time.Time) error
}

// Audit keeps the record of every change.
type Audit interface {
	AppendAudit(ctx context.Context, e enplace.AuditEntry) error
	// ListAudit gives entries newest first; with a target, only its own.
	ListAudit(ctx context.Context, target string, p enplace.Page) (enplace.List[enplace.AuditEntry], error)
}

// Response is a stored answer.
type Response struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header"`
	Body   []byte            `json:"body"`
}

// Idempotency keeps the answers to requests that carried an Idempotency-Key.
type Idempotency interface {
	// BeginRequest claims a key of a caller for a request. It gives the stored answer when the same request was answered,
	// ErrConflict when the same request is still running, and ErrExists when another request used the key. Keys claimed
	// enplace.IdempotencyRetention before now are forgotten first: a server that runs for months must not keep every answer.
	BeginRequest(ctx context.Context, caller, key, requestHash string, now time.Time) (*Response, error)
	// FinishRequest stores the answer; a nil one frees the key.
	FinishRequest(ctx context.Context, caller, key string, r *Response) error
	// ForgetRequests drops keys claimed before the time given and, with running, those that never got an answer: for the start
	// of a server.
	ForgetRequests(ctx context.Context, before time.Time, running bool) error
}

// Settings keeps single values by name.
type Settings interface {
	// Setting gives a value, or ErrNotFound.
	Setting(ctx context.Context, name string) (string, error)
	PutSetting(ctx context.Context, name, value string) error
}
