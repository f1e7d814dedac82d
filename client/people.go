package client

import (
	"context"

	"enplace"
)

const (
	teams         = "teams"
	people        = "people"
	rooms         = "rooms"
	conversations = "conversations"
)

// PutTeam makes a team, or changes its people.
func (c *Client) PutTeam(ctx context.Context, name string, in enplace.PutTeam) (t enplace.Team, err error) {
	if in.People == nil {
		in.People = []string{} // nobody, and not nothing said
	}
	return t, c.put(ctx, at(teams, name), in, &t)
}

// ListTeams gives the teams by name.
func (c *Client) ListTeams(ctx context.Context, p enplace.Page) (l enplace.List[enplace.Team], err error) {
	return l, c.get(ctx, at(teams), page(p), &l)
}

// Team gives one team.
func (c *Client) Team(ctx context.Context, name string) (t enplace.Team, err error) {
	return t, c.get(ctx, at(teams, name), nil, &t)
}

// DeleteTeam removes a team that owns nothing any more.
func (c *Client) DeleteTeam(ctx context.Context, name string) error {
	return c.delete(ctx, at(teams, name), nil)
}

// PutPerson makes a person, or leaves one as they are.
func (c *Client) PutPerson(ctx context.Context, login string) (p enplace.Person, err error) {
	return p, c.put(ctx, at(people, login), nil, &p)
}

// ListPeople gives the people by login.
func (c *Client) ListPeople(ctx context.Context, p enplace.Page) (l enplace.List[enplace.Person], err error) {
	return l, c.get(ctx, at(people), page(p), &l)
}

// Person gives one person with their teams.
func (c *Client) Person(ctx context.Context, login string) (p enplace.Person, err error) {
	return p, c.get(ctx, at(people, login), nil, &p)
}

// DeletePerson removes a person who owns nothing any more.
func (c *Client) DeletePerson(ctx context.Context, login string) error {
	return c.delete(ctx, at(people, login), nil)
}

// PutRoom makes a room, or changes it.
func (c *Client) PutRoom(ctx context.Context, name string, in enplace.PutRoom) (r enplace.Room, err error) {
	return r, c.put(ctx, at(rooms, name), in, &r)
}

// ListRooms gives the rooms by name.
func (c *Client) ListRooms(ctx context.Context, p enplace.Page) (l enplace.List[enplace.Room], err error) {
	return l, c.get(ctx, at(rooms), page(p), &l)
}

// Room gives one room.
func (c *Client) Room(ctx context.Context, name string) (r enplace.Room, err error) {
	return r, c.get(ctx, at(rooms, name), nil, &r)
}

// DeleteRoom removes a room without a computer, with its conversations.
func (c *Client) DeleteRoom(ctx context.Context, name string) error {
	return c.delete(ctx, at(rooms, name), nil)
}

// PutConversation makes a conversation, or changes what it reads.
func (c *Client) PutConversation(ctx context.Context, id string, in enplace.PutConversation) (v enplace.Conversation, err error) {
	return v, c.put(ctx, at(conversations, id), in, &v)
}

// ListConversations gives the conversations that the key can see, by id.
func (c *Client) ListConversations(ctx context.Context, p enplace.Page) (l enplace.List[enplace.Conversation], err error) {
	return l, c.get(ctx, at(conversations), page(p), &l)
}

// Conversation gives one conversation.
func (c *Client) Conversation(ctx context.Context, id string) (v enplace.Conversation, err error) {
	return v, c.get(ctx, at(conversations, id), nil, &v)
}

// DeleteConversation removes a conversation; its computer stays.
func (c *Client) DeleteConversation(ctx context.Context, id string) error {
	return c.delete(ctx, at(conversations, id), nil)
}
