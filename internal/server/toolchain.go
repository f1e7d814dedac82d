package server

import (
	"context"
	"io"
	"net"
	"time"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/store"
	"enplace/internal/transcript"
)

// Toolchain is what the server needs of package toolchain.
type Toolchain interface {
	PutTeam(ctx context.Context, c enplace.Caller, name string, in enplace.PutTeam) (enplace.Team, error)
	Team(ctx context.Context, c enplace.Caller, name string) (enplace.Team, error)
	ListTeams(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Team], error)
	DeleteTeam(ctx context.Context, c enplace.Caller, name string) error

	PutPerson(ctx context.Context, c enplace.Caller, login string) (enplace.Person, error)
	Person(ctx context.Context, c enplace.Caller, login string) (enplace.Person, error)
	ListPeople(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Person], error)
	DeletePerson(ctx context.Context, c enplace.Caller, login string) error

	PutRoom(ctx context.Context, c enplace.Caller, name string, in enplace.PutRoom) (enplace.Room, error)
	Room(ctx context.Context, c enplace.Caller, name string) (enplace.Room, error)
	ListRooms(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Room], error)
	DeleteRoom(ctx context.Context, c enplace.Caller, name string) error

	PutConversation(ctx context.Context, c enplace.Caller, id string, in enplace.PutConversation) (enplace.Conversation, error)
	Conversation(ctx context.Context, c enplace.Caller, a access.Action, id string) (enplace.Conversation, error)
	ListConversations(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Conversation], error)
	DeleteConversation(ctx context.Context, c enplace.Caller, id string) error

	CreatePlugin(ctx context.Context, c enplace.Caller, in enplace.CreatePlugin) (enplace.Plugin, error)
	CreatePluginArchive(ctx context.Context, c enplace.Caller, scope enplace.Scope, name string, archive io.Reader) (enplace.Plugin, error)
	SyncPlugin(ctx context.Context, c enplace.Caller, ref string, archive io.Reader) (enplace.Plugin, error)
	Plugin(ctx context.Context, c enplace.Caller, ref string) (enplace.Plugin, error)
	ListPlugins(ctx context.Context, c enplace.Caller, scope enplace.Scope, p enplace.Page) (enplace.List[enplace.Plugin], error)
	DeletePlugin(ctx context.Context, c enplace.Caller, ref string) error

	ListItems(ctx context.Context, c enplace.Caller, scope enplace.Scope, p enplace.Page) (enplace.List[enplace.ListedItem], error)
	Item(ctx context.Context, c enplace.Caller, scope enplace.Scope, key string) (enplace.Item, error)
	UpdateItem(ctx context.Context, c enplace.Caller, scope enplace.Scope, key string, in enplace.UpdateItem) (enplace.Item, error)
	PutChoice(ctx context.Context, c enplace.Caller, scope enplace.Scope, key string, in enplace.PutChoice) error
	PutEgress(ctx context.Context, c enplace.Caller, scope enplace.Scope, e *enplace.Egress) error
	Egress(ctx context.Context, c enplace.Caller, scope enplace.Scope) (*enplace.Egress, error)

	PutSecret(ctx context.Context, c enplace.Caller, scope enplace.Scope, name string, in enplace.PutSecret) (enplace.Secret, error)
	ListSecrets(ctx context.Context, c enplace.Caller, scope enplace.Scope, p enplace.Page) (enplace.List[enplace.Secret], error)
	DeleteSecret(ctx context.Context, c enplace.Caller, scope enplace.Scope, name string) error

	Refresh(ctx context.Context, c enplace.Caller, conversation string) (store.SetRecord, error)
	RetryBundle(ctx context.Context, c enplace.Caller, hash string) (enplace.Bundle, error)
	WaitBundle(ctx context.Context, c enplace.Caller, hash string, wait time.Duration) (enplace.Bundle, error)
	Log(ctx context.Context, c enplace.Caller, hash string) (*transcript.Reader, error)
}

// Computers is what the server needs of package computer.
type Computers interface {
	Exec(ctx context.Context, c enplace.Caller, conversation string, in enplace.ConversationExec, each func(enplace.ConversationEvent) error) (enplace.ConversationResult, error)
	Dial(ctx context.Context, c enplace.Caller, conversation string) (net.Conn, error)
	Set(ctx context.Context, c enplace.Caller, conversation string) (enplace.ConversationSet, error)
	Explain(ctx context.Context, c enplace.Caller, conversation string) (enplace.ExplainedSet, error)
	Retry(ctx context.Context, c enplace.Caller, hash string) (int, error)
	Get(ctx context.Context, c enplace.Caller, id string) (enplace.Computer, error)
	List(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Computer], error)
	Errors(ctx context.Context, c enplace.Caller, id string, p enplace.Page) (enplace.List[enplace.ComputerError], error)
	Log(ctx context.Context, c enplace.Caller, id, hash string) (*transcript.Reader, error)
	Stop(ctx context.Context, c enplace.Caller, id string) (enplace.Computer, error)
	Reset(ctx context.Context, c enplace.Caller, id string) error
}
