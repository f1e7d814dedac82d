package server

import (
	"context"

	"enplace"
)

// TeamName names a team in a path.
type TeamName struct {
	Team string `path:"team" doc:"The team's name"`
}

// PersonLogin names a person in a path.
type PersonLogin struct {
	Person string `path:"person" doc:"The person's login"`
}

// RoomName names a room in a path.
type RoomName struct {
	Room string `path:"room" doc:"The room's name"`
}

func (s *Server) putTeam(ctx context.Context, c enplace.Caller, in *struct {
	TeamName
	JSONBody[enplace.PutTeam]
}) (*One[enplace.Team], error) {
	return one(s.cfg.Toolchain.PutTeam(ctx, c, in.Team, in.Body))
}

func (s *Server) getTeam(ctx context.Context, c enplace.Caller, in *TeamName) (*One[enplace.Team], error) {
	return one(s.cfg.Toolchain.Team(ctx, c, in.Team))
}

func (s *Server) listTeams(ctx context.Context, c enplace.Caller, in *PageParams) (*One[enplace.List[enplace.Team]], error) {
	return list(s.cfg.Toolchain.ListTeams(ctx, c, in.page()))
}

func (s *Server) deleteTeam(ctx context.Context, c enplace.Caller, in *TeamName) (*struct{}, error) {
	return none(s.cfg.Toolchain.DeleteTeam(ctx, c, in.Team))
}

func (s *Server) putPerson(ctx context.Context, c enplace.Caller, in *struct {
	PersonLogin
	Nothing
}) (*One[enplace.Person], error) {
	return one(s.cfg.Toolchain.PutPerson(ctx, c, in.Person))
}

func (s *Server) getPerson(ctx context.Context, c enplace.Caller, in *PersonLogin) (*One[enplace.Person], error) {
	return one(s.cfg.Toolchain.Person(ctx, c, in.Person))
}

func (s *Server) listPeople(ctx context.Context, c enplace.Caller, in *PageParams) (*One[enplace.List[enplace.Person]], error) {
	return list(s.cfg.Toolchain.ListPeople(ctx, c, in.page()))
}

func (s *Server) deletePerson(ctx context.Context, c enplace.Caller, in *PersonLogin) (*struct{}, error) {
	return none(s.cfg.Toolchain.DeletePerson(ctx, c, in.Person))
}

func (s *Server) putRoom(ctx context.Context, c enplace.Caller, in *struct {
	RoomName
	JSONBody[enplace.PutRoom]
}) (*One[enplace.Room], error) {
	return one(s.cfg.Toolchain.PutRoom(ctx, c, in.Room, in.Body))
}

func (s *Server) getRoom(ctx context.Context, c enplace.Caller, in *RoomName) (*One[enplace.Room], error) {
	return one(s.cfg.Toolchain.Room(ctx, c, in.Room))
}

func (s *Server) listRooms(ctx context.Context, c enplace.Caller, in *PageParams) (*One[enplace.List[enplace.Room]], error) {
	return list(s.cfg.Toolchain.ListRooms(ctx, c, in.page()))
}

func (s *Server) deleteRoom(ctx context.Context, c enplace.Caller, in *RoomName) (*struct{}, error) {
	return none(s.cfg.Toolchain.DeleteRoom(ctx, c, in.Room))
}
