// Package audit writes the record of every change. Capabilities call it once a change is acknowledged, so that API, command
// line and background work leave the same trace.
package audit

import (
	"context"
	"log/slog"
	"time"

	"enplace"
)

// Store keeps entries.
type Store interface {
	AppendAudit(ctx context.Context, e enplace.AuditEntry) error
}

// Log writes entries. It is safe for concurrent use.
type Log struct {
	store  Store
	logger *slog.Logger
	now    func() time.Time
}

// New makes a Log. All arguments are required.
func New(store Store, logger *slog.Logger, now func() time.Time) *Log {
	return &Log{store: store, logger: logger, now: now}
}

// Record writes that the caller did an action to a target. A record that cannot be written is logged as an error: the
// change it tells of stands.
func (l *Log) Record(ctx context.Context, c enplace.Caller, action, target string, detail map[string]any) {
	now := l.now()
	e := enplace.AuditEntry{
		ID: enplace.NewID(enplace.PrefixAudit, now), At: now, Actor: c.Name(), KeyID: c.KeyID,
		Action: action, Target: target, Detail: detail,
	}
	if err := l.store.AppendAudit(context.WithoutCancel(ctx), e); err != nil {
		l.logger.ErrorContext(ctx, "audit entry lost", "action", action, "target", target, "actor", e.Actor, "err", err)
		return
	}
	l.logger.InfoContext(ctx, "audit", "action", action, "target", target, "actor", e.Actor)
}
