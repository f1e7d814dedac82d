package toolchain

import (
	"context"
	"errors"
	"slices"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/store"
)

// mayOperate lets through whoever may change teams, people and rooms: operators.
func mayOperate(c enplace.Caller, what, id string) error {
	return access.Check(c, access.Operate, access.Thing{What: what, ID: id})
}

// mayRead lets through everybody who belongs to the organisation.
func mayRead(c enplace.Caller, what, id, owner string) error {
	return access.Check(c, access.Read, access.Thing{What: what, ID: id, Owner: owner, Shared: true})
}

// missing answers for a record that is not there.
func missing(err error, what, id string) error {
	if errors.Is(err, store.ErrNotFound) {
		return access.Unknown(access.Thing{What: what, ID: id})
	}
	return err
}

// PutTeam makes a team, or changes its people.
func (s *Service) PutTeam(ctx context.Context, c enplace.Caller, name string, in enplace.PutTeam) (enplace.Team, error) {
	if err := mayOperate(c, "team", name); err != nil {
		return enplace.Team{}, err
	}
	if err := enplace.CheckHandle("team", name); err != nil {
		return enplace.Team{}, err
	}
	people := slices.Clone(in.People)
	slices.Sort(people)
	people = slices.Compact(people)
	for _, login := range people {
		if err := enplace.CheckLogin(login); err != nil {
			return enplace.Team{}, err
		}
	}
	now := s.cfg.Now().UTC()
	t, err := s.cfg.Store.PutTeam(ctx, enplace.Team{Name: name, People: append([]string{}, people...), CreatedAt: now, UpdatedAt: now})
	if err != nil {
		return enplace.Team{}, err
	}
	s.cfg.Audit.Record(ctx, c, "team.put", name, map[string]any{"people": people})
	return t, nil
}

// Team gives a team.
func (s *Service) Team(ctx context.Context, c enplace.Caller, name string) (enplace.Team, error) {
	if err := mayRead(c, "team", name, ""); err != nil {
		return enplace.Team{}, err
	}
	t, err := s.cfg.Store.Team(ctx, name)
	return t, missing(err, "team", name)
}

// ListTeams gives the teams by name.
func (s *Service) ListTeams(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Team], error) {
	if err := access.CheckList(c, "teams"); err != nil {
		return enplace.List[enplace.Team]{}, err
	}
	return s.cfg.Store.ListTeams(ctx, p)
}

// DeleteTeam removes a team that owns nothing any more.
func (s *Service) DeleteTeam(ctx context.Context, c enplace.Caller, name string) error {
	if err := mayOperate(c, "team", name); err != nil {
		return err
	}
	err := s.cfg.Store.DeleteTeam(ctx, name)
	if errors.Is(err, store.ErrConflict) {
		return emptying(enplace.Conflictf("the team %s still has plugins, choices about items, rooms, secrets or a policy; remove these first", name), enplace.TeamScope(name)).
			WithFix("enplace room list shows its rooms; enplace room put NAME, with another team or none, or enplace room remove NAME takes one away")
	}
	return s.removed(ctx, c, missing(err, "team", name), "team.delete", name)
}

// emptying adds what shows and removes each of the things that a scope declares.
func emptying(e *enplace.Error, scope enplace.Scope) *enplace.Error {
	return e.WithFix("enplace plugin list --scope %s shows its plugins; enplace plugin remove PLUGIN removes one", scope).
		WithFix("enplace item list --scope %s shows its choices; enplace item inherit %[1]s KEY takes one back", scope).
		WithFix("enplace keychain list %s shows its secrets; enplace keychain remove %[1]s NAME removes one", scope).
		WithFix("enplace egress remove %s removes its policy", scope)
}

func (s *Service) removed(ctx context.Context, c enplace.Caller, err error, action, target string) error {
	if err == nil {
		s.cfg.Audit.Record(ctx, c, action, target, nil)
	}
	return err
}

