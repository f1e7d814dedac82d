package server

import (
	"context"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"enplace"
)

// Nothing is a body that may be left out, since there is nothing to say in it.
type Nothing struct {
	Body *Empty
}

// Empty is a JSON object without fields.
type Empty struct{}

// NumberOf names a build or a version of an environment.
type NumberOf struct {
	EnvironmentID
	Number
}

func (s *Server) build(ctx context.Context, c enplace.Caller, in *struct {
	EnvironmentID
	Nothing
}) (*Made[enplace.Build], error) {
	b, err := s.cfg.Projects.Build(ctx, c, in.ID)
	return made(b, fmt.Sprintf("/v1/environments/%s/builds/%d", in.ID, b.N), err)
}

func (s *Server) listBuilds(ctx context.Context, c enplace.Caller, in *struct {
	EnvironmentID
	PageParams
}) (*One[enplace.List[enplace.Build]], error) {
	return list(s.cfg.Projects.ListBuilds(ctx, c, in.ID, in.page()))
}

func (s *Server) getBuild(ctx context.Context, c enplace.Caller, in *struct {
	NumberOf
	WaitParam
}) (*One[enplace.Build], error) {
	ctx, cancel := s.untilStop(ctx)
	defer cancel()
	b, err := s.cfg.Projects.GetBuild(ctx, c, in.ID, in.N, in.Wait.Duration)
	return one(b, stopping(ctx, err))
}

func (s *Server) cancelBuild(ctx context.Context, c enplace.Caller, in *struct {
	NumberOf
	Nothing
}) (*One[enplace.Build], error) {
	return one(s.cfg.Projects.CancelBuild(ctx, c, in.ID, in.N))
}

// settle is how long the status behind the end of a log is waited for.
const settle = 30 * time.Second

func (s *Server) buildLog(ctx context.Context, c enplace.Caller, in *struct {
	NumberOf
	LogParams
}) (*huma.StreamResponse, error) {
	log, err := s.cfg.Projects.BuildLog(ctx, c, in.ID, in.N)
	if err != nil {
		return nil, err
	}
	return s.sendLog(in.LogParams, log, func(ctx context.Context) (string, error) {
		b, err := s.cfg.Projects.GetBuild(ctx, c, in.ID, in.N, settle)
		return string(b.Status), err
	}), nil
}
