package server_test

import (
	"context"
	"io"
	"net"
	"time"

	"enplace"
	"enplace/internal/server"
	"enplace/internal/transcript"
)

type toolchain struct {
	server.Toolchain
	putTeam   func(string, enplace.PutTeam) (enplace.Team, error)
	putPerson func(string) (enplace.Person, error)
	listRooms func(enplace.Page) (enplace.List[enplace.Room], error)
	create    func(enplace.CreatePlugin) (enplace.Plugin, error)
	archive   func(enplace.Scope, string, io.Reader) (enplace.Plugin, error)
	sync      func(string, io.Reader) (enplace.Plugin, error)
	item      func(enplace.Scope, string) (enplace.Item, error)
	update    func(enplace.UpdateItem) (enplace.Item, error)
	choose    func(enplace.PutChoice) error
	putEgress func(*enplace.Egress) error
	egress    func() (*enplace.Egress, error)
	putSecret func(string, enplace.PutSecret) (enplace.Secret, error)
	retry     func() (enplace.Bundle, error)
	wait      func(context.Context, time.Duration) (enplace.Bundle, error)
	log       func() (*transcript.Reader, error)
}

func (d *toolchain) PutTeam(_ context.Context, _ enplace.Caller, name string, in enplace.PutTeam) (enplace.Team, error) {
	return d.putTeam(name, in)
}
func (d *toolchain) PutPerson(_ context.Context, _ enplace.Caller, login string) (enplace.Person, error) {
	return d.putPerson(login)
}
func (d *toolchain) ListRooms(_ context.Context, _ enplace.Caller, p enplace.Page) (enplace.List[enplace.Room], error) {
	return d.listRooms(p)
}
func (d *toolchain) CreatePlugin(_ context.Context, _ enplace.Caller, in enplace.CreatePlugin) (enplace.Plugin, error) {
	return d.create(in)
}
func (d *toolchain) CreatePluginArchive(_ context.Context, _ enplace.Caller, scope enplace.Scope, name string, archive io.Reader) (enplace.Plugin, error) {
	return d.archive(scope, name, archive)
}
func (d *toolchain) SyncPlugin(_ context.Context, _ enplace.Caller, id string, archive io.Reader) (enplace.Plugin, error) {
	return d.sync(id, archive)
}
func (d *toolchain) Item(_ context.Context, _ enplace.Caller, scope enplace.Scope, key string) (enplace.Item, error) {
	return d.item(scope, key)
}
func (d *toolchain) UpdateItem(_ context.Context, _ enplace.Caller, _ enplace.Scope, _ string, in enplace.UpdateItem) (enplace.Item, error) {
	return d.update(in)
}
func (d *toolchain) PutChoice(_ context.Context, _ enplace.Caller, _ enplace.Scope, _ string, in enplace.PutChoice) error {
	return d.choose(in)
}
func (d *toolchain) PutEgress(_ context.Context, _ enplace.Caller, _ enplace.Scope, e *enplace.Egress) error {
	return d.putEgress(e)
}
func (d *toolchain) Egress(context.Context, enplace.Caller, enplace.Scope) (*enplace.Egress, error) {
	return d.egress()
}
func (d *toolchain) PutSecret(_ context.Context, _ enplace.Caller, _ enplace.Scope, name string, in enplace.PutSecret) (enplace.Secret, error) {
	return d.putSecret(name, in)
}
func (d *toolchain) RetryBundle(context.Context, enplace.Caller, string) (enplace.Bundle, error) {
	return d.retry()
}
func (d *toolchain) WaitBundle(ctx context.Context, _ enplace.Caller, _ string, wait time.Duration) (enplace.Bundle, error) {
	return d.wait(ctx, wait)
}
func (d *toolchain) Log(context.Context, enplace.Caller, string) (*transcript.Reader, error) {
	return d.log()
}

type computers struct {
	server.Computers
	exec  func(context.Context, enplace.ConversationExec, func(enplace.ConversationEvent) error) (enplace.ConversationResult, error)
	dial  func() (net.Conn, error)
	retry func() (int, error)
	get   func() (enplace.Computer, error)
	log   func(string) (*transcript.Reader, error)
}

func (d *computers) Exec(ctx context.Context, _ enplace.Caller, _ string, in enplace.ConversationExec, each func(enplace.ConversationEvent) error) (enplace.ConversationResult, error) {
	return d.exec(ctx, in, each)
}
func (d *computers) Dial(context.Context, enplace.Caller, string) (net.Conn, error) { return d.dial() }
func (d *computers) Retry(context.Context, enplace.Caller, string) (int, error)     { return d.retry() }
func (d *computers) Get(context.Context, enplace.Caller, string) (enplace.Computer, error) {
	return d.get()
}
func (d *computers) Log(_ context.Context, _ enplace.Caller, _, hash string) (*transcript.Reader, error) {
	return d.log(hash)
}
