package server

import (
	"context"

	"enplace"
)

// KeyID names a key in a path.
type KeyID struct {
	ID string `path:"id" doc:"The key's id"`
}

func (s *Server) createKey(ctx context.Context, c enplace.Caller, in *JSONBody[enplace.CreateKey]) (*Made[enplace.Key], error) {
	k, err := s.cfg.Keys.Create(ctx, c, in.Body)
	return made(k, "/v1/keys/"+k.ID, err)
}

func (s *Server) listKeys(ctx context.Context, c enplace.Caller, in *PageParams) (*One[enplace.List[enplace.Key]], error) {
	return list(s.cfg.Keys.List(ctx, c, in.page()))
}

func (s *Server) revokeKey(ctx context.Context, c enplace.Caller, in *KeyID) (*One[enplace.Key], error) {
	return one(s.cfg.Keys.Revoke(ctx, c, in.ID))
}
