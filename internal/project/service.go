// Package project is the capability around environments: the tree, the packages, builds into versions, activation. It
// composes the steps of a build; package build runs them. Permission checks and audit entries are made here.
package project

import (
	"context"
	"io"

	"enplace"
	"enplace/internal/transcript"
)

// Service is the capability. It is safe for concurrent use.
type Service struct{}

func (s *Service) Create(ctx context.Context, c enplace.Caller, in CreateEnvironment) (enplace.Environment, error) {
	panic("todo")
}
func (s *Service) List(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Environment], error) {
	panic("todo")
}
func (s *Service) Get(ctx context.Context, c enplace.Caller, id string) (enplace.Environment, error) {
	panic("todo")
}
func (s *Service) Update(ctx context.Context, c enplace.Caller, id string, in UpdateEnvironment) (enplace.Environment, error) {
	panic("todo")
}
func (s *Service) Delete(ctx context.Context, c enplace.Caller, id string) error { panic("todo") }

func (s *Service) ListFiles(ctx context.Context, c enplace.Caller, id, prefix string, p enplace.Page) (enplace.List[enplace.TreeEntry], error) {
	panic("todo")
}
func (s *Service) OpenFile(ctx context.Context, c enplace.Caller, id, path string) (File, error) {
	panic("todo")
}

// PutFile reports created=false when it replaced a file.
func (s *Service) PutFile(ctx context.Context, c enplace.Caller, id, path string, content io.Reader, executable bool) (entry enplace.TreeEntry, created bool, err error) {
	panic("todo")
}

// DeleteFile removes a file, or a folder with all below it.
func (s *Service) DeleteFile(ctx context.Context, c enplace.Caller, id, path string) error {
	panic("todo")
}

// ImportArchive finds out the archive's format by its first bytes.
func (s *Service) ImportArchive(ctx context.Context, c enplace.Caller, id string, archive io.Reader, o ImportOptions) (enplace.ImportReport, error) {
	panic("todo")
}
func (s *Service) ImportGit(ctx context.Context, c enplace.Caller, id string, g enplace.GitSource, o ImportOptions) (enplace.ImportReport, error) {
	panic("todo")
}

func (s *Service) CheckPackage(ctx context.Context, c enplace.Caller, q PackageQuery) (enplace.PackageCheck, error) {
	panic("todo")
}

func (s *Service) Build(ctx context.Context, c enplace.Caller, id string) (enplace.Build, error) {
	panic("todo")
}
func (s *Service) GetBuild(ctx context.Context, c enplace.Caller, id string, n int, wait Wait) (enplace.Build, error) {
	panic("todo")
}
func (s *Service) ListBuilds(ctx context.Context, c enplace.Caller, id string, p enplace.Page) (enplace.List[enplace.Build], error) {
	panic("todo")
}
func (s *Service) CancelBuild(ctx context.Context, c enplace.Caller, id string, n int) (enplace.Build, error) {
	panic("todo")
}

// BuildLog opens the log of a build. The reader is closed by the caller.
func (s *Service) BuildLog(ctx context.Context, c enplace.Caller, id string, n int) (*transcript.Reader, error) {
	panic("todo")
}

func (s *Service) ListVersions(ctx context.Context, c enplace.Caller, id string, p enplace.Page) (enplace.List[enplace.VersionSummary], error) {
	panic("todo")
}
func (s *Service) GetVersion(ctx context.Context, c enplace.Caller, id string, n int) (enplace.Version, error) {
	panic("todo")
}
func (s *Service) DeleteVersion(ctx context.Context, c enplace.Caller, id string, n int) error {
	panic("todo")
}

// Activate makes a version the active one and gives the environment.
func (s *Service) Activate(ctx context.Context, c enplace.Caller, id string, n int) (enplace.Environment, error) {
	panic("todo")
}
func (s *Service) Diff(ctx context.Context, c enplace.Caller, id string, from, to int) (enplace.VersionDiff, error) {
	panic("todo")
}
