package store

import (
	"context"
	"time"

	"enplace"
)

// People keeps teams, people, rooms and conversations. Putting one that is there changes it and keeps its CreatedAt. A record
// that refers to another (a room to its team, a conversation to its person, team or room) is refused with ErrNotFound when that
// is not there.
type People interface {
	// PutTeam makes a team or replaces its people. Logins that are not known yet become people, at the team's UpdatedAt.
	PutTeam(ctx context.Context, t enplace.Team) (enplace.Team, error)
	Team(ctx context.Context, name string) (enplace.Team, error)
	// ListTeams gives them by name.
	ListTeams(ctx context.Context, p enplace.Page) (enplace.List[enplace.Team], error)
	// DeleteTeam removes a team. ErrConflict while a room belongs to it or a scope's records (plugins, items, choices, egress,
	// secrets) are its own. A conversation that named it names none then.
	DeleteTeam(ctx context.Context, name string) error

	// PutPerson makes a person, or leaves one as is. Teams is not written: it is those of PutTeam.
	PutPerson(ctx context.Context, p enplace.Person) (enplace.Person, error)
	Person(ctx context.Context, login string) (enplace.Person, error)
	// ListPeople gives them by login.
	ListPeople(ctx context.Context, p enplace.Page) (enplace.List[enplace.Person], error)
	// DeletePerson removes a person, from the teams as well, with their direct conversations. ErrConflict while a computer or a
	// scope's records are theirs.
	DeletePerson(ctx context.Context, login string) error

	// PutRoom makes or changes a room. ErrNotFound when its team is not there.
	PutRoom(ctx context.Context, r enplace.Room) (enplace.Room, error)
	Room(ctx context.Context, name string) (enplace.Room, error)
	// ListRooms gives them by name.
	ListRooms(ctx context.Context, p enplace.Page) (enplace.List[enplace.Room], error)
	// DeleteRoom removes a room with its conversations. ErrConflict while it has a computer.
	DeleteRoom(ctx context.Context, name string) error

	// PutConversation makes or changes a conversation. Its Computer is not kept: ComputerID says it.
	PutConversation(ctx context.Context, c enplace.Conversation) (enplace.Conversation, error)
	Conversation(ctx context.Context, id string) (enplace.Conversation, error)
	// ListConversations gives them by id.
	ListConversations(ctx context.Context, p enplace.Page) (enplace.List[enplace.Conversation], error)
	// ConversationsOn gives those whose commands run on a computer, by id; none for one that is not known.
	ConversationsOn(ctx context.Context, computer string) ([]enplace.Conversation, error)
	DeleteConversation(ctx context.Context, id string) error
}

// Plugins keeps plugins and the items that they declare, and what else scopes declare. A choice lives as long as an item that
// it can be about: one of that key of the scope itself, of the organisation, or of a team that the person is in. Whatever
// removes the last such item removes the choice, so that a later item of the same key starts with none.
type Plugins interface {
	// CreatePlugin adds a plugin with its items, whose Scope and Plugin are the plugin's; its Items are their keys, in order.
	// ErrExists when the scope has a plugin of that name, or an item of such a key, or a key comes twice.
	CreatePlugin(ctx context.Context, p enplace.Plugin, items []enplace.Item) error
	Plugin(ctx context.Context, id string) (enplace.Plugin, error)
	// ListPlugins gives those of one scope, or all for "", newest first.
	ListPlugins(ctx context.Context, scope enplace.Scope, p enplace.Page) (enplace.List[enplace.Plugin], error)
	// PluginsNamed gives the ids of the plugins of a name, by their scopes.
	PluginsNamed(ctx context.Context, name string) (map[enplace.Scope]string, error)
	// SyncPlugin reads a plugin with its items, lets change edit it and say what its items are now, and writes both. Items that
	// are left out are removed, with the choices about them. ErrExists as for CreatePlugin. ID, Scope and CreatedAt stay. Items
	// that come back as they were, UpdatedAt included, are no change for DeclaredAt.
	SyncPlugin(ctx context.Context, id string, change func(p *enplace.Plugin, have []enplace.Item) ([]enplace.Item, error)) (enplace.Plugin, error)
	// DeletePlugin removes a plugin with its items.
	DeletePlugin(ctx context.Context, id string) error

	// Item gives one item of a scope.
	Item(ctx context.Context, scope enplace.Scope, key string) (enplace.Item, error)
	// UpdateItem reads, lets change edit, and writes back Mode, Enabled, Locked and UpdatedAt.
	UpdateItem(ctx context.Context, scope enplace.Scope, key string, change func(*enplace.Item) error) (enplace.Item, error)
	// PutChoice sets what a scope says of a key; ChoiceInherit removes it. ErrNotFound when there is no item of that key that it
	// can be about.
	PutChoice(ctx context.Context, c enplace.Choice, now time.Time) error
	// PutEgress sets the policy of a scope; nil removes it.
	PutEgress(ctx context.Context, scope enplace.Scope, e *enplace.Egress, now time.Time) error

	// Declared gives, from one state of the database, what the scopes declare: items with their files, choices and policies.
	// For no scopes: of all of them.
	Declared(ctx context.Context, scopes []enplace.Scope) (Declared, error)
	// DeclaredAt gives a counter that every change of items, choices, egress and people of teams raises, in the transaction that
	// makes it. While it is the At of what Declared gave, that still holds. It is one small read.
	DeclaredAt(ctx context.Context) (int64, error)
}