// PutPerson makes a person, or leaves one as they are.
func (s *Service) PutPerson(ctx context.Context, c enplace.Caller, login string) (enplace.Person, error) {
	if err := mayOperate(c, "person", login); err != nil {
		return enplace.Person{}, err
	}
	if err := enplace.CheckLogin(login); err != nil {
		return enplace.Person{}, err
	}
	p, err := s.cfg.Store.PutPerson(ctx, enplace.Person{Login: login, CreatedAt: s.cfg.Now().UTC()})
	if err != nil {
		return enplace.Person{}, err
	}
	s.cfg.Audit.Record(ctx, c, "person.put", login, nil)
	return p, nil
}

// Person gives a person.
func (s *Service) Person(ctx context.Context, c enplace.Caller, login string) (enplace.Person, error) {
	if err := mayRead(c, "person", login, login); err != nil {
		return enplace.Person{}, err
	}
	p, err := s.cfg.Store.Person(ctx, login)
	return p, missing(err, "person", login)
}

// ListPeople gives the people by login.
func (s *Service) ListPeople(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Person], error) {
	if err := access.CheckList(c, "people"); err != nil {
		return enplace.List[enplace.Person]{}, err
	}
	return s.cfg.Store.ListPeople(ctx, p)
}

// DeletePerson removes a person who owns nothing any more.
func (s *Service) DeletePerson(ctx context.Context, c enplace.Caller, login string) error {
	if err := mayOperate(c, "person", login); err != nil {
		return err
	}
	err := s.cfg.Store.DeletePerson(ctx, login)
	if errors.Is(err, store.ErrConflict) {
		e := enplace.Conflictf("the person %s still has a computer, plugins, choices about items, secrets or a policy; remove these first", login)
		return emptying(e.WithFix("enplace computer reset person:%s --yes removes the computer with all its files", login), enplace.PersonScope(login))
	}
	return s.removed(ctx, c, missing(err, "person", login), "person.delete", login)
}

// PutRoom makes a room, or changes it.
func (s *Service) PutRoom(ctx context.Context, c enplace.Caller, name string, in enplace.PutRoom) (enplace.Room, error) {
	if err := mayOperate(c, "room", name); err != nil {
		return enplace.Room{}, err
	}
	if err := enplace.CheckHandle("room", name); err != nil {
		return enplace.Room{}, err
	}
	now := s.cfg.Now().UTC()
	r, err := s.cfg.Store.PutRoom(ctx, enplace.Room{Name: name, Team: in.Team, Internal: in.Internal, CreatedAt: now, UpdatedAt: now})
	if err != nil {
		return enplace.Room{}, absent(err, "team", in.Team, "team", "make it first: enplace team put NAME --person LOGIN")
	}
	s.cfg.Audit.Record(ctx, c, "room.put", name, map[string]any{"team": in.Team, "internal": in.Internal})
	return r, nil
}

// Room gives a room.
func (s *Service) Room(ctx context.Context, c enplace.Caller, name string) (enplace.Room, error) {
	if err := mayRead(c, "room", name, ""); err != nil {
		return enplace.Room{}, err
	}
	r, err := s.cfg.Store.Room(ctx, name)
	return r, missing(err, "room", name)
}

// ListRooms gives the rooms by name.
func (s *Service) ListRooms(ctx context.Context, c enplace.Caller, p enplace.Page) (enplace.List[enplace.Room], error) {
	if err := access.CheckList(c, "rooms"); err != nil {
		return enplace.List[enplace.Room]{}, err
	}
	return s.cfg.Store.ListRooms(ctx, p)
}

// DeleteRoom removes a room without a computer.
func (s *Service) DeleteRoom(ctx context.Context, c enplace.Caller, name string) error {
	if err := mayOperate(c, "room", name); err != nil {
		return err
	}
	err := s.cfg.Store.DeleteRoom(ctx, name)
	if errors.Is(err, store.ErrConflict) {
		return enplace.Conflictf("the room %s still has a computer", name).WithFix("enplace computer reset room:%s --yes removes it with all its files", name)
	}
	return s.removed(ctx, c, missing(err, "room", name), "room.delete", name)
}
