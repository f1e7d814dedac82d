package enplace

import "time"

// WorkDir is a task's own writable directory, and where its commands start.
const WorkDir = "/task"

// InstructionsPath is the file in every task that says what is where.
const InstructionsPath = "/run/enplace/instructions.md"

// Harness is an agent's configuration.
type Harness struct {
	ID           string    `json:"id"`
	Name         string    `json:"name"`
	Owner        string    `json:"owner"`
	Environment  string    `json:"environment,omitempty" doc:"The environment of its tasks, unless a task names another"`
	Command      []string  `json:"command,omitempty" doc:"argv; without one a task is an open sandbox"`
	Instructions string    `json:"instructions,omitempty" doc:"Added to what the agent is told about the environment"`
	Egress       *Egress   `json:"egress,omitempty" doc:"What its tasks may reach; nothing unless set"`
	Limits       Limits    `json:"limits,omitzero"`
	CreatedAt    time.Time `json:"created_at"`
}

// CreateHarness asks for a harness.
type CreateHarness struct {
	Name         string   `json:"name" maxLength:"200"`
	Environment  string   `json:"environment,omitempty" doc:"The environment of its tasks, unless a task names another"`
	Command      []string `json:"command,omitempty" doc:"argv; without one a task is an open sandbox"`
	Instructions string   `json:"instructions,omitempty" doc:"Added to what the agent is told about the environment"`
	Egress       *Egress  `json:"egress,omitempty" doc:"What its tasks may reach; nothing unless set"`
	Limits       Limits   `json:"limits,omitzero"`
}

// CreateTask asks for a task.
type CreateTask struct {
	Metadata CreateTaskMetadata `json:"metadata"`
	Input    string             `json:"input,omitempty" doc:"The command's standard input"`
	Limits   Limits             `json:"limits,omitzero" doc:"Instead of the harness's, field by field"`
}

// CreateTaskMetadata names what a task runs and reads.
type CreateTaskMetadata struct {
	Harness            string `json:"harness"`
	Environment        string `json:"environment,omitempty" doc:"Instead of the harness's"`
	EnvironmentVersion *int   `json:"environment_version,omitempty" doc:"Instead of the active one"`
}

// TaskQuery narrows a list of tasks; empty fields do not.
type TaskQuery struct {
	Harness     string
	Environment string
	Status      TaskStatus
}

// TaskStatus is the state of a task.
type TaskStatus string

// The states. The last three are final.
const (
	TaskQueued    TaskStatus = "queued"
	TaskRunning   TaskStatus = "running"
	TaskSucceeded TaskStatus = "succeeded"
	TaskFailed    TaskStatus = "failed"
	TaskCancelled TaskStatus = "cancelled"
)

// Ended reports whether the state is final.
func (s TaskStatus) Ended() bool { return s != TaskQueued && s != TaskRunning }

// Task is one run of a harness.
type Task struct {
	ID        string       `json:"id"`
	Status    TaskStatus   `json:"status" enum:"queued,running,succeeded,failed,cancelled"`
	ExitCode  *int         `json:"exit_code" doc:"Of the command; null before it ended, and where it never started"`
	Error     *Failure     `json:"error,omitempty"`
	Metadata  TaskMetadata `json:"metadata"`
	Open      bool         `json:"open,omitempty" doc:"An open sandbox: no command of its own, takes exec until cancelled or out of time"`
	Owner     string       `json:"owner"`
	Limits    Limits       `json:"limits"`
	StartMS   float64      `json:"start_ms,omitempty" doc:"From taking the task up to its command's start"`
	CreatedAt time.Time    `json:"created_at"`
	StartedAt *time.Time   `json:"started_at,omitempty"`
	EndedAt   *time.Time   `json:"ended_at,omitempty"`
}

// TaskMetadata is what a task read: in a request the harness and environment, in an answer also the version.
type TaskMetadata struct {
	Harness            string `json:"harness"`
	Environment        string `json:"environment,omitempty"`
	EnvironmentVersion *int   `json:"environment_version,omitempty"`
	EnvironmentDigest  string `json:"environment_digest,omitempty"`
}

// WorkFile is one entry of a task's working directory.
type WorkFile struct {
	Path       string    `json:"path"`
	Type       string    `json:"type" enum:"file,directory,link,other"`
	Size       int64     `json:"size"`
	Mode       string    `json:"mode" doc:"Octal permissions"`
	Target     string    `json:"target,omitempty"`
	ModifiedAt time.Time `json:"modified_at"`
}

// ExecRequest is a command for an open sandbox, or for a computer.
type ExecRequest struct {
	Command []string          `json:"command" minItems:"1"`
	Cwd     string            `json:"cwd,omitempty" doc:"Where it starts; in a task /task unless set, on a computer /root"`
	Env     map[string]string `json:"env,omitempty"`
	Stdin   string            `json:"stdin,omitempty"`
	Timeout int               `json:"timeout,omitempty" doc:"Seconds; what it started is killed at its end" minimum:"0"`
}

// ExecResult is how a command ended.
type ExecResult struct {
	ExitCode   int    `json:"exit_code"`
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	Truncated  bool   `json:"truncated,omitempty" doc:"Output went over the limit: its start and its end are there, and between them a line that says how much was left out"`
	TimedOut   bool   `json:"timed_out,omitempty"`
	DurationMS int64  `json:"duration_ms"`
	Notice     string `json:"notice,omitempty"`

	StdoutBytes int64 `json:"stdout_bytes,omitempty" doc:"Of all that it printed there, where stdout has not all of it"`
	StderrBytes int64 `json:"stderr_bytes,omitempty" doc:"Of all that it printed there, where stderr has not all of it"`
}

// ExecEvent is one line of a streamed exec (NDJSON): output, or at the end the result without it, or the problem that ended
// it.
type ExecEvent struct {
	Stream string      `json:"stream,omitempty" enum:"stdout,stderr"`
	Data   string      `json:"data,omitempty"`
	Result *ExecResult `json:"result,omitempty"`
	Error  *Problem    `json:"error,omitempty"`
}
