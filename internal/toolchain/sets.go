package toolchain

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"enplace"
	"enplace/internal/access"
	"enplace/internal/store"
)

// resolved is the set of a chain, good for as long as nothing that was declared has changed; not for ever, or a set that is asked
// for and never used would be collected meanwhile.
type resolved struct {
	declared int64
	base     enplace.Digest
	at       time.Time
	set      store.SetRecord
}

// resolvedFor is how long a set is held in memory, at most: much less than any retention.
const resolvedFor = time.Hour

// SetOf gives the set of a conversation as things stand; its bundle is as it stood when the set was resolved. It costs a database
// read or two where nothing changed.
func (s *Service) SetOf(ctx context.Context, conv enplace.Conversation) (store.SetRecord, error) {
	b, ok := s.cfg.Base()
	if !ok {
		return store.SetRecord{}, enplace.Errorf(enplace.KindUnavailable, "the base system is not there yet").
			WithFix("wait for /readyz, or run enplace base build on the server")
	}
	chain, err := s.chain(ctx, conv)
	if err != nil {
		return store.SetRecord{}, err
	}
	at, err := s.cfg.Store.DeclaredAt(ctx) // before what is declared is read, so that no change is missed
	if err != nil {
		return store.SetRecord{}, fmt.Errorf("looking for changes: %w", err)
	}
	key := chainKey(chain)
	s.mu.Lock()
	have, ok := s.resolved[key]
	s.mu.Unlock()
	now := s.cfg.Now()
	if ok && have.declared == at && have.base == b.Digest && now.Sub(have.at) < min(resolvedFor, s.cfg.Retention/2) {
		return have.set, nil
	}
	declared, err := s.cfg.Store.Declared(ctx, chain)
	if err != nil {
		return store.SetRecord{}, fmt.Errorf("reading what is declared: %w", err)
	}
	rec, err := s.record(ctx, enplace.SetInput{
		Chain: chain, Items: declared.Items, Choices: declared.Choices, Egress: declared.Egress, Base: b.Digest, Arch: runtime.GOARCH, Mise: b.Mise,
	})
	if err != nil {
		return store.SetRecord{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.resolved) >= maxResolved { // forgotten together, and found again when they are asked for
		clear(s.resolved)
		clear(s.noted)
	}
	s.resolved[key] = resolved{declared: at, base: b.Digest, at: now, set: rec}
	return rec, nil
}

// maxResolved bounds the chains whose set is held in memory, and with them the sets.
const maxResolved = 10_000

func chainKey(chain enplace.Chain) string {
	parts := make([]string, 0, len(chain))
	for _, s := range chain {
		parts = append(parts, string(s))
	}
	return strings.Join(parts, " ")
}

// record resolves a set and keeps it. Where a refresh was asked for, the set that was refreshed leads to the one in its place.
func (s *Service) record(ctx context.Context, in enplace.SetInput) (store.SetRecord, error) {
	now := s.cfg.Now().UTC()
	for {
		set := enplace.ResolveSet(in)
		rec, err := s.cfg.Store.PutSet(ctx, store.SetRecord{Set: set, Bundle: unprepared(set), CreatedAt: now, UsedAt: now})
		if err != nil {
			return store.SetRecord{}, fmt.Errorf("keeping a set: %w", err)
		}
		if rec.NextRefresh <= in.Refresh {
			// What the chain leaves out, and what clashes, is of this chain, and locks are of this moment; the rest is of every chain
			// with this set.
			rec.Chain, rec.Items, rec.Left, rec.Clashes = set.Chain, set.Items, set.Left, set.Clashes
			return rec, nil
		}
		in.Refresh = rec.NextRefresh
	}
}

// unprepared is the bundle of a set that nobody has used yet.
func unprepared(set enplace.Set) enplace.Bundle {
	if ok, why := set.Prepared(); !ok {
		return enplace.Bundle{Status: enplace.BundleNotPrepared, Reason: why}
	}
	return enplace.Bundle{Status: enplace.BundleNotPrepared, Reason: "it is built when the set is first used"}
}

// Refresh has what a conversation's set asks for as latest, or as a range, resolved anew: another set of the same items takes
// its place, with a bundle of its own.
func (s *Service) Refresh(ctx context.Context, c enplace.Caller, conversation string) (store.SetRecord, error) {
	conv, err := s.Conversation(ctx, c, access.Run, conversation)
	if err != nil {
		return store.SetRecord{}, err
	}
	if c.Kind == enplace.KeyAgent {
		return store.SetRecord{}, enplace.Errorf(enplace.KindForbidden, "an agent may not refresh a set").WithFix("ask a person of the conversation")
	}
	old, err := s.SetOf(ctx, conv)
	if err != nil {
		return store.SetRecord{}, err
	}
	if _, err := s.updateSet(ctx, old.Hash, func(r *store.SetRecord) { r.NextRefresh = old.Refresh + 1 }); err != nil {
		return store.SetRecord{}, missing(err, "set", old.Hash)
	}
	s.mu.Lock()
	clear(s.resolved)
	s.mu.Unlock()
	s.cfg.Audit.Record(ctx, c, "set.refresh", old.Hash, nil)
	return s.SetOf(ctx, conv)
}

// Set gives a set by its hash. Whoever belongs to the organisation and knows the hash may see it.
func (s *Service) Set(ctx context.Context, c enplace.Caller, hash string) (store.SetRecord, error) {
	if err := mayRead(c, "set", hash, ""); err != nil {
		return store.SetRecord{}, err
	}
	return s.Stored(ctx, hash)
}

// Stored gives a set by its hash, with its bundle as it stands.
func (s *Service) Stored(ctx context.Context, hash string) (store.SetRecord, error) {
	rec, err := s.cfg.Store.Set(ctx, hash)
	return rec, missing(err, "set", hash)
}

// Policies gives the egress policies of a chain, the outermost scope's first.
func (s *Service) Policies(ctx context.Context, chain enplace.Chain) ([]enplace.ScopeEgress, error) {
	declared, err := s.cfg.Store.Declared(ctx, chain)
	if err != nil {
		return nil, fmt.Errorf("reading egress policies: %w", err)
	}
	all := []enplace.ScopeEgress{}
	for _, scope := range chain {
		if e, ok := declared.Egress[scope]; ok {
			all = append(all, enplace.ScopeEgress{Scope: scope, Egress: e})
		}
	}
	return all, nil
}

// collect forgets sets that nobody used for long, and the logs of those that are gone. Their bundles go with the next collection of
// images.
func (s *Service) collect(ctx context.Context) error {
	if !s.cfg.Settled(s.cfg.Retention) { // by their dates some would go too early
		return s.sweepLogs(ctx)
	}
	n, err := s.cfg.Store.DeleteSets(ctx, s.cfg.Now().Add(-s.cfg.Retention))
	if err != nil {
		return fmt.Errorf("forgetting unused sets: %w", err)
	}
	if n > 0 {
		s.mu.Lock()
		clear(s.resolved)
		clear(s.noted)
		s.mu.Unlock()
		s.cfg.Logger.Info("forgot unused sets", "sets", n)
	}
	return s.sweepLogs(ctx)
}
