package sqlite

import (
	"context"
	"strings"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

func room(r db.Room) (enplace.Room, error) {
	return enplace.Room{
		Name: r.Name, Team: r.Team.String, Internal: r.Internal, CreatedAt: fromMicros(r.CreatedAt), UpdatedAt: fromMicros(r.UpdatedAt),
	}, nil
}

// PutRoom makes or changes a room.
func (s *Store) PutRoom(ctx context.Context, r enplace.Room) (enplace.Room, error) {
	row, err := s.write.PutRoom(ctx, db.PutRoomParams{
		Name: r.Name, Team: nullable(r.Team), Internal: r.Internal, CreatedAt: micros(r.CreatedAt), UpdatedAt: micros(r.UpdatedAt),
	})
	if err != nil {
		return enplace.Room{}, translate(err)
	}
	return room(row)
}

// Room gives one.
func (s *Store) Room(ctx context.Context, name string) (enplace.Room, error) {
	r, err := s.read.GetRoom(ctx, name)
	if err != nil {
		return enplace.Room{}, translate(err)
	}
	return room(r)
}

// ListRooms gives them by name.
func (s *Store) ListRooms(ctx context.Context, p enplace.Page) (list enplace.List[enplace.Room], err error) {
	after, err := following(p)
	if err != nil {
		return list, err
	}
	rows, err := s.read.ListRooms(ctx, db.ListRoomsParams{After: after, Count: fetch(p)})
	items, err := convert(rows, err, room)
	if err != nil {
		return list, err
	}
	return store.PageOf(items, p, func(r enplace.Room) string { return store.Cursor(r.Name) }), nil
}

// DeleteRoom removes a room without a computer.
func (s *Store) DeleteRoom(ctx context.Context, name string) error {
	return unneeded(s.write.DeleteRoom(ctx, name))
}

func conversation(r db.Conversation) (enplace.Conversation, error) {
	return enplace.Conversation{
		ID: r.ID, Kind: enplace.ConversationKind(r.Kind), Person: r.Person.String, Team: r.Team.String, Room: r.Room.String,
		CreatedAt: fromMicros(r.CreatedAt), UpdatedAt: fromMicros(r.UpdatedAt),
	}, nil
}

// PutConversation makes or changes a conversation.
func (s *Store) PutConversation(ctx context.Context, c enplace.Conversation) (enplace.Conversation, error) {
	r, err := s.write.PutConversation(ctx, db.PutConversationParams{
		ID: c.ID, Kind: string(c.Kind), Person: nullable(c.Person), Team: nullable(c.Team), Room: nullable(c.Room),
		CreatedAt: micros(c.CreatedAt), UpdatedAt: micros(c.UpdatedAt),
	})
	if err != nil {
		return enplace.Conversation{}, translate(err)
	}
	return conversation(r)
}

// Conversation gives one.
func (s *Store) Conversation(ctx context.Context, id string) (enplace.Conversation, error) {
	r, err := s.read.GetConversation(ctx, id)
	if err != nil {
		return enplace.Conversation{}, translate(err)
	}
	return conversation(r)
}

// ListConversations gives them by id.
func (s *Store) ListConversations(ctx context.Context, p enplace.Page) (list enplace.List[enplace.Conversation], err error) {
	after, err := following(p)
	if err != nil {
		return list, err
	}
	rows, err := s.read.ListConversations(ctx, db.ListConversationsParams{After: after, Count: fetch(p)})
	items, err := convert(rows, err, conversation)
	if err != nil {
		return list, err
	}
	return store.PageOf(items, p, func(c enplace.Conversation) string { return store.Cursor(c.ID) }), nil
}

// ConversationsOn gives those of a computer by id.
func (s *Store) ConversationsOn(ctx context.Context, computer string) ([]enplace.Conversation, error) {
	room, inRoom := strings.CutPrefix(computer, "room:")
	p := db.ConversationsOnParams{Person: nullable(enplace.Scope(computer).Person())}
	if inRoom {
		p.Room = nullable(room)
	}
	rows, err := s.read.ConversationsOn(ctx, p)
	return convert(rows, err, conversation)
}

// DeleteConversation removes one.
func (s *Store) DeleteConversation(ctx context.Context, id string) error {
	return some(s.write.DeleteConversation(ctx, id))
}