// Declared is what scopes declare.
type Declared struct {
	Items   []enplace.Item   // by scope's depth, then scope, then key
	Choices []enplace.Choice // likewise
	Egress  map[enplace.Scope]enplace.Egress
	At      int64 // DeclaredAt of that state
}

// SetRecord is a set with its bundle.
type SetRecord struct {
	enplace.Set
	Bundle    enplace.Bundle `json:"bundle"`
	CreatedAt time.Time      `json:"created_at"`
	UsedAt    time.Time      `json:"used_at"`
	// NextRefresh is what Refresh will be in the set that takes this one's place, once it was asked for.
	NextRefresh int `json:"next_refresh,omitempty"`
}

// Sets keeps the sets that conversations resolved to, with their bundles.
type Sets interface {
	// PutSet adds a set that is not known, and gives the record; of one that is known it sets UsedAt alone.
	PutSet(ctx context.Context, r SetRecord) (SetRecord, error)
	Set(ctx context.Context, hash string) (SetRecord, error)
	// UpdateSet reads, lets change edit, and writes back Bundle, UsedAt and NextRefresh.
	UpdateSet(ctx context.Context, hash string, change func(*SetRecord) error) (SetRecord, error)
	// ListSets gives them, the last used first.
	ListSets(ctx context.Context, p enplace.Page) (enplace.List[SetRecord], error)
	// DeleteSets forgets the sets not used since the time given that no computer has among its own, and says how many.
	DeleteSets(ctx context.Context, before time.Time) (int, error)
}

// ComputerRecord is a computer with what only the service sees. State, Local, DiskBytes and Limits of the embedded one are as
// they were last looked at.
type ComputerRecord struct {
	enplace.Computer
	Root []enplace.Digest `json:"root"` // images that its volume lies over, fixed when it was made
	Home enplace.Chain    `json:"home"` // the chain of the conversation that it was made for: what a shim without any hint takes
	// Default is the hash of that conversation's set as shims were told last.
	Default string `json:"default,omitempty"`
	// Reported holds the failures that a command has reported: by set and item, the attempt.
	Reported map[string]int `json:"reported,omitempty"`
	// Exports are the variables that the items of each set give to commands, as KEY=value; PATH has the folders of items alone.
	Exports map[string][]string `json:"exports,omitempty"`
	// Locks are the keys of the locked items of each set, as its shims and exports were made last: they are no part of its hash.
	Locks map[string][]string `json:"locks,omitempty"`
}

// Computers keeps computers and their error logs.
type Computers interface {
	// CreateComputer adds one; ErrExists when it is there, ErrNotFound when the person or room of its id is not.
	CreateComputer(ctx context.Context, c ComputerRecord) error
	Computer(ctx context.Context, id string) (ComputerRecord, error)
	// ListComputers gives them by id.
	ListComputers(ctx context.Context, p enplace.Page) (enplace.List[ComputerRecord], error)
	// UpdateComputer reads, lets change edit, and writes back all but ID and CreatedAt.
	UpdateComputer(ctx context.Context, id string, change func(*ComputerRecord) error) (ComputerRecord, error)
	// DeleteComputer removes one with its error log.
	DeleteComputer(ctx context.Context, id string) error
	// AppendComputerError adds an entry, joined with an earlier one of the same error (ComputerError.Joined), which goes; the
	// oldest beyond most are dropped. ErrNotFound when the computer is gone.
	AppendComputerError(ctx context.Context, id string, e enplace.ComputerError, most int) error
	// ListComputerErrors gives them newest first.
	ListComputerErrors(ctx context.Context, id string, p enplace.Page) (enplace.List[enplace.ComputerError], error)
}

// SecretRecord is a value of the keychain, sealed: the store never sees what is inside.
type SecretRecord struct {
	enplace.Secret
	Sealed []byte
}

// Secrets keeps the keychain.
type Secrets interface {
	// PutSecret adds or replaces one, keeping CreatedBy and CreatedAt.
	PutSecret(ctx context.Context, s SecretRecord) (enplace.Secret, error)
	// Secrets gives those of the scopes, all for none, by scope's depth, scope and name.
	Secrets(ctx context.Context, scopes []enplace.Scope) ([]SecretRecord, error)
	DeleteSecret(ctx context.Context, scope enplace.Scope, name string) error
}
