package server

import (
	"context"

	"enplace"
)

func (s *Server) createEnvironment(ctx context.Context, c enplace.Caller, in *JSONBody[enplace.CreateEnvironment]) (*Made[enplace.Environment], error) {
	e, err := s.cfg.Projects.Create(ctx, c, in.Body)
	return made(e, "/v1/environments/"+e.ID, err)
}

func (s *Server) listEnvironments(ctx context.Context, c enplace.Caller, in *PageParams) (*One[enplace.List[enplace.Environment]], error) {
	return list(s.cfg.Projects.List(ctx, c, in.page()))
}

func (s *Server) getEnvironment(ctx context.Context, c enplace.Caller, in *EnvironmentID) (*One[enplace.Environment], error) {
	return one(s.cfg.Projects.Get(ctx, c, in.ID))
}

func (s *Server) updateEnvironment(ctx context.Context, c enplace.Caller, in *struct {
	EnvironmentID
	JSONBody[enplace.UpdateEnvironment]
}) (*One[enplace.Environment], error) {
	return one(s.cfg.Projects.Update(ctx, c, in.ID, in.Body))
}

func (s *Server) deleteEnvironment(ctx context.Context, c enplace.Caller, in *EnvironmentID) (*struct{}, error) {
	return none(s.cfg.Projects.Delete(ctx, c, in.ID))
}

// PackageParams ask a registry.
type PackageParams struct {
	Manager     string `query:"manager" required:"true" enum:"pip,npm,apt"`
	Name        string `query:"name" required:"true" maxLength:"300" doc:"The package's name, as in the manager's registry"`
	Version     string `query:"version" maxLength:"300" doc:"A version, or a range as the manager writes it"`
	Environment string `query:"environment" doc:"Ask for this environment: its Python version and package index"`
}

func (s *Server) checkPackage(ctx context.Context, c enplace.Caller, in *PackageParams) (*One[enplace.PackageCheck], error) {
	return one(s.cfg.Projects.CheckPackage(ctx, c, enplace.PackageQuery{
		Manager: enplace.Manager(in.Manager), Name: in.Name, Version: in.Version, Environment: in.Environment,
	}))
}
