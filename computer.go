package enplace

import "time"

// Places of a computer. They are the same in every bundle, so that nothing ever moves.
const (
	ToolsDir = "/opt/mise"       // mise's data directory
	ShimsDir = "/opt/mise/shims" // first on PATH
	HomeDir  = "/root"           // where commands of a computer start
)

// Limits and times of computers.
const (
	DefaultScriptTimeout = 15 * time.Minute // of a setup.sh, and of one tool's installation
	FailedRetry          = 5 * time.Minute  // after which a failed set is tried again
	LiveRetry            = 15 * time.Second // between tries that live persons' commands start, where nothing has changed
	AwaitedRetry         = time.Minute      // since the last try of a failed set, for commands to wait for the next
	MaxReportedItems     = 5                // failed items that one command's answer reports
	MaxErrorTail         = 2 << 10          // bytes of each
	MaxShownWith         = 50               // conversations that are shown with a set of a computer
	DefaultIdle          = 15 * time.Minute // after which a computer that nobody uses is stopped
)

// DefaultComputerLimits are those of a computer. Its time is not limited; that of each command is.
var DefaultComputerLimits = Limits{MemoryMiB: 4096, CPUs: 2, Processes: 2048, DiskMiB: 20480}

// ComputerState is whether a computer runs.
type ComputerState string

// The states. One that is stopped starts with the next command; its files are kept.
const (
	ComputerRunning ComputerState = "running"
	ComputerStopped ComputerState = "stopped"
)

// Obtained says how a computer got the tools of an item.
type Obtained string

// The ways.
const (
	FromBundle Obtained = "bundle"
	FromDirect Obtained = "direct"
)

// ComputerItem is an item as it stands on a computer.
type ComputerItem struct {
	InstalledItem
	Obtained Obtained `json:"obtained,omitempty" enum:"bundle,direct"`
}

// ComputerSet is one of the sets that a computer's conversations select.
type ComputerSet struct {
	Hash      string         `json:"hash"`
	Items     []ComputerItem `json:"items"`
	AppliedAt *time.Time     `json:"applied_at,omitempty" doc:"When it was last complete"`
	TriedAt   *time.Time     `json:"tried_at,omitempty" doc:"When it was last tried to the end"`
	RetryAt   *time.Time     `json:"retry_at,omitempty" doc:"When a set with failed items is tried again by itself; one that is past is tried now, or at the next use where the computer is stopped"`
	Attempts  int            `json:"attempts"`
	UsedAt    *time.Time     `json:"used_at,omitempty" doc:"When a command or a connection of a conversation that had it began last"`

	// Conversations are told of one computer, and not of each in a list.
	Conversations []string `json:"conversations,omitempty" doc:"Those on the computer that have the set now, by id, at most 50; not told in lists of computers"`
	More          int      `json:"more_conversations,omitempty" doc:"Conversations that have it now beyond those listed"`
}

// LastCommand is a command that ran on a computer, for whoever looks after it.
type LastCommand struct {
	At           time.Time `json:"at"`
	Conversation string    `json:"conversation"`
	Program      string    `json:"program" doc:"The first argument; the others may hold secrets"`
	ExitCode     int       `json:"exit_code"`
	DurationMS   int64     `json:"duration_ms"`
}

// Computer is the durable sandbox of a person or a room.
type Computer struct {
	ID        string        `json:"id" doc:"person:LOGIN or room:NAME"`
	State     ComputerState `json:"state" enum:"running,stopped"`
	Base      Digest        `json:"base"`
	Bundle    Digest        `json:"bundle,omitempty" doc:"The bundle that it started from"`
	Sets      []ComputerSet `json:"sets" doc:"Of one computer: those that conversations have now, then the others, those used last first"`
	Local     []ToolStatus  `json:"local" doc:"Tools that were installed inside, with mise use"`
	Limits    Limits        `json:"limits"`
	DiskBytes int64         `json:"disk_bytes" doc:"What it has written"`
	Commands  []LastCommand `json:"last_commands" doc:"The newest first, at most ten"`
	CreatedAt time.Time     `json:"created_at"`
	UsedAt    time.Time     `json:"used_at"`
}

