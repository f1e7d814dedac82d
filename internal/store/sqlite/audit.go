package sqlite

import (
	"context"

	"enplace"
	"enplace/internal/store"
	"enplace/internal/store/sqlite/db"
)

func auditEntry(r db.Audit) (enplace.AuditEntry, error) {
	e := enplace.AuditEntry{ID: r.ID, At: fromMicros(r.At), Actor: r.Actor, KeyID: r.KeyID, Action: r.Action, Target: r.Target}
	return e, decode(r.Detail, &e.Detail)
}

// AppendAudit adds an entry.
func (s *Store) AppendAudit(ctx context.Context, e enplace.AuditEntry) error {
	detail, err := encode(e.Detail)
	if err != nil {
		return err
	}
	return translate(s.write.InsertAudit(ctx, db.InsertAuditParams{
		ID: e.ID, At: micros(e.At), Actor: e.Actor, KeyID: e.KeyID, Action: e.Action, Target: e.Target, Detail: detail,
	}))
}

// ListAudit gives entries newest first, all or those of one target.
func (s *Store) ListAudit(ctx context.Context, target string, p enplace.Page) (list enplace.List[enplace.AuditEntry], err error) {
	before, err := newest(p)
	if err != nil {
		return list, err
	}
	var rows []db.Audit
	if target == "" {
		rows, err = s.read.ListAudit(ctx, db.ListAuditParams{Before: before, Count: fetch(p)})
	} else {
		rows, err = s.read.ListAuditOf(ctx, db.ListAuditOfParams{Target: target, Before: before, Count: fetch(p)})
	}
	items, err := convert(rows, err, auditEntry)
	if err != nil {
		return list, err
	}
	return store.PageOf(items, p, func(e enplace.AuditEntry) string { return store.Cursor(e.ID) }), nil
}
