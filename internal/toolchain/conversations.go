package toolchain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/store"
)

// PutConversation makes a conversation, or changes what it reads. Operators may, and a person may for their own.
func (s *Service) PutConversation(ctx context.Context, c enplace.Caller, id string, in enplace.PutConversation) (enplace.Conversation, error) {
	if err := enplace.CheckHandle("conversation", id); err != nil {
		return enplace.Conversation{}, err
	}
	conv := enplace.Conversation{ID: id, Kind: in.Kind, Person: in.Person, Team: in.Team, Room: in.Room}
	s.talks.Lock() // or of two who make one of the same name at once the later would take it over
	defer s.talks.Unlock()
	have, err := s.cfg.Store.Conversation(ctx, id)
	isNew := errors.Is(err, store.ErrNotFound)
	switch {
	case err == nil:
		err = s.mayConversation(ctx, c, access.Write, have)
	case isNew:
		err = access.Check(c, access.Write, access.Thing{What: "conversation", ID: id, Owner: conv.Person})
	}
	if err != nil {
		return enplace.Conversation{}, err
	}
	if err := s.mayConversation(ctx, c, access.Write, conv); err != nil {
		return enplace.Conversation{}, err
	}
	if err := s.checkConversation(ctx, conv); err != nil {
		return enplace.Conversation{}, err
	}
	if isNew && s.cfg.Retire != nil { // keys of agents of an earlier conversation of the name are not this one's
		if err := s.cfg.Retire(ctx, access.ConversationSubject(id)); err != nil {
			return enplace.Conversation{}, err
		}
	}
	now := s.cfg.Now().UTC()
	conv.CreatedAt, conv.UpdatedAt = now, now
	conv, err = s.cfg.Store.PutConversation(ctx, conv)
	if errors.Is(err, store.ErrNotFound) {
		return enplace.Conversation{}, enplace.Conflictf("the person, team or room of this conversation was removed meanwhile").WithFix("make it again first")
	}
	if err != nil {
		return enplace.Conversation{}, err
	}
	s.cfg.Audit.Record(ctx, c, "conversation.put", id, map[string]any{"kind": in.Kind, "person": in.Person, "team": in.Team, "room": in.Room})
	return withComputer(conv), nil
}

func withComputer(c enplace.Conversation) enplace.Conversation {
	c.Computer = c.ComputerID()
	return c
}

func (s *Service) checkConversation(ctx context.Context, c enplace.Conversation) error {
	switch c.Kind {
	case enplace.ConversationDirect:
		if c.Room != "" {
			return enplace.Invalidf("goes with a conversation of kind room only").WithField("room")
		}
		if c.Person == "" {
			return enplace.Invalidf("is required: a conversation of kind direct is with a person").WithField("person")
		}
		p, err := s.cfg.Store.Person(ctx, c.Person)
		if err != nil {
			return absent(err, "person", c.Person, "person", "make them first: enplace person put LOGIN")
		}
		if c.Team != "" && !slices.Contains(p.Teams, c.Team) {
			return enplace.Invalidf("%s is not in the team %q, but in: %s", c.Person, enplace.Shown(c.Team, 80), cmp.Or(strings.Join(p.Teams, ", "), "none")).WithField("team").
				WithFix("leave it out, name one of these, or put them into it first: enplace team put NAME --person LOGIN")
		}
		if c.Team == "" && len(p.Teams) > 1 {
			return enplace.Invalidf("%s is in several teams, and a conversation reads one: %s", c.Person, strings.Join(p.Teams, ", ")).WithField("team").
				WithFix("name one of them as team")
		}
		return nil
	case enplace.ConversationRoom:
		if c.Person != "" || c.Team != "" {
			return enplace.Invalidf("a conversation in a room has no person or team of its own; it reads the room's team").WithField("room")
		}
		if c.Room == "" {
			return enplace.Invalidf("is required: a conversation of kind room is in one").WithField("room")
		}
		_, err := s.cfg.Store.Room(ctx, c.Room)
		return absent(err, "room", c.Room, "room", "make it first: enplace room put NAME")
	}
	return enplace.Invalidf("%q is none of direct, room", c.Kind).WithField("kind")
}

// mayConversation says whether the caller may do that in a conversation: its person in a direct one; in a room of a team the
// people of that team, and in one of the organisation everybody. None of them changes a room's.
func (s *Service) mayConversation(ctx context.Context, c enplace.Caller, a access.Action, conv enplace.Conversation) error {
	t := access.Thing{What: "conversation", ID: conv.ID, Owner: conv.Person}
	if conv.Kind == enplace.ConversationRoom && c.Kind == enplace.KeyPerson {
		var err error
		if t.Shared, err = s.inRoom(ctx, conv.Room, c.Subject); err != nil {
			return err
		}
	}
	return access.Check(c, a, t)
}

