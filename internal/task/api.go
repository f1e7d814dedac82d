package task

import "enplace"

// CreateHarness asks for a harness.
type CreateHarness struct {
	Name         string          `json:"name" maxLength:"200"`
	Environment  string          `json:"environment,omitempty"`
	Command      []string        `json:"command,omitempty"`
	Instructions string          `json:"instructions,omitempty"`
	Egress       *enplace.Egress `json:"egress,omitempty"`
	Limits       enplace.Limits  `json:"limits,omitzero"`
}

// CreateTask asks for a task.
type CreateTask struct {
	Metadata CreateMetadata `json:"metadata"`
	Input    string         `json:"input,omitempty" doc:"The command's standard input"`
	Limits   enplace.Limits `json:"limits,omitzero" doc:"Instead of the harness's, field by field"`
}

// CreateMetadata names what a task runs and reads.
type CreateMetadata struct {
	Harness            string `json:"harness"`
	Environment        string `json:"environment,omitempty" doc:"Instead of the harness's"`
	EnvironmentVersion *int   `json:"environment_version,omitempty" doc:"Instead of the active one"`
}

// Filter narrows a list of tasks; empty fields do not.
type Filter struct {
	Harness     string
	Environment string
	Status      enplace.TaskStatus
}
