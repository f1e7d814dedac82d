package server

import (
	"context"
	"net"

	"github.com/danielgtaylor/huma/v2"

	"enplace"
	"enplace/internal/access"
)

// ConversationID names a conversation in a path.
type ConversationID struct {
	ID string `path:"id" doc:"The conversation's id"`
}

func (s *Server) putConversation(ctx context.Context, c enplace.Caller, in *struct {
	ConversationID
	JSONBody[enplace.PutConversation]
}) (*One[enplace.Conversation], error) {
	return one(s.cfg.Toolchain.PutConversation(ctx, c, in.ID, in.Body))
}

func (s *Server) getConversation(ctx context.Context, c enplace.Caller, in *ConversationID) (*One[enplace.Conversation], error) {
	return one(s.cfg.Toolchain.Conversation(ctx, c, access.Read, in.ID))
}

func (s *Server) listConversations(ctx context.Context, c enplace.Caller, in *PageParams) (*One[enplace.List[enplace.Conversation]], error) {
	return list(s.cfg.Toolchain.ListConversations(ctx, c, in.page()))
}

func (s *Server) deleteConversation(ctx context.Context, c enplace.Caller, in *ConversationID) (*struct{}, error) {
	return none(s.cfg.Toolchain.DeleteConversation(ctx, c, in.ID))
}

func (s *Server) execConversation(ctx context.Context, c enplace.Caller, in *struct {
	ConversationID
	Accept string `header:"Accept" hidden:"true"`
	JSONBody[enplace.ConversationExec]
}) (*huma.StreamResponse, error) {
	return execution[enplace.ConversationResult, enplace.ConversationEvent]{
		run: func(ctx context.Context, each func(enplace.ConversationEvent) error) (enplace.ConversationResult, error) {
			return s.cfg.Computers.Exec(ctx, c, in.ID, in.Body, each)
		},
		ended: func(r enplace.ConversationResult) enplace.ConversationEvent {
			return enplace.ConversationEvent{Result: &r}
		},
		failed: func(p *enplace.Problem) enplace.ConversationEvent { return enplace.ConversationEvent{Error: p} },
	}.answer(ctx, s, in.Accept)
}

func (s *Server) sshConversation(ctx context.Context, c enplace.Caller, in *struct {
	ConversationID
	UpgradeParam
}) (*huma.StreamResponse, error) {
	return s.upgrade(in.Upgrade, "enplace computer ssh", func() (net.Conn, error) { return s.cfg.Computers.Dial(ctx, c, in.ID) })
}

func (s *Server) getSet(ctx context.Context, c enplace.Caller, in *ConversationID) (*One[enplace.ConversationSet], error) {
	return one(s.cfg.Computers.Set(ctx, c, in.ID))
}

func (s *Server) explainSet(ctx context.Context, c enplace.Caller, in *ConversationID) (*One[enplace.ExplainedSet], error) {
	return one(s.cfg.Computers.Explain(ctx, c, in.ID))
}

func (s *Server) refreshSet(ctx context.Context, c enplace.Caller, in *struct {
	ConversationID
	Nothing
}) (*One[enplace.ConversationSet], error) {
	if _, err := s.cfg.Toolchain.Refresh(ctx, c, in.ID); err != nil {
		return nil, err
	}
	return one(s.cfg.Computers.Set(ctx, c, in.ID))
}
