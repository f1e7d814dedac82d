package server

import (
	"context"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"enplace"
)

// ComputerID names a computer in a path.
type ComputerID struct {
	ID string `path:"id" doc:"person:LOGIN or room:NAME"`
}

func (s *Server) listComputers(ctx context.Context, c enplace.Caller, in *PageParams) (*One[enplace.List[enplace.Computer]], error) {
	return list(s.cfg.Computers.List(ctx, c, in.page()))
}

func (s *Server) getComputer(ctx context.Context, c enplace.Caller, in *ComputerID) (*One[enplace.Computer], error) {
	return one(s.cfg.Computers.Get(ctx, c, in.ID))
}

func (s *Server) listComputerErrors(ctx context.Context, c enplace.Caller, in *struct {
	ComputerID
	PageParams
}) (*One[enplace.List[enplace.ComputerError]], error) {
	return list(s.cfg.Computers.Errors(ctx, c, in.ID, in.page()))
}

func (s *Server) computerLog(ctx context.Context, c enplace.Caller, in *struct {
	ComputerID
	LogParams
	Set string `query:"set" required:"true" maxLength:"200" doc:"The set's hash"`
}) (*huma.StreamResponse, error) {
	log, err := s.cfg.Computers.Log(ctx, c, in.ID, in.Set)
	if err != nil {
		return nil, err
	}
	return s.sendLog(in.LogParams, log, func(ctx context.Context) (string, error) {
		computer, err := s.cfg.Computers.Get(ctx, c, in.ID)
		return string(statusOfSet(computer, in.Set)), err
	}), nil
}

// statusOfSet says in a word how a set stands on a computer: as the first of its items that is not installed.
func statusOfSet(c enplace.Computer, hash string) enplace.ItemStatus {
	i := slices.IndexFunc(c.Sets, func(s enplace.ComputerSet) bool { return s.Hash == hash })
	if i < 0 {
		return enplace.ItemPending
	}
	for _, item := range c.Sets[i].Items {
		if item.Status != enplace.ItemInstalled {
			return item.Status
		}
	}
	return enplace.ItemInstalled
}

func (s *Server) stopComputer(ctx context.Context, c enplace.Caller, in *struct {
	ComputerID
	Nothing
}) (*One[enplace.Computer], error) {
	return one(s.cfg.Computers.Stop(ctx, c, in.ID))
}

func (s *Server) resetComputer(ctx context.Context, c enplace.Caller, in *ComputerID) (*struct{}, error) {
	return none(s.cfg.Computers.Reset(ctx, c, in.ID))
}

// SetHash names a set in a path.
type SetHash struct {
	Hash string `path:"hash" doc:"The set's hash: SHA-256, in hex"`
}

func (s *Server) retrySet(ctx context.Context, c enplace.Caller, in *struct {
	SetHash
	Nothing
}) (*One[enplace.RetriedSet], error) {
	bundle, err := s.cfg.Toolchain.RetryBundle(ctx, c, in.Hash)
	if err != nil {
		return nil, err
	}
	n, err := s.cfg.Computers.Retry(ctx, c, in.Hash)
	return one(enplace.RetriedSet{Computers: n, Bundle: bundle}, err)
}

func (s *Server) getBundle(ctx context.Context, c enplace.Caller, in *struct {
	SetHash
	WaitParam
}) (*One[enplace.Bundle], error) {
	ctx, cancel := s.untilStop(ctx)
	defer cancel()
	b, err := s.cfg.Toolchain.WaitBundle(ctx, c, in.Hash, in.Wait.Duration)
	return one(b, stopping(ctx, err))
}

func (s *Server) setLog(ctx context.Context, c enplace.Caller, in *struct {
	SetHash
	LogParams
}) (*huma.StreamResponse, error) {
	ctx, cancel := s.untilStop(ctx)
	defer cancel()
	log, err := s.cfg.Toolchain.Log(ctx, c, in.Hash)
	if err != nil {
		return nil, stopping(ctx, err)
	}
	return s.sendLog(in.LogParams, log, func(ctx context.Context) (string, error) {
		b, err := s.cfg.Toolchain.WaitBundle(ctx, c, in.Hash, settle)
		return string(b.Status), err
	}), nil
}
