package sqlite

import (
	"cmp"
	"context"
	"slices"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

// between is a range of scopes, both ends among them.
type between struct{ First, Last string }

// allScopes is in the order that lists by scope have. No name holds a tilde, and every letter of one comes before it.
var allScopes = []between{
	{string(enplace.Organisation), string(enplace.Organisation)},
	{string(enplace.TeamScope("")), string(enplace.TeamScope("~"))},
	{string(enplace.PersonScope("")), string(enplace.PersonScope("~"))},
}

// rangesOf gives the ranges that hold these scopes, or all for none, by depth and name.
func rangesOf(scopes []enplace.Scope) []between {
	if len(scopes) == 0 {
		return allScopes
	}
	scopes = slices.Clone(scopes)
	slices.SortFunc(scopes, func(a, b enplace.Scope) int { return cmp.Or(cmp.Compare(a.Depth(), b.Depth()), cmp.Compare(a, b)) })
	ranges := make([]between, 0, len(scopes))
	for _, s := range slices.Compact(scopes) {
		ranges = append(ranges, between{string(s), string(s)})
	}
	return ranges
}

// Declared gives what scopes declare, from one state of the database.
func (s *Store) Declared(ctx context.Context, scopes []enplace.Scope) (store.Declared, error) {
	out := store.Declared{Egress: map[enplace.Scope]enplace.Egress{}}
	err := s.view(ctx, func(q *db.Queries) (err error) {
		if out.At, err = q.DeclaredAt(ctx); err != nil {
			return err
		}
		for _, r := range rangesOf(scopes) {
			if err := declaredBetween(ctx, q, r, &out); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

func declaredBetween(ctx context.Context, q *db.Queries, scopes between, out *store.Declared) error {
	rows, err := q.ItemsBetween(ctx, db.ItemsBetweenParams(scopes))
	items, err := convert(rows, err, item)
	if err != nil {
		return err
	}
	out.Items = append(out.Items, items...)
	choices, err := q.ChoicesBetween(ctx, db.ChoicesBetweenParams(scopes))
	if err != nil {
		return err
	}
	for _, c := range choices {
		out.Choices = append(out.Choices, enplace.Choice{Scope: enplace.Scope(c.Scope), Key: c.Key, State: enplace.ItemChoice(c.State)})
	}
	policies, err := q.PoliciesBetween(ctx, db.PoliciesBetweenParams(scopes))
	if err != nil {
		return err
	}
	for _, p := range policies {
		var e enplace.Egress
		if err := decode(p.Egress, &e); err != nil {
			return err
		}
		out.Egress[enplace.Scope(p.Scope)] = e
	}
	return nil
}

// DeclaredAt says how often what scopes declare, or who is in a team, has changed.
func (s *Store) DeclaredAt(ctx context.Context) (int64, error) {
	return one(s.read.DeclaredAt(ctx))
}
