package sqlite

import (
	"context"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

func plugin(record string) (p enplace.Plugin, err error) {
	return p, decode(record, &p)
}

// storedPlugin gives a plugin as the store keeps it, with the keys of its items.
func storedPlugin(p enplace.Plugin, rows []db.Item) enplace.Plugin {
	p.Items = make([]string, 0, len(rows))
	for _, r := range rows {
		p.Items = append(p.Items, r.Key)
	}
	p.SyncedAt, p.TriedAt, p.CreatedAt = kept(p.SyncedAt), kept(p.TriedAt), kept(p.CreatedAt)
	return p
}

// CreatePlugin adds a plugin with its items.
func (s *Store) CreatePlugin(ctx context.Context, p enplace.Plugin, items []enplace.Item) error {
	rows, err := itemRows(p, items)
	if err != nil {
		return err
	}
	record, err := encode(storedPlugin(p, rows))
	if err != nil {
		return err
	}
	return s.change(ctx, func(q *db.Queries) error {
		err := q.InsertPlugin(ctx, db.InsertPluginParams{ID: p.ID, Scope: string(p.Scope), Name: p.Name, CreatedAt: micros(p.CreatedAt), Record: record})
		if err != nil {
			return err
		}
		return replaceItems(ctx, q, nil, rows)
	})
}

// Plugin gives one.
func (s *Store) Plugin(ctx context.Context, id string) (enplace.Plugin, error) {
	record, err := s.read.GetPlugin(ctx, id)
	if err != nil {
		return enplace.Plugin{}, translate(err)
	}
	return plugin(record)
}

// ListPlugins gives those of one scope, or all.
func (s *Store) ListPlugins(ctx context.Context, scope enplace.Scope, p enplace.Page) (list enplace.List[enplace.Plugin], err error) {
	before, err := newest(p)
	if err != nil {
		return list, err
	}
	rows, err := s.read.ListPlugins(ctx, db.ListPluginsParams{Scope: string(scope), Before: before, Count: fetch(p)})
	items, err := convert(rows, err, plugin)
	if err != nil {
		return list, err
	}
	return store.PageOf(items, p, func(p enplace.Plugin) string { return store.Cursor(p.ID) }), nil
}

// PluginsNamed gives the ids of the plugins of a name, by their scopes.
func (s *Store) PluginsNamed(ctx context.Context, name string) (map[enplace.Scope]string, error) {
	rows, err := s.read.PluginsNamed(ctx, name)
	if err != nil {
		return nil, translate(err)
	}
	ids := make(map[enplace.Scope]string, len(rows))
	for _, r := range rows {
		ids[enplace.Scope(r.Scope)] = r.ID
	}
	return ids, nil
}

// SyncPlugin reads a plugin with its items, lets change edit it and say what its items are now, and writes both.
func (s *Store) SyncPlugin(ctx context.Context, id string, change func(*enplace.Plugin, []enplace.Item) ([]enplace.Item, error)) (out enplace.Plugin, err error) {
	err = s.change(ctx, func(q *db.Queries) error {
		record, err := q.GetPlugin(ctx, id)
		if err != nil {
			return err
		}
		was, err := plugin(record)
		if err != nil {
			return err
		}
		had, err := q.ItemsOfPlugin(ctx, nullable(id))
		have, err := convert(had, err, item)
		if err != nil {
			return err
		}
		p := was
		items, err := change(&p, have)
		if err != nil {
			return err
		}
		p.ID, p.Scope, p.CreatedAt = was.ID, was.Scope, was.CreatedAt
		rows, err := itemRows(p, items)
		if err != nil {
			return err
		}
		out = storedPlugin(p, rows)
		if record, err = encode(out); err != nil {
			return err
		}
		if err := q.UpdatePlugin(ctx, db.UpdatePluginParams{ID: id, Name: p.Name, Record: record}); err != nil {
			return err
		}
		return replaceItems(ctx, q, had, rows)
	})
	return out, err
}

// replaceItems writes what differs between the items that a plugin had and has: a sync that found nothing new costs nothing,
// and whoever asks DeclaredAt is not told of a change.
func replaceItems(ctx context.Context, q *db.Queries, had, have []db.Item) error {
	before := map[string]db.Item{}
	for _, r := range had {
		before[r.Key] = r
	}
	changed := false
	for _, r := range have {
		was, there := before[r.Key]
		delete(before, r.Key)
		var err error
		switch {
		case !there: // a key that the list has twice comes here the second time, and is refused as a stranger's would be
			err = q.InsertItem(ctx, db.InsertItemParams(r))
		case !sameRow(was, r):
			err = q.ReplaceItem(ctx, db.ReplaceItemParams{
				Scope: r.Scope, Key: r.Key, Mode: r.Mode, Enabled: r.Enabled, Locked: r.Locked,
				UpdatedAt: r.UpdatedAt, Findings: r.Findings, Definition: r.Definition, Contents: r.Contents,
			})
		default:
			continue
		}
		if err != nil {
			return err
		}
		changed = true
	}
	for _, r := range before {
		if err := deleteItem(ctx, q, r); err != nil {
			return err
		}
		changed = true
	}
	if !changed {
		return nil
	}
	return q.RaiseDeclared(ctx)
}

// DeletePlugin removes a plugin with its items.
func (s *Store) DeletePlugin(ctx context.Context, id string) error {
	return s.change(ctx, func(q *db.Queries) error {
		keys, err := q.KeysOfPlugin(ctx, nullable(id))
		if err != nil {
			return err
		}
		if err := some(q.DeletePlugin(ctx, id)); err != nil {
			return err
		}
		for _, key := range keys {
			if err := q.DropChoices(ctx, key); err != nil {
				return err
			}
		}
		return q.RaiseDeclared(ctx)
	})
}
