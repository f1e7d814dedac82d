package task

import "enplace"

// The requests are the domain's, so that clients can make them too.
type (
	CreateHarness  = enplace.CreateHarness
	CreateTask     = enplace.CreateTask
	CreateMetadata = enplace.CreateTaskMetadata
	Filter         = enplace.TaskQuery
)
