package server

import (
	"context"

	"enplace"
)

// ScopeName names a scope in a path.
type ScopeName struct {
	Scope string `path:"scope" doc:"organisation, team:NAME or person:LOGIN"`
}

func (s ScopeName) scope() enplace.Scope { return enplace.Scope(s.Scope) }

// ItemKey names an item in a path.
type ItemKey struct {
	ScopeName
	Key string `path:"key" doc:"The item's key"`
}

func (s *Server) listItems(ctx context.Context, c enplace.Caller, in *struct {
	PageParams
	Scope string `query:"scope" required:"true" maxLength:"200" doc:"organisation, team:NAME or person:LOGIN"`
}) (*One[enplace.List[enplace.ListedItem]], error) {
	return list(s.cfg.Toolchain.ListItems(ctx, c, enplace.Scope(in.Scope), in.page()))
}

func (s *Server) getItem(ctx context.Context, c enplace.Caller, in *ItemKey) (*One[enplace.Item], error) {
	return one(s.cfg.Toolchain.Item(ctx, c, in.scope(), in.Key))
}

func (s *Server) updateItem(ctx context.Context, c enplace.Caller, in *struct {
	ItemKey
	JSONBody[enplace.UpdateItem]
}) (*One[enplace.Item], error) {
	return one(s.cfg.Toolchain.UpdateItem(ctx, c, in.scope(), in.Key, in.Body))
}

func (s *Server) putChoice(ctx context.Context, c enplace.Caller, in *struct {
	ItemKey
	JSONBody[enplace.PutChoice]
}) (*One[enplace.Choice], error) {
	err := s.cfg.Toolchain.PutChoice(ctx, c, in.scope(), in.Key, in.Body)
	return one(enplace.Choice{Scope: in.scope(), Key: in.Key, State: in.Body.State}, err)
}

func (s *Server) putEgress(ctx context.Context, c enplace.Caller, in *struct {
	ScopeName
	JSONBody[enplace.Egress]
}) (*One[enplace.Egress], error) {
	return one(in.Body, s.cfg.Toolchain.PutEgress(ctx, c, in.scope(), &in.Body))
}

func (s *Server) getEgress(ctx context.Context, c enplace.Caller, in *ScopeName) (*One[enplace.Egress], error) {
	e, err := s.cfg.Toolchain.Egress(ctx, c, in.scope())
	if err != nil {
		return nil, err
	}
	if e == nil {
		return nil, enplace.NotFoundf("%s has no egress policy of its own; it leaves that to the other scopes", in.Scope).WithField("egress")
	}
	return one(*e, nil)
}

func (s *Server) deleteEgress(ctx context.Context, c enplace.Caller, in *ScopeName) (*struct{}, error) {
	return none(s.cfg.Toolchain.PutEgress(ctx, c, in.scope(), nil))
}

// SecretName names a value of the keychain in a path.
type SecretName struct {
	ScopeName
	Name string `path:"name" doc:"Of the variable"`
}

func (s *Server) putSecret(ctx context.Context, c enplace.Caller, in *struct {
	SecretName
	JSONBody[enplace.PutSecret]
}) (*One[enplace.Secret], error) {
	return one(s.cfg.Toolchain.PutSecret(ctx, c, in.scope(), in.Name, in.Body))
}

func (s *Server) listSecrets(ctx context.Context, c enplace.Caller, in *struct {
	ScopeName
	PageParams
}) (*One[enplace.List[enplace.Secret]], error) {
	return list(s.cfg.Toolchain.ListSecrets(ctx, c, in.scope(), in.page()))
}

func (s *Server) deleteSecret(ctx context.Context, c enplace.Caller, in *SecretName) (*struct{}, error) {
	return none(s.cfg.Toolchain.DeleteSecret(ctx, c, in.scope(), in.Name))
}
