package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

func item(r db.Item) (enplace.Item, error) {
	i := enplace.Item{
		Scope: enplace.Scope(r.Scope), Plugin: r.Plugin.String, Mode: enplace.ItemMode(r.Mode),
		Enabled: r.Enabled, Locked: r.Locked, UpdatedAt: fromMicros(r.UpdatedAt),
	}
	err := errors.Join(decode(r.Definition, &i.Definition), decode(r.Findings, &i.Findings))
	_, err2 := attach(i.Files, r.Contents)
	return i, errors.Join(err, err2)
}

func itemRow(i enplace.Item) (db.Item, error) {
	var contents []byte
	i.Files, contents = detach(i.Files, []byte{})
	findings, err := encode(i.Findings)
	definition, err2 := encode(i.Definition)
	return db.Item{
		Scope: string(i.Scope), Key: i.Key, Plugin: nullable(i.Plugin), Mode: string(i.Mode), Enabled: i.Enabled, Locked: i.Locked,
		UpdatedAt: micros(i.UpdatedAt), Findings: findings, Definition: definition, Contents: contents,
	}, errors.Join(err, err2)
}

// sameRow reports whether two rows of one key are equal.
func sameRow(a, b db.Item) bool {
	same := bytes.Equal(a.Contents, b.Contents)
	a.Contents, b.Contents = nil, nil
	return same && reflect.DeepEqual(a, b)
}

// itemRows gives the rows of a plugin's items by key.
func itemRows(p enplace.Plugin, items []enplace.Item) ([]db.Item, error) {
	rows, err := convert(items, nil, func(i enplace.Item) (db.Item, error) {
		i.Scope, i.Plugin = p.Scope, p.ID
		return itemRow(i)
	})
	slices.SortFunc(rows, func(a, b db.Item) int { return cmp.Compare(a.Key, b.Key) })
	return rows, err
}

// Item gives one item of a scope.
func (s *Store) Item(ctx context.Context, scope enplace.Scope, key string) (enplace.Item, error) {
	r, err := s.read.GetItem(ctx, db.GetItemParams{Scope: string(scope), Key: key})
	if err != nil {
		return enplace.Item{}, translate(err)
	}
	return item(r)
}

// UpdateItem lets change edit how an item is offered.
func (s *Store) UpdateItem(ctx context.Context, scope enplace.Scope, key string, change func(*enplace.Item) error) (out enplace.Item, err error) {
	err = s.change(ctx, func(q *db.Queries) error {
		r, err := q.GetItem(ctx, db.GetItemParams{Scope: string(scope), Key: key})
		if err != nil {
			return err
		}
		i, err := item(r)
		if err != nil {
			return err
		}
		if err := change(&i); err != nil {
			return err
		}
		r.Mode, r.Enabled, r.Locked, r.UpdatedAt = string(i.Mode), i.Enabled, i.Locked, micros(i.UpdatedAt)
		if out, err = item(r); err != nil { // as stored: what may not be edited is as it was
			return err
		}
		err = q.OfferItem(ctx, db.OfferItemParams{Scope: r.Scope, Key: r.Key, Mode: r.Mode, Enabled: r.Enabled, Locked: r.Locked, UpdatedAt: r.UpdatedAt})
		if err != nil {
			return err
		}
		return q.RaiseDeclared(ctx)
	})
	return out, err
}

// deleteItem removes an item, and the choices that were about it.
func deleteItem(ctx context.Context, q *db.Queries, r db.Item) error {
	if err := some(q.DeleteItem(ctx, db.DeleteItemParams{Scope: r.Scope, Key: r.Key})); err != nil {
		return err
	}
	return q.DropChoices(ctx, r.Key)
}

// PutChoice sets what a scope says of a key.
func (s *Store) PutChoice(ctx context.Context, c enplace.Choice, now time.Time) error {
	return s.change(ctx, func(q *db.Queries) error {
		if err := putChoice(ctx, q, c, now); err != nil {
			return err
		}
		return q.RaiseDeclared(ctx)
	})
}

func putChoice(ctx context.Context, q *db.Queries, c enplace.Choice, now time.Time) error {
	if c.State == enplace.ChoiceInherit {
		return q.DeleteChoice(ctx, db.DeleteChoiceParams{Scope: string(c.Scope), Key: c.Key})
	}
	reads, err := q.ReadsKey(ctx, db.ReadsKeyParams{Key: c.Key, Scope: string(c.Scope), Person: c.Scope.Person()})
	if err != nil {
		return err
	}
	if !reads {
		return store.ErrNotFound
	}
	return q.PutChoice(ctx, db.PutChoiceParams{Scope: string(c.Scope), Key: c.Key, State: string(c.State), UpdatedAt: micros(now)})
}

// PutEgress sets the policy of a scope.
func (s *Store) PutEgress(ctx context.Context, scope enplace.Scope, e *enplace.Egress, now time.Time) error {
	policy, err := encode(e)
	if err != nil {
		return err
	}
	return s.change(ctx, func(q *db.Queries) error {
		if e == nil {
			err = q.DeletePolicy(ctx, string(scope))
		} else {
			err = q.PutPolicy(ctx, db.PutPolicyParams{Scope: string(scope), UpdatedAt: micros(now), Egress: policy})
		}
		if err != nil {
			return err
		}
		return q.RaiseDeclared(ctx)
	})
}
