package sqlite

import (
	"context"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

// PutTeam makes a team or replaces its people.
func (s *Store) PutTeam(ctx context.Context, t enplace.Team) (enplace.Team, error) {
	var out enplace.Team
	err := s.change(ctx, func(q *db.Queries) error {
		r, err := q.PutTeam(ctx, db.PutTeamParams{Name: t.Name, CreatedAt: micros(t.CreatedAt), UpdatedAt: micros(t.UpdatedAt)})
		if err != nil {
			return err
		}
		if err := q.InsertScope(ctx, string(enplace.TeamScope(t.Name))); err != nil {
			return err
		}
		if err := q.ClearTeam(ctx, t.Name); err != nil {
			return err
		}
		for _, login := range t.People {
			if err := insertPerson(ctx, q, login, r.UpdatedAt); err != nil {
				return err
			}
			if err := q.InsertMember(ctx, db.InsertMemberParams{Team: t.Name, Login: login}); err != nil {
				return err
			}
		}
		if out, err = team(ctx, q, r); err != nil {
			return err
		}
		return q.RaiseDeclared(ctx)
	})
	return out, err
}

func team(ctx context.Context, q *db.Queries, r db.Team) (enplace.Team, error) {
	people, err := q.PeopleOf(ctx, r.Name)
	return enplace.Team{Name: r.Name, People: listOf(people), CreatedAt: fromMicros(r.CreatedAt), UpdatedAt: fromMicros(r.UpdatedAt)}, err
}

// listOf gives a list of names as it is on the wire: [] when there are none.
func listOf(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}

// Team gives a team with its people.
func (s *Store) Team(ctx context.Context, name string) (out enplace.Team, err error) {
	err = s.view(ctx, func(q *db.Queries) error {
		r, err := q.GetTeam(ctx, name)
		if err != nil {
			return err
		}
		out, err = team(ctx, q, r)
		return err
	})
	return out, err
}

// ListTeams gives them by name.
func (s *Store) ListTeams(ctx context.Context, p enplace.Page) (list enplace.List[enplace.Team], err error) {
	after, err := following(p)
	if err != nil {
		return list, err
	}
	err = s.view(ctx, func(q *db.Queries) error {
		rows, err := q.ListTeams(ctx, db.ListTeamsParams{After: after, Count: fetch(p)})
		items, err := convert(rows, err, func(r db.Team) (enplace.Team, error) { return team(ctx, q, r) })
		list = store.PageOf(items, p, func(t enplace.Team) string { return store.Cursor(t.Name) })
		return err
	})
	return list, err
}

// DeleteTeam removes a team that nothing belongs to.
func (s *Store) DeleteTeam(ctx context.Context, name string) error {
	return s.change(ctx, func(q *db.Queries) error {
		if err := unneeded(q.DeleteScope(ctx, string(enplace.TeamScope(name)))); err != nil {
			return err
		}
		if err := unneeded(q.DeleteTeam(ctx, name)); err != nil {
			return err
		}
		return q.RaiseDeclared(ctx)
	})
}

// insertPerson makes a person who is not known yet.
func insertPerson(ctx context.Context, q *db.Queries, login string, at int64) error {
	if err := q.InsertPerson(ctx, db.InsertPersonParams{Login: login, CreatedAt: at}); err != nil {
		return err
	}
	return q.InsertScope(ctx, string(enplace.PersonScope(login)))
}

// PutPerson makes a person, or leaves one as is.
func (s *Store) PutPerson(ctx context.Context, p enplace.Person) (out enplace.Person, err error) {
	err = s.change(ctx, func(q *db.Queries) error {
		if err := insertPerson(ctx, q, p.Login, micros(p.CreatedAt)); err != nil {
			return err
		}
		r, err := q.GetPerson(ctx, p.Login)
		if err != nil {
			return err
		}
		out, err = person(ctx, q, r)
		return err
	})
	return out, err
}

func person(ctx context.Context, q *db.Queries, r db.Person) (enplace.Person, error) {
	teams, err := q.TeamsOf(ctx, r.Login)
	return enplace.Person{Login: r.Login, Teams: listOf(teams), CreatedAt: fromMicros(r.CreatedAt)}, err
}

// Person gives a person with their teams.
func (s *Store) Person(ctx context.Context, login string) (out enplace.Person, err error) {
	err = s.view(ctx, func(q *db.Queries) error {
		r, err := q.GetPerson(ctx, login)
		if err != nil {
			return err
		}
		out, err = person(ctx, q, r)
		return err
	})
	return out, err
}

// ListPeople gives them by login.
func (s *Store) ListPeople(ctx context.Context, p enplace.Page) (list enplace.List[enplace.Person], err error) {
	after, err := following(p)
	if err != nil {
		return list, err
	}
	err = s.view(ctx, func(q *db.Queries) error {
		rows, err := q.ListPeople(ctx, db.ListPeopleParams{After: after, Count: fetch(p)})
		items, err := convert(rows, err, func(r db.Person) (enplace.Person, error) { return person(ctx, q, r) })
		list = store.PageOf(items, p, func(p enplace.Person) string { return store.Cursor(p.Login) })
		return err
	})
	return list, err
}

// DeletePerson removes a person to whom nothing belongs.
func (s *Store) DeletePerson(ctx context.Context, login string) error {
	return s.change(ctx, func(q *db.Queries) error {
		if err := unneeded(q.DeleteScope(ctx, string(enplace.PersonScope(login)))); err != nil {
			return err
		}
		if err := unneeded(q.DeletePerson(ctx, login)); err != nil {
			return err
		}
		return q.RaiseDeclared(ctx)
	})
}
