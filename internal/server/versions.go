package server

import (
	"context"

	"enplace"
)

func (s *Server) listVersions(ctx context.Context, c enplace.Caller, in *struct {
	EnvironmentID
	PageParams
}) (*One[enplace.List[enplace.VersionSummary]], error) {
	return list(s.cfg.Projects.ListVersions(ctx, c, in.ID, in.page()))
}

func (s *Server) getVersion(ctx context.Context, c enplace.Caller, in *NumberOf) (*One[enplace.Version], error) {
	return one(s.cfg.Projects.GetVersion(ctx, c, in.ID, in.N))
}

func (s *Server) deleteVersion(ctx context.Context, c enplace.Caller, in *NumberOf) (*struct{}, error) {
	return none(s.cfg.Projects.DeleteVersion(ctx, c, in.ID, in.N))
}

func (s *Server) activate(ctx context.Context, c enplace.Caller, in *struct {
	NumberOf
	Nothing
}) (*One[enplace.Environment], error) {
	return one(s.cfg.Projects.Activate(ctx, c, in.ID, in.N))
}

func (s *Server) diff(ctx context.Context, c enplace.Caller, in *struct {
	EnvironmentID
	From int `query:"from" required:"true" minimum:"1" doc:"A version"`
	To   int `query:"to" required:"true" minimum:"1" doc:"Another version"`
}) (*One[enplace.VersionDiff], error) {
	return one(s.cfg.Projects.Diff(ctx, c, in.ID, in.From, in.To))
}
