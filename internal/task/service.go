// Package task is the capability around harnesses and tasks: it starts a sandbox for each task with its environment in
// place, runs the harness's command there, and keeps what it printed and left. Permission checks and audit entries are
// made here.
package task

import (
	"context"
	"io"
	"net"
	"time"

	"enplace"
	"enplace/internal/transcript"
)

// Service is the capability. It is safe for concurrent use.
type Service struct{}

func (s *Service) CreateHarness(ctx context.Context, c enplace.Caller, in CreateHarness) (enplace.Harness, error) {
	panic("todo")
}
func (s *Service) ListHarnesses(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Harness], error) {
	panic("todo")
}
func (s *Service) GetHarness(ctx context.Context, c enplace.Caller, id string) (enplace.Harness, error) {
	panic("todo")
}
func (s *Service) DeleteHarness(ctx context.Context, c enplace.Caller, id string) error {
	panic("todo")
}

func (s *Service) Create(ctx context.Context, c enplace.Caller, in CreateTask) (enplace.Task, error) {
	panic("todo")
}
func (s *Service) List(ctx context.Context, c enplace.Caller, f Filter, p enplace.Page) (enplace.List[enplace.Task], error) {
	panic("todo")
}
func (s *Service) Get(ctx context.Context, c enplace.Caller, id string, wait time.Duration) (enplace.Task, error) {
	panic("todo")
}
func (s *Service) Cancel(ctx context.Context, c enplace.Caller, id string) (enplace.Task, error) {
	panic("todo")
}

// Log opens the log of a task. The reader is closed by the caller.
func (s *Service) Log(ctx context.Context, c enplace.Caller, id string) (*transcript.Reader, error) {
	panic("todo")
}

// ListFiles gives what lies in the working directory, ordered by path.
func (s *Service) ListFiles(ctx context.Context, c enplace.Caller, id string, p enplace.Page) (enplace.List[enplace.WorkFile], error) {
	panic("todo")
}

// OpenFile opens one regular file of the working directory.
func (s *Service) OpenFile(ctx context.Context, c enplace.Caller, id, path string) (enplace.WorkFile, io.ReadCloser, error) {
	panic("todo")
}

// Archive gives the working directory as an uncompressed tar.
func (s *Service) Archive(ctx context.Context, c enplace.Caller, id string) (io.ReadCloser, error) {
	panic("todo")
}

// Exec runs a command in a running task. With each, output goes there as it comes and the result holds none; an error of
// each kills the command.
func (s *Service) Exec(ctx context.Context, c enplace.Caller, id string, in enplace.ExecRequest, each func(enplace.ExecEvent) error) (enplace.ExecResult, error) {
	panic("todo")
}

// Dial opens an SSH connection to the guest of a running task.
func (s *Service) Dial(ctx context.Context, c enplace.Caller, id string) (net.Conn, error) {
	panic("todo")
}