// ComputerError is an entry of a computer's error log.
type ComputerError struct {
	At         time.Time `json:"at" doc:"When it came first"`
	LastAt     time.Time `json:"last_at" doc:"When it came last; what follows is as it was then"`
	Count      int       `json:"count" doc:"How often it came: the same error of the same definition is one entry"`
	Set        string    `json:"set"`
	Key        string    `json:"key"`
	Scope      Scope     `json:"scope"`
	Definition string    `json:"definition,omitempty" doc:"SHA-256 of the item's definition"`
	Error      string    `json:"error"`
	ErrorTail  string    `json:"error_tail,omitempty" doc:"The end of what it printed, redacted"`
	Attempt    int       `json:"attempt"`
}

// Joined gives the one entry for an error that came again; ok is false where the later one is another error.
func (e ComputerError) Joined(later ComputerError) (both ComputerError, ok bool) {
	if e.Key != later.Key || e.Scope != later.Scope || e.Definition != later.Definition || e.Error != later.Error {
		return ComputerError{}, false
	}
	later.At, later.Count = e.At, e.Count+later.Count
	return later, true
}

// Trigger is on whose behalf a command runs.
type Trigger string

// The triggers. A person in a direct conversation or in a room whose people are all internal starts a retry of what failed.
const (
	TriggerPerson   Trigger = "person"
	TriggerAgent    Trigger = "agent"
	TriggerSchedule Trigger = "schedule"
)

// ConversationExec is a command for a conversation's computer.
type ConversationExec struct {
	ExecRequest
	Trigger Trigger `json:"trigger,omitempty" enum:"person,agent,schedule" doc:"On whose behalf; the agent's unless set"`
}

// NoticeKind says what a notice is about.
type NoticeKind string

// The kinds of notice.
const (
	NoticeFailed     NoticeKind = "failed_items" // items of the set that could not be installed; told once for each failure
	NoticeInstalling NoticeKind = "installing"   // the command ran before these were there
	NoticeCommand    NoticeKind = "command"      // about the command itself, such as its deadline
)

// Notice is something that whoever ran a command should know beside its output.
type Notice struct {
	Kind    NoticeKind    `json:"kind" enum:"failed_items,installing,command"`
	Message string        `json:"message" doc:"The notice in a sentence, for an agent to read"`
	Items   []NoticedItem `json:"items,omitempty"`
	More    int           `json:"more" doc:"Items beyond those listed"`
	RetryAt *time.Time    `json:"retry_at,omitempty" doc:"When items that failed are tried again by themselves; one that is past is tried now"`
}

// NoticedItem is an item that a notice is about.
type NoticedItem struct {
	Key       string `json:"key"`
	Scope     Scope  `json:"scope"`
	ErrorTail string `json:"error_tail,omitempty" doc:"Redacted"`
}

// ConversationResult is how a command on a computer ended.
type ConversationResult struct {
	ExecResult
	Notices []Notice `json:"notices"`
}

// ConversationEvent is one line of a streamed exec (NDJSON): output, or at the end the result without it, or the problem that
// ended it. While a set is installed before the command, Progress says how far it is.
type ConversationEvent struct {
	Stream   string              `json:"stream,omitempty" enum:"stdout,stderr"`
	Data     string              `json:"data,omitempty"`
	Progress string              `json:"progress,omitempty"`
	Result   *ConversationResult `json:"result,omitempty"`
	Error    *Problem            `json:"error,omitempty"`
}

// Secret is a value of the keychain, without the value: that never comes back.
type Secret struct {
	Name      string    `json:"name" doc:"Of the variable that commands get it in"`
	Scope     Scope     `json:"scope"`
	CreatedBy string    `json:"created_by"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// PutSecret sets a value of the keychain.
type PutSecret struct {
	Value string `json:"value" doc:"Encrypted before it is stored; commands of conversations that read the scope get it, installations never"`
}
