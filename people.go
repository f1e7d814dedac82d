package enplace

import "time"

// Team is a scope of the organisation, with the people in it.
type Team struct {
	Name      string    `json:"name"`
	People    []string  `json:"people" doc:"Logins"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// PutTeam makes a team or changes its people.
type PutTeam struct {
	People []string `json:"people" doc:"Logins; those left out leave the team. A login that is not known yet becomes a person"`
}

// Person is somebody with a scope and a computer of their own.
type Person struct {
	Login     string    `json:"login"`
	Teams     []string  `json:"teams" doc:"The teams that the person is in"`
	CreatedAt time.Time `json:"created_at"`
}

// Room is a shared conversation place of the organisation, or of one team. It never has items of its own.
type Room struct {
	Name      string    `json:"name"`
	Team      string    `json:"team,omitempty"`
	Internal  bool      `json:"internal" doc:"Everybody in it belongs to the organisation, so whoever speaks there may start a retry"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// PutRoom makes a room or changes it.
type PutRoom struct {
	Team     string `json:"team,omitempty" doc:"The team that it belongs to; the organisation's without one"`
	Internal bool   `json:"internal,omitempty"`
}

// ConversationKind says where a conversation takes place.
type ConversationKind string

// The kinds of conversation.
const (
	ConversationDirect ConversationKind = "direct" // with one person
	ConversationRoom   ConversationKind = "room"
)

// Conversation is where commands come from. It reads a chain of scopes and runs on one computer: the person's or the room's.
type Conversation struct {
	ID        string           `json:"id"`
	Kind      ConversationKind `json:"kind" enum:"direct,room"`
	Person    string           `json:"person,omitempty"`
	Team      string           `json:"team,omitempty" doc:"Of a direct conversation: which of the person's teams, where there are several"`
	Room      string           `json:"room,omitempty"`
	Computer  string           `json:"computer" doc:"The id of its computer"`
	CreatedAt time.Time        `json:"created_at"`
	UpdatedAt time.Time        `json:"updated_at"`
}

// PutConversation makes a conversation or changes what it reads.
type PutConversation struct {
	Kind   ConversationKind `json:"kind" enum:"direct,room"`
	Person string           `json:"person,omitempty" doc:"Of a direct conversation"`
	Team   string           `json:"team,omitempty" doc:"Of a direct conversation: one of the person's teams, needed where there are several"`
	Room   string           `json:"room,omitempty" doc:"Of a conversation in a room"`
}

// ComputerID is the id of the computer of a conversation: person:LOGIN or room:NAME. It is known before the computer is there.
func (c Conversation) ComputerID() string {
	if c.Kind == ConversationRoom {
		return "room:" + c.Room
	}
	return string(PersonScope(c.Person))
}
