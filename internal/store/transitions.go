package store

import (
	"time"

	"enplace"
)

// CancelQueued gives a build as RequestCancel leaves it when no worker had taken it up.
func CancelQueued(b enplace.Build, now time.Time) enplace.Build {
	if now.Before(b.CreatedAt) { // likewise
		now = b.CreatedAt
	}
	b.Status = enplace.BuildCancelled
	b.EndedAt = &now
	b.Error = &enplace.Failure{Reason: enplace.ReasonCancelled, Message: "the build was cancelled before it started"}
	return b
}

// Interrupt gives a running build as InterruptBuilds leaves it. The time that the server was down is not counted as the
// build's.
func Interrupt(b enplace.Build, now time.Time) enplace.Build {
	if b.StartedAt != nil && now.Before(*b.StartedAt) { // the clock was set back
		now = *b.StartedAt
	}
	b.Status = enplace.BuildInterrupted
	b.EndedAt = &now
	b.Error = &enplace.Failure{
		Reason: enplace.ReasonInterrupted, Step: b.Step,
		Message: "the server stopped while this build ran; the environment is as it was before",
		Fixes:   []string{"build again: steps that had ended are not run a second time"},
	}
	for i := range b.Steps {
		if b.Steps[i].Status == enplace.StepRunning {
			b.Steps[i].Status = enplace.StepFailed
		}
	}
	return b
}