// inRoom reports whether a person may speak in a room: everybody in one of the organisation, the team's people in one of a team.
func (s *Service) inRoom(ctx context.Context, name, login string) (bool, error) {
	room, err := s.cfg.Store.Room(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil || room.Team == "" {
		return err == nil, err
	}
	team, err := s.cfg.Store.Team(ctx, room.Team)
	return slices.Contains(team.People, login), ignoreMissing(err)
}

// MayComputer says whether the caller may do that to the computer of a person or a room. Whoever may speak in a room may look at
// its computer; only an operator may take it away.
func (s *Service) MayComputer(ctx context.Context, c enplace.Caller, a access.Action, id string) error {
	t := access.Thing{What: "computer", ID: id, Owner: enplace.Scope(id).Person()}
	if room, ok := strings.CutPrefix(id, "room:"); ok && c.Kind == enplace.KeyPerson {
		var err error
		if t.Shared, err = s.inRoom(ctx, room, c.Subject); err != nil {
			return err
		}
	}
	return access.Check(c, a, t)
}

// Conversation gives a conversation that the caller may do an action in.
func (s *Service) Conversation(ctx context.Context, c enplace.Caller, a access.Action, id string) (enplace.Conversation, error) {
	conv, err := s.cfg.Store.Conversation(ctx, id)
	if err != nil {
		return enplace.Conversation{}, missing(err, "conversation", id)
	}
	if err := s.mayConversation(ctx, c, a, conv); err != nil {
		return enplace.Conversation{}, err
	}
	return withComputer(conv), nil
}

// ListConversations gives those that the caller may see, by id.
func (s *Service) ListConversations(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Conversation], error) {
	if err := access.CheckList(c, "conversations"); err != nil {
		return enplace.List[enplace.Conversation]{}, err
	}
	l, err := store.Visible(p,
		func(p enplace.Page) (enplace.List[enplace.Conversation], error) {
			return s.cfg.Store.ListConversations(ctx, p)
		},
		func(conv enplace.Conversation) error { return s.mayConversation(ctx, c, access.Read, conv) },
		func(conv enplace.Conversation) string { return store.Cursor(conv.ID) })
	for i := range l.Items {
		l.Items[i] = withComputer(l.Items[i])
	}
	return l, err
}

// ConversationsOn gives the conversations of a computer, by id, whoever may see them: a rule of access is the caller's.
func (s *Service) ConversationsOn(ctx context.Context, computer string) ([]enplace.Conversation, error) {
	all, err := s.cfg.Store.ConversationsOn(ctx, computer)
	if err != nil {
		return nil, fmt.Errorf("finding the conversations of a computer: %w", err)
	}
	return all, nil
}

// DeleteConversation removes a conversation. Its computer stays.
func (s *Service) DeleteConversation(ctx context.Context, c enplace.Caller, id string) error {
	if _, err := s.Conversation(ctx, c, access.Write, id); err != nil {
		return err
	}
	return s.removed(ctx, c, missing(s.cfg.Store.DeleteConversation(ctx, id), "conversation", id), "conversation.delete", id)
}

// chain gives the scopes that a conversation reads. A team that the person has left since is read no more; of several the
// first by name is read until the conversation names one.
func (s *Service) chain(ctx context.Context, conv enplace.Conversation) (enplace.Chain, error) {
	if conv.Kind == enplace.ConversationRoom {
		room, err := s.cfg.Store.Room(ctx, conv.Room)
		return enplace.NewChain(room.Team, ""), missing(err, "room", conv.Room)
	}
	p, err := s.cfg.Store.Person(ctx, conv.Person)
	if err != nil {
		return nil, missing(err, "person", conv.Person)
	}
	team := conv.Team
	if !slices.Contains(p.Teams, team) {
		if team = ""; len(p.Teams) > 0 {
			team = slices.Min(p.Teams)
		}
	}
	return enplace.NewChain(team, conv.Person), nil
}

// Internal reports whether everybody in a conversation belongs to the organisation, so that a live person there may start a
// retry.
func (s *Service) Internal(ctx context.Context, conv enplace.Conversation) (bool, error) {
	if conv.Kind == enplace.ConversationDirect {
		return true, nil
	}
	room, err := s.cfg.Store.Room(ctx, conv.Room)
	return room.Internal, missing(err, "room", conv.Room)
}
