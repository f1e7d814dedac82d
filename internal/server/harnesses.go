package server

import (
	"context"

	"enplace"
)

func (s *Server) createHarness(ctx context.Context, c enplace.Caller, in *JSONBody[enplace.CreateHarness]) (*Made[enplace.Harness], error) {
	h, err := s.cfg.Tasks.CreateHarness(ctx, c, in.Body)
	return made(h, "/v1/harnesses/"+h.ID, err)
}

func (s *Server) listHarnesses(ctx context.Context, c enplace.Caller, in *PageParams) (*One[enplace.List[enplace.Harness]], error) {
	return list(s.cfg.Tasks.ListHarnesses(ctx, c, in.page()))
}

func (s *Server) getHarness(ctx context.Context, c enplace.Caller, in *HarnessID) (*One[enplace.Harness], error) {
	return one(s.cfg.Tasks.GetHarness(ctx, c, in.ID))
}

func (s *Server) deleteHarness(ctx context.Context, c enplace.Caller, in *HarnessID) (*struct{}, error) {
	return none(s.cfg.Tasks.DeleteHarness(ctx, c, in.ID))
}
